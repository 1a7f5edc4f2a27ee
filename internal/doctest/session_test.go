package doctest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/cloudlab"
)

// place is the directory that a session is in.
type place struct {
	t   *testing.T
	dir string
	env []string
}

// setups prepare sessions, by name.
var setups = map[string]func(*place){
	"sandbox":       func(*place) {},
	"modules":       func(*place) {},
	"files":         func(*place) {},
	"sandbox state": func(p *place) { p.sh("npctl init && npctl apply -auto-approve") },
	"openstack":     openstackSession,
	"review":        reviewSession,
}

// TestSessionsMatchActualOutput runs the sessions of all pages. The lines that a page shows must come out, whatever
// differs from run to run aside; a line with nothing but … stands for others.
func TestSessionsMatchActualOutput(t *testing.T) {
	ran := 0
	for _, page := range pages(t) {
		blocks, _ := fences(t, page)
		byName := map[string][]fence{}
		var names []string
		for _, b := range blocks {
			if b.session == "" {
				continue
			}
			if byName[b.session] == nil {
				names = append(names, b.session)
			}
			byName[b.session] = append(byName[b.session], b)
		}
		for _, name := range names {
			ran++
			t.Run(page+"/"+name, func(t *testing.T) {
				t.Parallel()
				setup, known := setups[name]
				if !known {
					t.Fatalf("%s: no session is called %q", byName[name][0], name)
				}
				p := newPlace(t)
				setup(p)
				for _, b := range byName[name] {
					p.play(b)
				}
			})
		}
	}
	if ran < 4 {
		t.Errorf("only %d sessions found", ran)
	}
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	return &place{t, dir, []string{
		"HOME=" + dir, "PATH=" + filepath.Dir(npctl) + string(os.PathListSeparator) + os.Getenv("PATH"), "NO_COLOR=1", "USER=ci",
		"GIT_AUTHOR_NAME=ci", "GIT_AUTHOR_EMAIL=ci@example.com", "GIT_COMMITTER_NAME=ci", "GIT_COMMITTER_EMAIL=ci@example.com", "GIT_CONFIG_NOSYSTEM=1",
	}}
}

func (p *place) run(line string) (string, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (p *place) sh(line string) {
	p.t.Helper()
	if out, err := p.run(line); err != nil {
		p.t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

func (p *place) write(file, text string) {
	p.t.Helper()
	testutil.WriteFile(p.t, filepath.Join(p.dir, file), text)
}

// play runs one block, or writes it.
func (p *place) play(b fence) {
	p.t.Helper()
	if b.file != "" {
		p.write(b.file, strings.Join(b.code, "\n")+"\n")
		return
	}
	var typed string
	var shown []string
	for _, line := range append(b.code, "$ ") {
		next, prompt := strings.CutPrefix(line, "$ ")
		if !prompt {
			shown = append(shown, line)
			continue
		}
		if typed != "" {
			out, err := p.run(typed)
			if err != nil {
				p.t.Fatalf("%s: %s: %v\n%s", b, typed, err, out)
			}
			compare(p.t, b, typed, shown, out)
		}
		typed, shown = next, nil
	}
}

// compare searches the output for every line of the page. Concurrent steps report in any order.
func compare(t *testing.T, b fence, typed string, shown []string, out string) {
	t.Helper()
	came := map[string]int{}
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		came[same(line)]++
	}
	whole := true
	for _, line := range shown {
		switch line = same(line); {
		case line == "…":
			whole = false
		case line == "": // layout
		case came[line] == 0:
			t.Errorf("%s: %s: this line does not come out: %s\nbut this:\n%s", b, typed, line, out)
			return
		default:
			came[line]--
		}
	}
	for line, more := range came {
		if whole && line != "" && more > 0 {
			t.Errorf("%s: %s: this line is not shown: %s", b, typed, line)
		}
	}
}

// differing are patterns of values that differ in each run, with their replacements.
var differing = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`[0-9a-f]{32}`), "HEX"},
	{regexp.MustCompile(`\(build [0-9a-f]{8}\)`), "(build HEX)"},
	{regexp.MustCompile(` \[[0-9.]+m?s\]`), ""},
	{regexp.MustCompile(`\(node\.\d{10}\)`), "(node.N)"},
	{regexp.MustCompile(`#\d+:`), "#N:"},
	{regexp.MustCompile(`127\.77\.\d+\.\d+`), "ADDRESS"},
	{regexp.MustCompile(`debian-12-\d+`), "debian-12-N"},
	{regexp.MustCompile(`Takes at least .*`), "Takes at least N"},
	{regexp.MustCompile(`, about \d+ m?s each$`), ", about N each"},
	{regexp.MustCompile(`ready \d+[smh] `), "ready AGE "},
	{regexp.MustCompile(`^(diskimage\.\S+ ready AGE) \S+ `), "$1 HOST "},
}

func same(line string) string {
	line = strings.Join(strings.Fields(line), " ")
	for _, d := range differing {
		line = d.pattern.ReplaceAllString(line, d.with)
	}
	return line
}

// maker makes the image that the README's cloud has already.
const maker = `
diskimage "debian" {
  builder "exec" { command = ["sh", "-c", "truncate -s 1M $NPCTL_OUTPUT.raw"] }
}
label "any" {}
provider "openstack" "mycloud" {
  cloud             = "mycloud"
  image_format      = "raw"
  image_name_format = "debian-12-{timestamp}"
  pool "main" {
    label "any" {
      image   = diskimage.debian
      min_ram = 1
    }
  }
}
`

// openstackSession serves an OpenStack on loopback, with an entry in clouds.yaml and an image.
func openstackSession(p *place) {
	p.t.Helper()
	cloud := cloudlab.Serve(p.t, "mycloud", emulator.Options{})
	p.env = append(p.env, "OS_CLIENT_CONFIG_FILE="+cloudlab.CloudsYAML(p.t, cloud))
	p.sh("mkdir maker")
	p.write("maker/npctl.hcl", maker)
	p.sh("npctl -chdir=maker apply -auto-approve")
}

// reviewed is a fleet in a cloud that two directories can reach.
const reviewed = `label "small" {
  min_ready = 1
}
label "other" {}
diskimage "tiny" {
  builder "exec" { command = ["sh", "-c", "truncate -s 1M $NPCTL_OUTPUT.raw"] }
}
provider "sandbox" "play" {
  file         = "CLOUD"
  build_time   = "0s"
  image_format = "raw"
  pool "main" {
    label "small" {
      image  = diskimage.tiny
      flavor = "small"
    }
    label "other" {
      image  = diskimage.tiny
      flavor = "small"
    }
  }
}
`

// reviewSession has a fleet elsewhere, with work to do, and here a copy of its state and a repository with a change.
func reviewSession(p *place) {
	p.t.Helper()
	text := strings.ReplaceAll(reviewed, "CLOUD", filepath.Join(p.dir, "cloud.json"))
	p.sh("mkdir fleet")
	p.write("fleet/npctl.hcl", text)
	p.write("npctl.hcl", text)
	p.sh("npctl fmt >/dev/null && npctl fmt -config=fleet >/dev/null && npctl -chdir=fleet apply -auto-approve && npctl -chdir=fleet snapshot >snapshot.json")
	p.sh("npctl -chdir=fleet state pull >state.json && npctl state push state.json >/dev/null") // the apply is on the machine with the state
	p.write("npctl.hcl", strings.Replace(testutil.ReadFile(p.t, filepath.Join(p.dir, "npctl.hcl")), `label "other" {}`, "label \"other\" {\n  min_ready = 1\n}", 1))
	p.sh("git init --quiet . && git add npctl.hcl && git commit --quiet --message=before")
	p.write("npctl.hcl", strings.Replace(testutil.ReadFile(p.t, filepath.Join(p.dir, "npctl.hcl")), "min_ready = 1", "min_ready = 2", 1))
	p.sh("git commit --quiet --all --message=change")
}
