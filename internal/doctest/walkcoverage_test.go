package doctest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// walked are the packages whose functions count as work for a request or an image: all but the command line, the
// driver and the cloud behind it.
var walked = []string{"drivers", "inspect", "internal/text", "plan", "reconcile", "resources", "state", "state/bolt", "watch", "watch/httpapi",
	"watch/metrics"}

// walkConfiguration has a label with a ready node, which the image is built for, and one whose nodes only requests
// launch.
const walkConfiguration = `
npctl {
  images_dir    = "images"
  build_log_dir = "logs"
  state "bolt" { path = "npctl.db" }
}
diskimage "tiny" {
  builder "exec" {
    command = ["sh", "-c", "echo hello > $NPCTL_OUTPUT.raw && truncate -s 16M $NPCTL_OUTPUT.raw"]
  }
}
label "kept" { min_ready = 1 }
label "asked" {}
provider "sandbox" "cloud" {
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "kept" {
      image  = diskimage.tiny
      flavor = "small"
    }
    label "asked" {
      image  = diskimage.tiny
      flavor = "small"
    }
  }
}
`

// TestWalksAreExecuted runs npctl with coverage, serves one image and one request, and checks that they execute each
// function of their walks, and as many functions as docs/architecture.md says.
func TestWalksAreExecuted(t *testing.T) {
	t.Parallel()
	program := coveredNpctl(t)
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "npctl.hcl"), walkConfiguration)
	d := &coveredDaemon{t: t, dir: dir, program: program}
	d.npctl("image", "pause", "tiny")
	d.start()
	d.dump()
	d.call("/v1/images/tiny/unpause", "")
	d.until("/v1/nodes?state=ready", func(answer string) bool { return strings.Contains(answer, `"id"`) })
	image := d.dump()
	answer := d.call("/v1/requests?wait=60s", `{"labels":["asked"]}`)
	var request struct{ ID, State string }
	if err := json.Unmarshal([]byte(answer), &request); err != nil || request.State != "fulfilled" {
		t.Fatalf("%v: the request is not fulfilled: %s", err, answer)
	}
	d.call("/v1/requests/"+request.ID+"/take", "")
	served := d.dump()
	walks := hops(t)
	checkExecuted(t, walks["One image"], image)
	checkExecuted(t, walks["One request"], served)
	checkCounts(t, served)
}

// coveredNpctl builds npctl with coverage of the walked packages.
func coveredNpctl(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	added, err := filepath.Abs(filepath.Join("testdata", "coverage.go"))
	testutil.Must(t, err)
	replaced, err := filepath.Abs(filepath.Join(root, "internal", "connlimit", "coverage.go"))
	testutil.Must(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{replaced: added}})
	testutil.Must(t, err)
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600))
	program := filepath.Join(dir, "npctl")
	packages := "./" + strings.Join(walked, ",./") + ",./builders/exec,./drivers/sandbox,./cmd/npctl"
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+packages,
		"-overlay="+filepath.Join(dir, "overlay.json"), "-buildvcs=false", "-o", program, "./cmd/npctl")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build npctl: %v\n%s", err, out)
	}
	return program
}

// coveredDaemon is a running npctl watch that writes its coverage when asked.
type coveredDaemon struct {
	t       *testing.T
	dir     string
	program string
	process *os.Process
	dumps   int
}

func (d *coveredDaemon) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(d.t.Context(), d.program, args...)
	cmd.Dir = d.dir
	cmd.Env = append(os.Environ(), "NPCTL_COVERAGE="+d.dir, "GOCOVERDIR="+d.t.TempDir(), "HOME="+d.dir)
	return cmd
}

func (d *coveredDaemon) npctl(args ...string) {
	d.t.Helper()
	if out, err := d.command(args...).CombinedOutput(); err != nil {
		d.t.Fatalf("npctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// start starts npctl watch and waits until it is ready. The end of the test stops it.
func (d *coveredDaemon) start() {
	d.t.Helper()
	log, err := os.Create(filepath.Join(d.dir, "watch.log"))
	testutil.Must(d.t, err)
	cmd := d.command("watch")
	cmd.Stderr = log
	testutil.Must(d.t, cmd.Start())
	d.process = cmd.Process
	d.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); err == nil && d.t.Failed() {
			d.t.Logf("npctl watch:\n%s", text)
		}
	})
	d.until("/readyz", func(string) bool { return true })
}

// dump returns the functions that the daemon has executed since the previous dump, as file and name, and clears them.
func (d *coveredDaemon) dump() map[string]bool {
	d.t.Helper()
	testutil.Must(d.t, d.process.Signal(syscall.SIGUSR1))
	dir := filepath.Join(d.dir, strconv.Itoa(d.dumps))
	d.dumps++
	d.wait("the coverage of "+dir, func() bool { _, err := os.Stat(dir); return err == nil })
	out, err := exec.CommandContext(d.t.Context(), "go", "tool", "covdata", "func", "-i="+dir).Output()
	if err != nil {
		d.t.Fatalf("covdata: %v", err)
	}
	executed := map[string]bool{}
	for _, found := range coveredFunction.FindAllStringSubmatch(string(out), -1) {
		if found[3] != "0.0" {
			executed[found[1]+" "+found[2]] = true
		}
	}
	return executed
}

var coveredFunction = regexp.MustCompile(`(?m)^github.com/npctl/npctl/(\S+\.go):\d+:\s+\*?(\S+)\s+(\S+)%$`)

// until reads a path of the API until the answer satisfies a condition.
func (d *coveredDaemon) until(from string, so func(answer string) bool) {
	d.t.Helper()
	d.wait(from, func() bool {
		answer, err := d.request(http.MethodGet, from, "")
		return err == nil && so(answer)
	})
}

func (d *coveredDaemon) wait(what string, so func() bool) {
	d.t.Helper()
	testutil.Await(d.t, what, so)
}

// call posts to the API and returns the answer.
func (d *coveredDaemon) call(path, body string) string {
	d.t.Helper()
	answer, err := d.request(http.MethodPost, path, body)
	testutil.Must(d.t, err)
	return answer
}

func (d *coveredDaemon) request(method, path, body string) (string, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(d.dir, "npctl.db.sock"))
	}
	client := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(d.t.Context(), method, "http://npctl"+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close() //nolint:errcheck // it is read
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode >= 300 {
		return "", fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}
	return string(text), err
}

// checkExecuted checks that each hop of a walk was executed.
func checkExecuted(t *testing.T, walk []*hop, executed map[string]bool) {
	t.Helper()
	if len(walk) < 20 {
		t.Errorf("%s: a walk has only %d hops", architecture, len(walk))
	}
	for _, h := range walk {
		if !executed[h.file+" "+h.function] {
			t.Errorf("%s:%d: %s: %s in %s was not executed", architecture, h.line, h.walk, h.function, h.file)
		}
	}
}

var countText = regexp.MustCompile(`executes about (\d+) functions in (\d+) files`)

// checkCounts checks the number of functions and files that serve a request: a larger one needs a reason and a new
// number in docs/architecture.md.
func checkCounts(t *testing.T, executed map[string]bool) {
	t.Helper()
	files := map[string]bool{}
	functions := 0
	for function := range executed {
		file, _, _ := strings.Cut(function, " ")
		if !slices.Contains(walked, path.Dir(file)) {
			continue
		}
		files[file] = true
		functions++
	}
	stated := countText.FindStringSubmatch(strings.ReplaceAll(read(t, architecture), "\n", " "))
	if stated == nil {
		t.Fatalf("%s does not state how many functions serve a request", architecture)
	}
	t.Logf("one request: %d functions in %d files", functions, len(files))
	for i, count := range []int{functions, len(files)} {
		if limit, _ := strconv.Atoi(stated[i+1]); count > limit+limit/20 || count < limit-limit/10 {
			t.Errorf("%s states %q; this run: %d functions in %d files", architecture, stated[0], functions, len(files))
		}
	}
}
