package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/gearman"
	wire "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/gearman/gearmantest"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/testutil"
)

// buildingImages returns the configuration of a build host. Each image is a file that contains text; builds wait while
// DIR/hold exists.
func buildingImages(servers wire.Options, dir, text string, images ...string) string {
	config := fmt.Sprintf("npctl {\n images_dir = \"images\"\n gearman {\n servers = [%q]\n }\n}\n", servers.Servers[0])
	script := fmt.Sprintf("touch %s/begun; while [ -e %s/hold ]; do sleep 0.02; done; printf %s >\"$NPCTL_OUTPUT.raw\"", dir, dir, text)
	for _, image := range images {
		config += fmt.Sprintf("diskimage %q {\n builder \"exec\" {\n command = [\"sh\", \"-c\", %q]\n }\n formats = [\"raw\"]\n }\n", image, script)
	}
	return config
}

// startBuilder starts npctl builder and waits until it offers exactly the given images.
func startBuilder(t *testing.T, dir string, servers wire.Options, images ...string) *watched {
	t.Helper()
	ctx, interrupt := context.WithCancelCause(t.Context())
	w := &watched{t: t, dir: dir, log: &testutil.Buffer{}, code: make(chan int, 1)}
	w.stop = func() { interrupt(errSignal) }
	w.app = newApp(terminal.Streams{In: strings.NewReader(""), Out: io.Discard, Err: w.log}, func(string) (string, bool) { return "", false })
	go func() { w.code <- w.app.run(ctx, []string{"npctl", "builder", "-config=" + dir, "-log-level=info"}) }()
	t.Cleanup(func() { w.end() })
	w.offers(servers, images...)
	return w
}

// offers waits until the job server offers builds of exactly the given images.
func (w *watched) offers(servers wire.Options, images ...string) {
	w.t.Helper()
	w.await(fmt.Sprint("it offers ", images), func() bool {
		status, err := wire.New(servers).Status(w.t.Context())
		if err != nil {
			return false
		}
		maps.DeleteFunc(status, func(name string, f wire.Function) bool {
			return f.Workers == 0 || !strings.HasPrefix(name, "image-build:")
		})
		offered := slices.Sorted(maps.Keys(status))
		for i := range offered {
			offered[i] = strings.TrimPrefix(offered[i], "image-build:")
		}
		return slices.Equal(offered, images)
	})
}

// refuses sends SIGHUP and waits until the log contains the reason why the configuration is rejected.
func (w *watched) refuses(because ...string) {
	w.t.Helper()
	before := len(w.log.String())
	if !w.app.signals.hangup.Call() {
		w.t.Fatal("SIGHUP would end npctl builder")
	}
	w.await("the configuration is refused", func() bool { return strings.Contains(w.log.String()[before:], "new configuration refused") })
	for _, want := range because {
		if !strings.Contains(w.log.String()[before:], want) {
			w.t.Errorf("the log lacks %s:\n%s", want, w.log.String()[before:])
		}
	}
}

func TestBuilderReloadsAtHangup(t *testing.T) {
	dir := testutil.ShortDir(t)
	server := gearmantest.Start(t, gearmantest.Gearmand)
	servers := wire.Options{Servers: []string{server.Addr()}}
	writeConfig(t, dir, buildingImages(servers, dir, "first", "debian", "fedora"))
	testutil.Must(t, os.WriteFile(filepath.Join(dir, "hold"), nil, 0o600))
	w := startBuilder(t, dir, servers, "debian", "fedora")
	client := gearman.New(gearman.Settings{Gearman: servers, HostTimeout: time.Minute})
	ended := make(chan error, 1)
	go func() {
		job := builders.Job{Image: "debian", BuildID: "0123456789abcdef0123456789abcdef", Config: cty.EmptyObjectVal, Formats: []string{"raw"}}
		_, err := client.Build(t.Context(), job, io.Discard)
		ended <- err
	}()
	w.await("the build runs", func() bool { _, err := os.Stat(filepath.Join(dir, "begun")); return err == nil })

	valid := buildingImages(servers, dir, "second", "debian", "suse")
	writeConfig(t, dir, strings.Replace(valid, "formats", "fromats", 1))
	w.refuses(`level=ERROR msg="configuration: `, filepath.Join(dir, "npctl.hcl")+":11:", "fromats")
	writeConfig(t, dir, strings.Replace(valid, "servers = [", `servers = ["192.0.2.1", `, 1))
	w.refuses("the gearman block cannot change while npctl builder runs")
	writeConfig(t, dir, strings.Replace(valid, `"images"`, `"elsewhere"`, 1))
	w.refuses("images_dir cannot change")
	writeConfig(t, dir, strings.Replace(valid, "npctl {", "npctl {\n state \"bolt\" {\n path = \"other.db\"\n }", 1))
	w.refuses("the location of the state cannot change")
	writeConfig(t, dir, buildingImages(servers, dir, "second"))
	w.refuses("this host can build no image")
	w.offers(servers, "debian", "fedora")

	writeConfig(t, dir, valid)
	w.app.signals.hangup.Call()
	w.offers(servers, "debian", "suse")
	w.await("the reload is logged", func() bool {
		return strings.Contains(w.log.String(), `msg="configuration reloaded" images="debian, suse"`)
	})
	testutil.Must(t, os.Remove(filepath.Join(dir, "hold")))
	if err := <-ended; err != nil {
		t.Errorf("the build that ran ends with %v", err)
	}
	if got := imageText(t, dir, "debian-0123456789abcdef0123456789abcdef.raw"); got != "first" {
		t.Errorf("the build that ran made %q, want the image of the configuration that it began with", got)
	}
	job := builders.Job{Image: "debian", BuildID: "1123456789abcdef0123456789abcdef", Config: cty.EmptyObjectVal, Formats: []string{"raw"}}
	if _, err := client.Build(t.Context(), job, io.Discard); err != nil {
		t.Fatal(err)
	}
	if got := imageText(t, dir, "debian-1123456789abcdef0123456789abcdef.raw"); got != "second" {
		t.Errorf("the next build made %q, want the image of the new configuration", got)
	}
	if code := w.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func imageText(t *testing.T, dir, name string) string {
	t.Helper()
	return testutil.ReadFile(t, filepath.Join(dir, "images", name))
}

func TestSystemdIsNotifiedByTheBuilder(t *testing.T) {
	dir := testutil.ShortDir(t)
	notified := notifySocket(t, dir)
	servers := wire.Options{Servers: []string{gearmantest.Start(t, gearmantest.Gearmand).Addr()}}
	writeConfig(t, dir, buildingImages(servers, dir, "text", "debian"))
	w := startBuilder(t, dir, servers, "debian")
	w.await("it is ready", func() bool { return notified.String() == "READY=1\n" })
	w.app.signals.hangup.Call()
	w.await("it reloads", func() bool {
		_, after, found := strings.Cut(notified.String(), "RELOADING=1\nMONOTONIC_USEC=")
		return found && strings.Contains(after, "READY=1")
	})
	w.end()
	w.await("it stops", func() bool { return strings.Contains(notified.String(), "STOPPING=1") })
}
