package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mattn/go-runewidth"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/pty"
)

// dialog runs a command on a separate terminal and keeps its output.
type dialog struct {
	t       *testing.T
	keys    *os.File
	command *exec.Cmd
	read    sync.WaitGroup

	mu    sync.Mutex
	shown bytes.Buffer // guarded by mu
}

// onTerminal starts npctl in dir on a terminal of 120 columns.
func onTerminal(t *testing.T, dir string, env []string, args ...string) *dialog {
	t.Helper()
	return onTerminalOf(t, 120, dir, env, args...)
}

func onTerminalOf(t *testing.T, columns int, dir string, env []string, args ...string) *dialog {
	t.Helper()
	keys, screen := pty.Open(t, 30, uint16(columns))
	defer screen.Close() //nolint:errcheck // the command has its own error
	x := &dialog{t: t, keys: keys, command: exec.Command("npctl", args...)}
	x.command.Dir = dir
	x.command.Env = append(os.Environ(), append([]string{"TERM=xterm", "HOME=" + dir, "NO_COLOR="}, env...)...)
	x.command.Stdin, x.command.Stdout, x.command.Stderr = screen, screen, screen
	x.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	testutil.Must(t, x.command.Start())
	x.read.Go(func() {
		buffer := make([]byte, 4096)
		for {
			n, err := keys.Read(buffer)
			x.mu.Lock()
			x.shown.Write(buffer[:n])
			x.mu.Unlock()
			if err != nil {
				return // the last process on the terminal has ended
			}
		}
	})
	return x
}

func (x *dialog) text() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.ReplaceAll(x.shown.String(), "\r\n", "\n")
}

// expect waits until the output matches pattern.
func (x *dialog) expect(pattern string) {
	x.t.Helper()
	want := regexp.MustCompile(pattern)
	testutil.Await(x.t, "the screen shows "+pattern, func() bool { return want.MatchString(x.text()) }, x.text)
}

func (x *dialog) press(keys string) {
	x.t.Helper()
	if _, err := x.keys.WriteString(keys); err != nil {
		x.t.Fatal(err)
	}
}

// end waits for the command and returns its exit code and output.
func (x *dialog) end() (int, string) {
	_ = x.command.Wait() // the exit code is the result
	x.read.Wait()
	return x.command.ProcessState.ExitCode(), x.text()
}

func fleetDir(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/fleet.hcl")
	testutil.Must(t, err)
	dir := t.TempDir()
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "npctl.hcl"), text, 0o600))
	return dir
}

// changeConfig replaces text in the configuration in dir.
func changeConfig(t *testing.T, dir, old, replacement string) {
	t.Helper()
	path := filepath.Join(dir, "npctl.hcl")
	text, err := os.ReadFile(path)
	testutil.Must(t, err)
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("%s does not contain %q", path, old)
	}
	testutil.WriteFile(t, path, strings.ReplaceAll(string(text), old, replacement))
}

func waitForFile(t *testing.T, path string) {
	t.Helper()
	testutil.Await(t, path+" exists", func() bool { return exists(path) })
}

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

func TestColoursAreForTerminalsWithoutNoColor(t *testing.T) {
	t.Parallel()
	dir := fleetDir(t)
	if code, text := onTerminal(t, dir, nil, "plan").end(); code != 0 || !colour.MatchString(text) {
		t.Errorf("plan on a terminal: exit code %d, no colours in:\n%s", code, text)
	}
	for _, c := range []struct{ env, args []string }{
		{[]string{"NO_COLOR=1"}, []string{"plan"}}, {[]string{"TERM=dumb"}, []string{"plan"}}, {nil, []string{"plan", "-no-color"}},
	} {
		if code, text := onTerminal(t, dir, c.env, c.args...).end(); code != 0 || colour.MatchString(text) {
			t.Errorf("%v %v: exit code %d, want 0 and no colours in:\n%q", c.env, c.args, code, text)
		}
	}
}

func TestApplyOnATerminalAsksAndShowsBars(t *testing.T) {
	t.Parallel()
	dir := fleetDir(t)
	x := onTerminal(t, dir, nil, "apply")
	x.expect("Only 'yes' will be accepted: ")
	x.press("yes\n")
	x.expect("all steps .*of 4")
	code, text := x.end()
	if want := regexp.MustCompile(`Apply complete: 1 built, 1 uploaded, 2 launched, 0 deleted\.( \[.*\])?\n$`); code != 0 || !want.MatchString(text) {
		t.Errorf("apply: exit code %d, want 0 and in the end %s:\n%s", code, want, text)
	}
}

func TestInterruptAtThePromptDoesNothing(t *testing.T) {
	t.Parallel()
	dir := fleetDir(t)
	x := onTerminal(t, dir, nil, "apply")
	x.expect("Only 'yes' will be accepted: ")
	x.press("\x03")
	code, text := x.end()
	if want := "Interrupted. No step was running."; code != exitInterrupted || !strings.Contains(text, want) {
		t.Errorf("apply: exit code %d, want %d and %q:\n%s", code, exitInterrupted, want, text)
	}
	if code, text := onTerminal(t, dir, nil, "plan").end(); code != 0 || !strings.Contains(text, "Plan: 1 to build, 1 to upload, 2 to launch") {
		t.Errorf("plan afterwards: exit code %d:\n%s", code, text)
	}
}

func TestInterruptTwiceEndsAtOnce(t *testing.T) {
	t.Parallel()
	dir := fleetDir(t)
	// A builder that ignores SIGTERM makes a clean stop slow.
	const quick, stubborn = "echo $GREETING >", "trap '' TERM; touch $NPCTL_CONFIG_DIR/begun; while :; do sleep 0.1; done; echo $GREETING >"
	changeConfig(t, dir, quick, stubborn)
	x := onTerminal(t, dir, nil, "apply", "-auto-approve")
	waitForFile(t, filepath.Join(dir, "begun"))
	x.press("\x03")
	x.expect("Press .C again to quit immediately")
	x.press("\x03")
	if code, shown := x.end(); code != exitInterrupted || strings.Contains(shown, "Completed steps are recorded") {
		t.Errorf("apply: exit code %d, want %d, and not that it has ended in an orderly way:\n%s", code, exitInterrupted, shown)
	}
	changeConfig(t, dir, stubborn, quick)
	if code, shown := onTerminal(t, dir, nil, "apply", "-auto-approve").end(); code != 0 {
		t.Errorf("apply afterwards: exit code %d:\n%s", code, shown)
	}
}

// fleetWithDaemon returns a directory in which npctl watch runs.
func fleetWithDaemon(t *testing.T) string {
	t.Helper()
	dir := longFleet(t)
	daemon := exec.Command("npctl", "watch")
	daemon.Dir = dir
	testutil.Must(t, daemon.Start())
	t.Cleanup(func() {
		_ = daemon.Process.Kill() // SIGTERM would wait for the launches
		_ = daemon.Wait()
	})
	waitForFile(t, filepath.Join(dir, ".npctl", "npctl.db.sock"))
	return dir
}

func TestStatusShowsItsQuitKey(t *testing.T) {
	t.Parallel()
	const topLeft, primaryScreen = "\x1b[H", "\x1b[?25h\x1b[?1049l"
	dir := fleetWithDaemon(t)
	for keys, color := range map[string]bool{"q": true, "xQ": false, "\x03": true} {
		noColor := "NO_COLOR="
		if !color {
			noColor = "NO_COLOR=1"
		}
		x := onTerminalOf(t, 60, dir, []string{noColor, "TZ=UTC"}, "status")
		x.expect(`EVENTS \(times in UTC\)`)
		x.expect("q or .C to leave")
		x.press(keys)
		code, text := x.end()
		if code != 0 || !strings.HasSuffix(text, primaryScreen) {
			t.Errorf("%q: exit code %d, want 0 and the screen of before:\n%q", keys, code, text)
		}
		if colour.MatchString(text) != color {
			t.Errorf("%s: colours are %t in %q", noColor, !color, text)
		}
		for line := range strings.SplitSeq(strings.ReplaceAll(text, topLeft, "\n"), "\n") {
			line = regexp.MustCompile(`\x1b\[[?0-9;]*[a-zA-Z]`).ReplaceAllString(line, "")
			if w := runewidth.StringWidth(line); w > 60 {
				t.Errorf("a line has %d of 60 columns: %s", w, line)
			}
		}
	}
}

// onNarrowTerminal returns the output of a command on 60 columns and checks that it fits. Single words may be wider,
// because npctl does not break them.
func onNarrowTerminal(t *testing.T, dir string, args ...string) string {
	t.Helper()
	code, text := onTerminalOf(t, 60, dir, []string{"NO_COLOR=1"}, args...).end()
	if code != 0 {
		t.Fatalf("npctl %s: exit code %d:\n%s", strings.Join(args, " "), code, text)
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if w := runewidth.StringWidth(line); w > 60 && strings.Contains(line, " ") {
			t.Errorf("npctl %s: a line has %d of 60 columns: %s", strings.Join(args, " "), w, line)
		}
	}
	return text
}

func TestShowAndImageListFitTheScreen(t *testing.T) {
	t.Parallel()
	dir := fleetDir(t)
	changeConfig(t, dir, `"acme"`, `"cloud-with-a-long-name"`)
	changeConfig(t, dir, "tiny", "image-with-a-long-name")
	if code, text := onTerminal(t, dir, nil, "apply", "-auto-approve").end(); code != 0 {
		t.Fatalf("apply: exit code %d:\n%s", code, text)
	}
	shown := onNarrowTerminal(t, dir, "show")
	for _, want := range []string{`\nBUILD .*…\n[0-9a-f]{32}  `, `\nUPLOAD .*\n0000000001 .*…`, `\nNODE .*…\n0000000001  .*\n0000000002  `} {
		if !regexp.MustCompile(want).MatchString(shown) {
			t.Errorf("show has no %q in\n%s", want, shown)
		}
	}
	changeConfig(t, dir, "echo $GREETING >", "echo no space is left on this disk >&2; exit 1; echo $GREETING >")
	if code, text := onTerminal(t, dir, nil, "apply", "-auto-approve").end(); code != 1 {
		t.Fatalf("apply: exit code %d, want 1:\n%s", code, text)
	}
	shown = onNarrowTerminal(t, dir, "image", "list")
	if want := regexp.MustCompile(`^IMAGE .*BUILDS .*PROBLEM…\nimage-with-a-long-name .*1 ready .* bui.*…`); !want.MatchString(shown) {
		t.Errorf("image list has no %q in\n%s", want, shown)
	}
}

func TestRequestListFitsTheScreen(t *testing.T) {
	t.Parallel()
	dir := fleetWithDaemon(t)
	if code, text := onTerminal(t, dir, nil, "request", "create", "-label=small", "-requestor=a-requestor-with-a-very-long-name").end(); code != 0 {
		t.Fatalf("request create: exit code %d:\n%s", code, text)
	}
	shown := onNarrowTerminal(t, dir, "request", "list")
	if want := regexp.MustCompile(`^REQUEST .*STATE .*LABELS .*\n0000000001  .* small .*…`); !want.MatchString(shown) {
		t.Errorf("request list has no %q in\n%s", want, shown)
	}
}

func TestNodeListFitsTheScreen(t *testing.T) {
	t.Parallel()
	dir := fleetWithDaemon(t)
	var text string
	testutil.Await(t, "two nodes", func() bool { // the image must be built first
		text = onNarrowTerminal(t, dir, "node", "list")
		return strings.Contains(text, "0000000002")
	})
	if !strings.Contains(text, "…") {
		t.Errorf("nothing is shortened in\n%s", text)
	}
}

func TestConsoleEditsLines(t *testing.T) {
	dir := t.TempDir()
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "npctl.hcl"), []byte("variable \"size\" { default = 2 }\nlabel \"small\" {}\nprovider \"static\" \"lab\" {}\n"), 0o600))
	x := onTerminal(t, dir, nil, "console")
	x.expect("> ")
	x.press("var.siz * 10" + strings.Repeat("\x1b[D", len(" * 10")) + "e\r")
	x.expect(`(?m)^20$`)
	x.expect(`(?s)20.*> $`) // a key before the prompt belongs to no line
	x.press("nothing\r")
	x.expect("There is nothing named")
	x.expect(`(?s)named.*> $`)
	x.press("\x1b[A\x1b[A\r") // two lines up in the history
	x.expect(`(?s)20\n.*\n20\n`)
	x.press("\x04")
	if code, text := x.end(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, text)
	}
}
