package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/location"
	"github.com/npctl/npctl/state/zookeeper"
)

// watched is an npctl watch or builder that runs in the test process.
type watched struct {
	t    *testing.T
	dir  string
	app  *app
	log  *testutil.Buffer
	stop func()
	code chan int
}

const watchedFleet = `
npctl {
  images_dir = "images"
}
label "metal" {}
provider "static" "rack" {
  pool "main" {
    node "metal1" {
      labels            = ["metal"]
      host_key_checking = false
    }
  }
}
`

// socketOf returns the default socket of npctl watch for a state in dir.
func socketOf(dir string) string { return filepath.Join(dir, "npctl.db.sock") }

func writeConfig(t *testing.T, dir, text string) {
	t.Helper()
	testutil.WriteFile(t, filepath.Join(dir, "npctl.hcl"), text)
}

// startWatch starts npctl watch and waits until it logs that it serves.
func startWatch(t *testing.T, dir string, options ...string) *watched {
	t.Helper()
	ctx, interrupt := context.WithCancelCause(t.Context())
	w := &watched{t: t, dir: dir, log: &testutil.Buffer{}, code: make(chan int, 1)}
	w.stop = func() { interrupt(errSignal) }
	w.app = newApp(terminal.Streams{In: strings.NewReader(""), Out: io.Discard, Err: w.log}, func(string) (string, bool) { return "", false })
	args := append([]string{"npctl", "watch", "-config=" + dir}, options...)
	go func() { w.code <- w.app.run(ctx, args) }()
	t.Cleanup(func() { w.end() })
	w.await("it serves", func() bool { return strings.Contains(w.log.String(), "msg=watching") || len(w.code) > 0 })
	return w
}

// end stops the daemon and returns its exit code.
func (w *watched) end() int {
	w.stop()
	select {
	case code := <-w.code:
		w.code <- code
		return code
	case <-time.After(testutil.Patience):
		w.t.Fatalf("it does not end:\n%s", w.log)
		return -1
	}
}

// await polls a condition that depends on other goroutines or on files.
func (w *watched) await(what string, so func() bool) {
	w.t.Helper()
	testutil.Await(w.t, what, so, w.log.String)
}

// ask sends a request to the API at the socket beside the state.
func (w *watched) ask(method, path, body string) (int, string) {
	w.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socketOf(w.dir))
	}}}
	return ask(w.t, client, method, "http://npctl"+path, body)
}

func ask(t *testing.T, client *http.Client, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	testutil.Must(t, err)
	r.Header.Set("Content-Type", "application/json")
	answer, err := client.Do(r)
	testutil.Must(t, err)
	defer answer.Body.Close() //nolint:errcheck // read below
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	testutil.Must(t, err)
	return answer.StatusCode, string(text)
}

func TestWatchServesUntilItIsStopped(t *testing.T) {
	dir := testutil.ShortDir(t)
	writeConfig(t, dir, watchedFleet)
	w := startWatch(t, dir, "-metrics-listen=127.0.0.1:0")
	w.await("the machine is ready", func() bool { _, text := w.ask("GET", "/v1/status", ""); return strings.Contains(text, `"ready":1`) })
	if code, text := w.ask("POST", "/v1/requests", `{"labels":["metal"],"requestor":"me"}`); code != http.StatusCreated {
		t.Errorf("request: %d %s", code, text)
	}
	metricsAt := w.address("tcp://")
	w.await("the request shows in the metrics", func() bool {
		_, text := ask(t, http.DefaultClient, "GET", "http://"+metricsAt+"/metrics", "")
		return strings.Contains(text, `npctl_requests_finished_total{result="fulfilled"} 1`)
	})
	for path, want := range map[string]int{"/livez": 200, "/readyz": 200, "/v1/status": 404, "/": 404} {
		if code, text := ask(t, http.DefaultClient, "GET", "http://"+metricsAt+path, ""); code != want {
			t.Errorf("%s at the metrics' address: %d %s, want %d", path, code, text, want)
		}
	}
	if code := w.end(); code != 0 {
		t.Errorf("exit code %d after a signal:\n%s", code, w.log)
	}
	if _, err := os.Stat(socketOf(dir)); err == nil {
		t.Error("the socket is still there")
	}
	for _, line := range []string{`msg="request created"`, `msg="stopping: starting no more steps"`, "msg=stopped"} {
		if !strings.Contains(w.log.String(), line) {
			t.Errorf("the log lacks %s:\n%s", line, w.log)
		}
	}
}

// address returns the address of a listener from the log.
func (w *watched) address(network string) string {
	w.t.Helper()
	_, rest, found := strings.Cut(w.log.String(), network)
	if !found {
		w.t.Fatalf("it does not listen at %s:\n%s", network, w.log)
	}
	return rest[:strings.IndexAny(rest, " ]\n")]
}

func TestOnlyOneWatchUsesAState(t *testing.T) {
	dir := testutil.ShortDir(t)
	writeConfig(t, dir, watchedFleet)
	first := startWatch(t, dir)
	second := startWatch(t, dir)
	if code := second.end(); code != 1 || !strings.Contains(second.log.String(), "is held by") {
		t.Errorf("the second one ends with %d:\n%s", code, second.log)
	}
	if code, text := first.ask("GET", "/readyz", ""); code != 200 {
		t.Errorf("the first one answers %d %s", code, text)
	}
	first.end()
	if code := startWatch(t, dir).end(); code != 0 {
		t.Errorf("a third one, after the first has ended, ends with %d", code)
	}
}

func TestSIGHUPReloadsTheConfiguration(t *testing.T) {
	dir := testutil.ShortDir(t)
	writeConfig(t, dir, watchedFleet)
	w := startWatch(t, dir)
	w.await("there is one machine", func() bool { _, text := w.ask("GET", "/v1/nodes", ""); return strings.Contains(text, "metal1") })
	writeConfig(t, dir, strings.ReplaceAll(watchedFleet, "labels  ", "lables  "))
	if !w.app.signals.hangup.Call() {
		t.Fatal("SIGHUP would end npctl watch")
	}
	w.await("the mistake is refused", func() bool { return strings.Contains(w.log.String(), "new configuration refused") })
	for _, want := range []string{`level=ERROR msg="configuration: `, filepath.Join(dir, "npctl.hcl") + ":9:", "lables"} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, w.log)
		}
	}
	if _, text := w.ask("GET", "/metrics", ""); !strings.Contains(text, "npctl_watch_config_stale 1") {
		t.Error("metrics do not show that an old configuration goes on")
	}
	writeConfig(t, dir, watchedFleet+strings.ReplaceAll("provider"+afterFirst(watchedFleet, "provider"), "rack", "rack2"))
	w.app.signals.hangup.Call()
	w.await("the new one is taken", func() bool { return strings.Contains(w.log.String(), "configuration reloaded") })
	w.await("there is another machine", func() bool { _, text := w.ask("GET", "/v1/nodes", ""); return strings.Contains(text, "rack2") })
	if _, text := w.ask("GET", "/metrics", ""); !strings.Contains(text, "npctl_watch_config_stale 0") || !strings.Contains(text, `npctl_watch_reloads_total{result="invalid"} 1`) {
		t.Errorf("metrics do not count the reloads:\n%s", strings.Join(slices.Collect(strings.SplitSeq(text, "\n")), "\n"))
	}
	writeConfig(t, dir, strings.ReplaceAll(watchedFleet, "npctl {", "npctl {\n  state \"bolt\" { path = \"other.db\" }"))
	w.app.signals.hangup.Call()
	w.await("another state is refused", func() bool { return strings.Contains(w.log.String(), "the state cannot move from") })
	if code := w.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if w.app.signals.hangup.Call() {
		t.Error("SIGHUP is still answered")
	}
}

func TestChangedFilesReloadTheConfiguration(t *testing.T) {
	dir := testutil.ShortDir(t)
	writeConfig(t, dir, watchedFleet)
	w := startWatch(t, dir, "-reload-on-change")
	more := filepath.Join(dir, "more.hcl")
	testutil.WriteFile(t, more, strings.ReplaceAll("provider"+afterFirst(watchedFleet, "provider"), "rack", "rack2"))
	w.await("there is another machine", func() bool { _, text := w.ask("GET", "/v1/nodes", ""); return strings.Contains(text, "rack2") })
	writeConfig(t, dir, strings.ReplaceAll(watchedFleet, "labels  ", "lables  "))
	w.await("the mistake is refused", func() bool { return strings.Contains(w.log.String(), "new configuration refused") })
	writeConfig(t, dir, strings.ReplaceAll(watchedFleet, "metal1", "machine1"))
	w.await("the correction is used", func() bool { _, text := w.ask("GET", "/v1/nodes", ""); return strings.Contains(text, "machine1") })
	// One reload for each change, also after an error: a broken configuration is not logged every second.
	_, text := w.ask("GET", "/metrics", "")
	for _, want := range []string{`npctl_watch_reloads_total{result="done"} 2`, `npctl_watch_reloads_total{result="invalid"} 1`} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics lack %s; the log:\n%s", want, w.log)
		}
	}
}

// A reload refuses another state. It uses other servers and TLS files; see the tests in test/zookeeper.
func TestReloadRefusesAnotherState(t *testing.T) {
	log := &testutil.Buffer{}
	c := &watchCommand{app: newApp(terminal.Streams{In: strings.NewReader(""), Out: io.Discard, Err: log}, func(string) (string, bool) { return "", false })}
	c.global.logLevel = "info"
	testutil.Must(t, c.openLog())
	at := func(chroot string, session time.Duration) location.Location {
		return location.Location{File: "/npctl.db", Shared: &zookeeper.Options{Hosts: []string{"zk1"}, Chroot: chroot, SessionTimeout: session}}
	}
	c.place = statePlace{at("/zuul", time.Second), c.app}
	if err := c.checkPlace(t.Context(), at("/zuul", time.Second)); err != nil || c.reconnect != nil {
		t.Errorf("without a change: %v", err)
	}
	if err := c.checkPlace(t.Context(), at("/other", time.Second)); err == nil || !strings.Contains(err.Error(), "chroot of the state block cannot change") || nextStep(err) == "" {
		t.Errorf("another chroot: %v", err)
	}
	if err := c.checkPlace(t.Context(), location.InFile("/npctl.db")); err == nil || nextStep(err) == "" {
		t.Errorf("a state in a file: %v", err)
	}
	if err := c.checkPlace(t.Context(), at("/zuul", time.Minute)); err != nil || log.String() != "" {
		t.Fatalf("another session_timeout: %v, log %q before the configuration is in force", err, log)
	}
	c.reconnect()
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "session_timeout") {
		t.Errorf("log %q", log)
	}
	c.reconnect = nil
	if err := c.checkPlace(t.Context(), at("/zuul", time.Minute)); err != nil || c.reconnect != nil {
		t.Errorf("the same configuration again: %v", err)
	}
}

// A change is used when a second check finds nothing new, and only once.
func TestReloadWaitsUntilFilesSettle(t *testing.T) {
	dir := t.TempDir()
	writeConfig(t, dir, watchedFleet)
	a := newApp(terminal.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, func(string) (string, bool) { return "", false })
	a.global.config, a.inputs = dir, &config.Inputs{}
	r := &reloader{inputs: a.inputs, log: a.log}
	load := func() { _, _ = a.load(variableOptions{}) }
	expect := func(when string, want ...bool) {
		t.Helper()
		for i := range want {
			if got := r.changed(); got != want[i] {
				t.Errorf("%s: check %d says %v", when, i+1, got)
			}
		}
	}
	load()
	expect("no change", false, false)
	writeConfig(t, dir, watchedFleet+"\n")
	expect("a change", false)
	writeConfig(t, dir, watchedFleet+"\n\n")
	expect("a further change", false, true)
	writeConfig(t, dir, watchedFleet+"broken")
	load()
	expect("after a reload with an error", false, false, false)
	testutil.Must(t, os.Remove(filepath.Join(dir, "npctl.hcl")))
	expect("no configuration", false, true)
	load()
	expect("after a reload without files", false, false, false)
}

func TestCustomSocketIsFoundBesideTheState(t *testing.T) {
	dir, other := testutil.ShortDir(t), testutil.ShortDir(t)
	writeConfig(t, dir, watchedFleet)
	usual, own := socketOf(dir), filepath.Join(other, "npctl.sock")
	if err := os.Symlink("/nowhere", usual); err != nil { // left by a killed npctl watch
		t.Fatal(err)
	}
	w := startWatch(t, dir, "-socket="+own, "-socket-mode=0660")
	if code, text := w.ask("GET", "/livez", ""); code != 200 {
		t.Errorf("by the link: %d %s", code, text)
	}
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o660 || info.Mode().Type() != os.ModeSocket {
		t.Errorf("the socket is %v, %v; want mode 0660", info, err)
	}
	w.end()
	for _, path := range []string{usual, own} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("%s is still there", path)
		}
	}
}

func TestWatchRefusesInvalidOptions(t *testing.T) {
	dir := testutil.ShortDir(t)
	writeConfig(t, dir, watchedFleet)
	for _, test := range []struct{ option, want string }{
		{"-provider=rock", `did you mean "rack"?`},
		{"-refresh=1ms", "option -refresh must be at least 1s, not 1ms"},
		{"-grace=-1s", "option -grace must be at least 0s, not -1s"},
		{"-stall=0s", "option -stall must be at least 1ms, not 0s"},
		{"-socket-mode=0666", "is not a mode for a socket"},
		{"-socket-mode=rw", "is not a mode for a socket"},
		{"-listen=127.0.0.1:0", "-listen needs -token-file"},
		{"-tls-cert=cert.pem", "need -listen"},
		{"-metrics-listen=192.0.2.1:1", "serve metrics"},
		{"-nodepool-listen=192.0.2.1:1", "serve Nodepool's endpoints"},
		{"-socket=" + dir, "listen at"},
		{"extra", "unexpected argument"},
	} {
		w := startWatch(t, dir, test.option)
		if code := w.end(); code != 1 || !strings.Contains(w.log.String(), test.want) {
			t.Errorf("%s: exit code %d; want 1 and %q in:\n%s", test.option, code, test.want, w.log)
		}
	}
}

// notifySocket replaces systemd and collects the notifications.
func notifySocket(t *testing.T, dir string) *testutil.Buffer {
	t.Helper()
	path := filepath.Join(dir, "notify")
	socket, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "unixgram", path)
	testutil.Must(t, err)
	sent := &testutil.Buffer{}
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, _, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = fmt.Fprintf(sent, "%s\n", buffer[:n])
		}
	}()
	t.Cleanup(func() { _ = socket.Close() }) // ends the goroutine
	t.Setenv("NOTIFY_SOCKET", path)
	return sent
}

func TestSystemdIsNotifiedOfTheStatus(t *testing.T) {
	dir := testutil.ShortDir(t)
	writeConfig(t, dir, watchedFleet)
	told := notifySocket(t, dir)
	t.Setenv("WATCHDOG_USEC", "300000")
	w := startWatch(t, dir)
	w.await("it is ready", func() bool { return strings.Contains(told.String(), "READY=1\n") })
	w.await("it feeds the watchdog", func() bool { return strings.Count(told.String(), "WATCHDOG=1") > 1 })
	w.await("it says what it does", func() bool { return strings.Contains(told.String(), "STATUS=0 requests wait, 1 node ready") })
	w.app.signals.hangup.Call()
	w.await("it reloads", func() bool {
		_, after, found := strings.Cut(told.String(), "RELOADING=1\nMONOTONIC_USEC=")
		return found && strings.Contains(after, "READY=1")
	})
	w.end()
	w.await("it stops", func() bool { return strings.Contains(told.String(), "STOPPING=1") })
}

func TestLockOfAnotherContainerIsTakenOverOnRequest(t *testing.T) {
	host, err := os.Hostname()
	testutil.Must(t, err)
	for _, test := range []struct {
		name    string
		holder  state.Holder
		options []string
		want    int
	}{
		{"without being asked to", state.Holder{Operation: "watch", Host: host, PID: 1}, nil, 1},
		{"of a predecessor", state.Holder{Operation: "watch", Host: host, PID: 1}, []string{"-take-over"}, 0},
		{"of an apply", state.Holder{Operation: "apply", Host: host, PID: 1}, []string{"-take-over"}, 1},
		{"of another host", state.Holder{Operation: "watch", Host: "another", PID: 1}, []string{"-take-over"}, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := testutil.ShortDir(t)
			writeConfig(t, dir, watchedFleet)
			store, err := bolt.Open(bolt.Options{Path: filepath.Join(dir, "npctl.db")})
			testutil.Must(t, err)
			defer store.Close() //nolint:errcheck // the lock may be lost
			if _, err := store.Lock(t.Context(), stateLock, test.holder); err != nil {
				t.Fatal(err)
			}
			w := startWatch(t, dir, test.options...)
			if code := w.end(); code != test.want {
				t.Errorf("exit code %d, want %d:\n%s", code, test.want, w.log)
			}
		})
	}
}

func TestALostLockEndsWatch(t *testing.T) {
	dir := testutil.ShortDir(t)
	writeConfig(t, dir, watchedFleet)
	w := startWatch(t, dir)
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(dir, "npctl.db")})
	testutil.Must(t, err)
	defer store.Close() //nolint:errcheck // no lock was acquired
	holder, err := store.Holder(t.Context(), stateLock)
	if err != nil || holder == nil || holder.Operation != "watch" {
		t.Fatalf("the lock is held by %+v, %v", holder, err)
	}
	if _, err := store.ForceUnlock(t.Context(), holder.ID); err != nil {
		t.Fatal(err)
	}
	w.await("it ends", func() bool { return len(w.code) > 0 })
	if code := w.end(); code != 1 || !strings.Contains(w.log.String(), "the lock of the state was taken away") {
		t.Errorf("exit code %d:\n%s", code, w.log)
	}
}

// afterFirst returns the text after the first occurrence of word.
func afterFirst(text, word string) string {
	_, after, _ := strings.Cut(text, word)
	return after
}
