//go:build integration

package completion

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
	"github.com/npctl/npctl/test/pty"
)

var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// lines are typed, TAB included, and the arguments with which the shell runs npctl then.
var lines = []struct{ typed, want string }{
	{"npctl pl\t", "[plan]"},
	{"npctl image bu\t ti\t", "[image][build][tiny]"},
	{"npctl plan -targ\tdisk\t -js\t", "[plan][-target=diskimage.tiny][-json]"},
	{"npctl plan --targ\t", "[plan][--target=]"},
	{"npctl plan -target label.s\t", "[plan][-target][label.small]"},
	{"npctl plan -exclude=provider.acme.pool.main.l\t", "[plan][-exclude=provider.acme.pool.main.label.small]"},
	{"npctl apply -replace=prov\t", "[apply][-replace=provider.acme.image.tiny]"},
	{"npctl plan -refresh=f\t", "[plan][-refresh=false]"},
	{"npctl -chdir=elsew\t val\t", "[-chdir=elsewhere][validate]"},
	{"npctl -chdir=elsewhere plan -target=label.o\t", "[-chdir=elsewhere][plan][-target=label.other]"},
	{"npctl apply toni\t", "[apply][tonight.plan]"},
	{"npctl show toni\t", "[show][tonight.plan]"},
	{"npctl apply fo\t", "[apply][fo]"},
	{"npctl apply he\t", "[apply][he]"},
	{"npctl plan -out=toni\t", "[plan][-out=tonight.plan]"},
	{"npctl plan -out toni\t", "[plan][-out][tonight.plan]"},
	{"npctl plan -var-file=my\\ va\t", "[plan][-var-file=my values.hcl]"},
	{"npctl node show 0000000001 0\t", "[node][show][0000000001][0000000002]"},
	{"npctl request create -label=sm\t", "[request][create][-label=small]"},
	{"npctl node list -state=ready,in-\t", "[node][list][-state=ready,in-use]"},
	{"npctl freeze ac\t", "[freeze][acme]"},
	{"npctl why lab\t", "[why][label/small]"},
	{"npctl state rm provider.acme.im\t", "[state][rm][provider.acme.image.tiny.upload.0000000001]"},
}

func TestBashWithoutThePackageBashCompletion(t *testing.T) {
	s := newShell(t, "bash", "--norc", "--noprofile")
	s.run("! type _init_completion _get_comp_words_by_ref 2>/dev/null; source <(npctl completion bash)")
	s.typeLines()
}

func TestBashWithThePackageBashCompletion(t *testing.T) {
	s := newShell(t, "bash", "--norc", "--noprofile")
	s.run("source /usr/share/bash-completion/bash_completion; type _init_completion >/dev/null && source <(npctl completion bash)")
	s.typeLines()
}

func TestZsh(t *testing.T) {
	s := newShell(t, "zsh", "-f")
	s.run("source <(npctl completion zsh)")
	s.typeLines()
	s.shows("npctl apply -re\t", "replace the object at this ADDRESS")
}

func TestZshFindsTheFunctionInFpath(t *testing.T) {
	s := newShell(t, "zsh", "-f")
	s.run("mkdir f && npctl completion zsh >f/_npctl && fpath=($PWD/f $fpath) && autoload -Uz compinit && compinit -i")
	s.typeLines()
}

func TestFish(t *testing.T) {
	s := newShell(t, "fish", "--no-config")
	s.run("npctl completion fish | source")
	s.typeLines()
	s.shows("npctl apply -re\t", "replace the object at this ADDRESS")
}

// shell is a shell on a terminal, whose npctl completes, and otherwise says with what it was called.
type shell struct {
	t    *testing.T
	keys *os.File

	mu    sync.Mutex
	shown bytes.Buffer // guarded by mu
	seen  int          // of shown, what earlier waits have passed
	runs  int
}

const wide = 200 // columns: nothing that is typed wraps

func newShell(t *testing.T, name string, args ...string) *shell {
	t.Helper()
	dir := fleet(t)
	keys, screen := pty.Open(t, 40, wide)
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + recorder(t) + ":/usr/bin:/bin", "HOME=" + t.TempDir(), "TERM=xterm", "LANG=C.UTF-8", "PS1=$ "}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	testutil.Must(t, cmd.Start())
	_ = screen.Close() // the shell has its own
	s := &shell{t: t, keys: keys}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, err := keys.Read(buffer)
			s.mu.Lock()
			s.shown.Write(buffer[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return s
}

// fleet is a directory with a configuration that was applied, a plan and more files.
func fleet(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile("../../cmd/npctl/testdata/fleet.hcl")
	testutil.Must(t, err)
	for name, content := range map[string]string{"npctl.hcl": string(text), "my values.hcl": "",
		"elsewhere/npctl.hcl": strings.ReplaceAll(string(text), `"small"`, `"other"`)} {
		path := filepath.Join(dir, name)
		testutil.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		testutil.WriteFile(t, path, content)
	}
	for _, args := range [][]string{{"apply", "-auto-approve"}, {"plan", "-out=tonight.plan"}} {
		cmd := exec.CommandContext(t.Context(), npctl, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("npctl %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// recorder returns a directory with an npctl that shows its arguments, unless a shell wants to complete.
func recorder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/sh
case $1 in
  __complete | completion) exec %s "$@" ;;
esac
printf 'ran '
printf '[%%s]' "$@"
printf ' end\n'
`, npctl)
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "npctl"), []byte(script), 0o755))
	return dir
}

func (s *shell) press(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// wait waits until something is shown behind what earlier waits have seen, and returns what is in front of it.
func (s *shell) wait(text string) string {
	s.t.Helper()
	var fresh string
	for deadline := time.Now().Add(testutil.Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		fresh = s.shown.String()[s.seen:]
		at := strings.Index(fresh, text)
		if at >= 0 {
			s.seen += at + len(text)
		}
		s.mu.Unlock()
		if at >= 0 {
			return fresh[:at]
		}
	}
	s.t.Fatalf("%q was never shown, but:\n%s", text, fresh)
	return ""
}

// run runs a command and waits for its end.
func (s *shell) run(command string) {
	s.t.Helper()
	s.runs++
	s.press(fmt.Sprintf("%s && printf '%%s%%s\\n' set- up-%d\n", command, s.runs))
	s.wait(fmt.Sprintf("set-up-%d", s.runs))
}

// typeLines types every line. npctl prints no names when reading them takes long, as it may on a busy machine, so that a
// line has three tries.
func (s *shell) typeLines() {
	s.t.Helper()
	for _, line := range lines {
		got := ""
		for try := 0; got != line.want && try < 3; try++ {
			got = s.typeLine(line.typed)
		}
		if got != line.want {
			s.t.Errorf("%q: npctl ran with %s, want %s", line.typed, got, line.want)
		}
	}
}

// typeLine returns the arguments with which npctl ran.
func (s *shell) typeLine(line string) string {
	s.t.Helper()
	s.press(line + "\n")
	if before := s.wait("ran "); strings.Contains(before, "not found") {
		s.t.Errorf("%q: the screen has %q", line, before)
	}
	return strings.ReplaceAll(strings.TrimSpace(s.wait(" end")), "/]", "]") // zsh takes the slash behind a directory back
}

// shows presses keys that are not to run anything.
func (s *shell) shows(keys, want string) {
	s.t.Helper()
	s.press(keys)
	s.wait(want)
	s.press("\x03")
}
