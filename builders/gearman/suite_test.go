package gearman_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/gearman"
	protocol "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/gearman/gearmantest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// Every test here runs against the test server with the behavior of gearmand and of the Python server, and with the tag
// gearman against both real servers, and against gearmand behind stunnel.

type world struct {
	kind    gearmantest.Kind
	options protocol.Options
}

func runSuite(t *testing.T, kind gearmantest.Kind, start func(*testing.T) protocol.Options) {
	for name, run := range map[string]func(*testing.T, world){
		"LifeOfABuild":                 lifeOfABuild,
		"BuildsGoWhereTheyCanBeMade":   buildsGoWhereTheyCanBeMade,
		"BuildIsNotMadeTwice":          notMadeTwice,
		"RunningBuildIsJoined":         runningBuildIsJoined,
		"LogAndPhasesAreStreamed":      logAndPhases,
		"FailureTellsWhy":              failureTellsWhy,
		"TimeoutStopsTheHost":          timeoutStopsTheHost,
		"KilledHostLeavesTheBuild":     killedHost,
		"BuildsAreOfferedFromTheStart": offeredFromTheStart,
		"WhatComesAndGoesIsSeen":       comesAndGoes,
		"ReloadOffersOtherImages":      reloaded,
		"VersionsOfExternalSources":    versionsOfExternalSources,
		"RemovalStopsABuild":           removalStopsABuild,
		"LostAnswerOfARemoval":         lostAnswerOfARemoval,
		"HostIsLostDuringARemoval":     hostIsLostDuringARemoval,
		"HostIsKnownToBeUp":            hostIsUp,
		"AbsentHostIsAway":             absentHost,
		"OriginalClient":               originalClient,
		"OriginalWorker":               originalWorker,
		"StrangeRequests":              strangeRequests,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, world{kind, start(t)}) })
	}
}

func TestBuilderAndHost(t *testing.T) {
	for _, kind := range []gearmantest.Kind{gearmantest.Gearmand, gearmantest.Python} {
		t.Run(kind.String(), func(t *testing.T) {
			runSuite(t, kind, func(t *testing.T) protocol.Options { return quick(t, gearmantest.Start(t, kind).Addr()) })
		})
	}
}

const id = "0123456789abcdef0123456789abcdef"

func job(image string) builders.Job {
	return builders.Job{Image: image, BuildID: id, Config: new(gearman.Builder).Schema().Null(), Formats: []string{"qcow2", "raw"}, Timeout: time.Hour}
}

// made is the result of Build.
type made struct {
	artifact builders.Artifact
	err      error
}

func build(ctx context.Context, o protocol.Options, j builders.Job) <-chan made {
	done := make(chan made, 1)
	go func() {
		artifact, err := newBuilder(o).Build(ctx, j, &bytes.Buffer{})
		done <- made{artifact, err}
	}()
	return done
}

func sending() builders.UploadJob {
	return builders.UploadJob{
		BuildID: id, Image: "debian", Provider: "cloud", Format: "raw", Name: "debian-1",
		Marks:      resources.OwnerTags{Installation: "i", Kind: resources.KindUpload, ID: "7", Provider: "cloud", Image: "debian", Build: id, Hash: "h"},
		Properties: map[string]string{"os": "linux"}, Tags: []string{"a", "b"},
	}
}

func lifeOfABuild(t *testing.T, w world) {
	shop := newWorkshop(t, "debian", "fedora")
	serve(t, w.options, "h1", shop)
	idle := map[string]int{"image-build:debian": 1, "image-build:fedora": 1}
	offered(t, w.options, idle)
	b := newBuilder(w.options)
	var log bytes.Buffer
	artifact, err := b.Build(withTimeout(t), job("debian"), &log)
	if diff := cmp.Diff(builders.Artifact{RemoteFiles: shop.files(id), Host: "h1"}, artifact); diff != "" || err != nil {
		t.Fatalf("artifact (-want +got):\n%s%v", diff, err)
	}
	wantLog := "npctl: requesting a build from gearman servers " + w.options.Servers[0] + ": image-build:debian\nnpctl: h1 starts\nbuilding debian\nnpctl: built on h1\n"
	if diff := cmp.Diff(wantLog, log.String()); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	// No wait is needed: a client that has the answer may request an upload.
	functions, err := protocol.New(w.options).Status(withTimeout(t))
	if functions["image-upload:"+id].Workers == 0 || functions["image-delete:"+id].Workers == 0 || err != nil {
		t.Errorf("after the build there are %v, %v", functions, err)
	}
	s := sending()
	s.Progress = func(int64, int64) {}
	external, err := b.Upload(withTimeout(t), s)
	if external != "cloud-"+id || err != nil {
		t.Errorf("sent as %q, %v", external, err)
	}
	builds, sent := shop.history()
	if diff := cmp.Diff([]string{"debian " + id + " [qcow2 raw]"}, builds); diff != "" {
		t.Errorf("built (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]builders.UploadJob{sending()}, sent); diff != "" {
		t.Errorf("the host was asked to send (-want +got):\n%s", diff)
	}
	held, err := b.ListBuilds(withTimeout(t))
	if diff := cmp.Diff(map[string]bool{id: true}, held); diff != "" || err != nil {
		t.Errorf("held (-want +got):\n%s%v", diff, err)
	}
	if err := b.Remove(withTimeout(t), id); err != nil {
		t.Error(err)
	}
	offered(t, w.options, idle)
	if _, err := os.Stat(shop.path(id, "raw")); err == nil {
		t.Error("the file is still there")
	}
	if err := b.Remove(withTimeout(t), id); !errors.Is(err, builders.ErrHostUnavailable) {
		t.Errorf("removed again: %v, want ErrAway", err)
	}
}

func buildsGoWhereTheyCanBeMade(t *testing.T, w world) {
	shops := map[string]*workshop{}
	for _, image := range []string{"debian", "fedora", "windows"} {
		shops[image] = newWorkshop(t, image)
		serve(t, w.options, "host-of-"+image, shops[image])
	}
	b := newBuilder(w.options)
	for image := range shops {
		j := job("other-name")
		j.BuildID = "build-of-" + image
		j.Config = cty.ObjectVal(map[string]cty.Value{"image": cty.StringVal(image), "triggers": cty.NullVal(cty.Map(cty.String))})
		artifact, err := b.Build(withTimeout(t), j, &bytes.Buffer{})
		if artifact.Host != "host-of-"+image || err != nil {
			t.Errorf("%s was made on %q, %v", image, artifact.Host, err)
		}
	}
	for image, shop := range shops {
		s := sending()
		s.BuildID = "build-of-" + image
		if _, err := b.Upload(withTimeout(t), s); err != nil {
			t.Error(err)
		}
		if _, sent := shop.history(); len(sent) != 1 || sent[0].BuildID != s.BuildID {
			t.Errorf("host of %s has sent %v", image, sent)
		}
	}
}

func notMadeTwice(t *testing.T, w world) {
	shop := newWorkshop(t, "debian")
	serve(t, w.options, "h1", shop)
	b := newBuilder(w.options)
	if _, err := b.Build(withTimeout(t), job("debian"), &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	other := newWorkshop(t, "debian")
	serve(t, w.options, "h2", other)
	offered(t, w.options, map[string]int{"image-build:debian": 2, "image-upload:" + id: 2, "image-delete:" + id: 2})
	for range 4 {
		artifact, err := b.Build(withTimeout(t), job("debian"), &bytes.Buffer{})
		if artifact.Host != "h1" || err != nil {
			t.Errorf("built again: %+v, %v", artifact, err)
		}
	}
	first, _ := shop.history()
	second, _ := other.history()
	if len(first) != 1 || len(second) != 0 {
		t.Errorf("made %v and %v", first, second)
	}
}

// gated is a workshop that builds and uploads nothing until the test lets it.
func gated(t testing.TB, images ...string) (shop *workshop, begun chan string, open chan error, stopped chan error) {
	shop, begun, open, stopped = newWorkshop(t, images...), make(chan string, 9), make(chan error, 9), make(chan error, 9)
	wait := func(ctx context.Context, what string) error {
		begun <- what
		select {
		case err := <-open:
			return err
		case <-ctx.Done():
			stopped <- context.Cause(ctx)
			return context.Cause(ctx)
		}
	}
	shop.make = func(ctx context.Context, _, id string, _ func(string, int64, int64)) error {
		return wait(ctx, "build "+id)
	}
	shop.send = func(ctx context.Context, s builders.UploadJob) (string, error) {
		return "e", wait(ctx, "upload "+s.BuildID)
	}
	return shop, begun, open, stopped
}

func runningBuildIsJoined(t *testing.T, w world) {
	if w.kind == gearmantest.Python {
		// The server joins no jobs, but a host serializes two jobs for one build.
		runningBuildIsMadeOnceByAHost(t, w)
		return
	}
	shop, begun, open, _ := gated(t, "debian")
	serve(t, w.options, "h1", shop)
	other, otherBegun, _, _ := gated(t, "debian")
	ctx, interrupt := context.WithCancel(withTimeout(t))
	first := build(ctx, w.options, job("debian"))
	receive(t, begun, "the build")
	serve(t, w.options, "h2", other)
	offered(t, w.options, map[string]int{"image-build:debian": 2, "image-delete:" + id: 2})
	interrupt()
	if got := receive(t, first, "the interrupted build"); !errors.Is(got.err, context.Canceled) {
		t.Errorf("got %+v", got)
	}
	clients(t, w.options, 0) // a server that still counts the interrupted client would hide that the next one is missing
	second := build(withTimeout(t), w.options, job("debian"))
	clients(t, w.options, 1)
	open <- nil
	if got := receive(t, second, "the build"); got.artifact.Host != "h1" || got.err != nil {
		t.Errorf("got %+v", got)
	}
	if len(begun)+len(otherBegun) > 0 {
		t.Error("the build was made twice")
	}
}

// clients waits until the given number of clients waits for the running build.
func clients(t *testing.T, o protocol.Options, want int) {
	t.Helper()
	var found protocol.Found
	var err error
	testutil.Await(t, "the state of the servers", func() bool {
		found, err = protocol.New(o).Find(withTimeout(t), id)
		return err == nil && found.Running && found.Clients == want
	}, func() string { return fmt.Sprintf("%d clients of the build: %+v, %v", want, found, err) })
}

func runningBuildIsMadeOnceByAHost(t *testing.T, w world) {
	shop, begun, open, _ := gated(t, "debian")
	host := newHost(t, gearman.ServeOptions{Gearman: w.options, BuildService: shop, BuildWorkers: 2, Host: "h1"})
	go func() { _ = host.Serve(t.Context()) }()
	offered(t, w.options, map[string]int{"image-build:debian": 2})
	first, second := build(withTimeout(t), w.options, job("debian")), build(withTimeout(t), w.options, job("debian"))
	receive(t, begun, "the build")
	for running := 0; running < 2; { // until both jobs are at the host
		status, err := protocol.New(w.options).Status(withTimeout(t))
		testutil.Must(t, err)
		running = status["image-build:debian"].Running
	}
	open <- nil
	for _, done := range []<-chan made{first, second} {
		if got := receive(t, done, "the build"); got.artifact.Host != "h1" || got.err != nil {
			t.Errorf("got %+v", got)
		}
	}
	if len(begun) > 0 {
		t.Error("the build was made twice")
	}
}

func logAndPhases(t *testing.T, w world) {
	shop := newWorkshop(t, "debian")
	heard := make(chan string, 100)
	shop.make = func(ctx context.Context, _, id string, progress func(string, int64, int64)) error {
		// Each step starts when the other side has reported the previous one.
		for step, tell := range map[string]func(){
			"first line\n":   func() { shop.write(id, "first line\nhalf a ") },
			"installing 3/7": func() { progress("installing", 3, 7) },
		} {
			tell()
			for got := ""; got != step; {
				select {
				case got = <-heard:
				case <-ctx.Done():
					return fmt.Errorf("%q was not heard: %w", step, ctx.Err())
				}
			}
		}
		shop.write(id, "line")
		return nil
	}
	serve(t, w.options, "h1", shop)
	var log bytes.Buffer
	j := job("debian")
	j.Progress = func(phase string, done, total int64) {
		if total > 0 {
			heard <- fmt.Sprintf("%s %d/%d", phase, done, total)
		}
	}
	if _, err := newBuilder(w.options).Build(withTimeout(t), j, writer(func(p []byte) {
		log.Write(p)
		if strings.Contains(string(p), "first line\n") {
			heard <- "first line\n"
		}
	})); err != nil {
		t.Fatal(err)
	}
	if _, after, _ := strings.Cut(log.String(), "h1 starts\n"); after != "building debian\nfirst line\nhalf a linenpctl: built on h1\n" {
		t.Errorf("log is %q", after)
	}
}

type writer func([]byte)

func (w writer) Write(p []byte) (int, error) { w(p); return len(p), nil }

func failureTellsWhy(t *testing.T, w world) {
	shop := newWorkshop(t, "debian")
	shop.make = func(context.Context, string, string, func(string, int64, int64)) error {
		return errors.New("disk-image-create ended with exit code 1")
	}
	serve(t, w.options, "h1", shop)
	b := newBuilder(w.options)
	_, err := b.Build(withTimeout(t), job("debian"), &bytes.Buffer{})
	if err == nil || err.Error() != "disk-image-create ended with exit code 1" {
		t.Errorf("got %v", err)
	}
	if held, err := b.ListBuilds(withTimeout(t)); len(held) > 0 || err != nil {
		t.Errorf("held after the failure: %v, %v", held, err)
	}
	shop.make = nil
	shop.send = func(context.Context, builders.UploadJob) (string, error) {
		return "", fmt.Errorf("upload to cloud: %w (10 of 10 images)", errQuota)
	}
	if _, err := b.Build(withTimeout(t), job("debian"), &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	_, err = b.Upload(withTimeout(t), sending())
	if want := "upload to cloud: quota exceeded (10 of 10 images)"; !errors.Is(err, errQuota) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	// The file disappears without the host's knowledge.
	testutil.Must(t, os.Rename(shop.path(id, "raw"), shop.path(id, "away")))
	if _, err := b.Upload(withTimeout(t), sending()); !errors.Is(err, builders.ErrHostUnavailable) {
		t.Errorf("got %v, want ErrAway", err)
	}
}

func timeoutStopsTheHost(t *testing.T, w world) {
	shop, _, _, stopped := gated(t, "debian")
	serve(t, w.options, "h1", shop)
	j := job("debian")
	j.Timeout = time.Second
	got := receive(t, build(withTimeout(t), w.options, j), "the build")
	if got.err == nil || !strings.Contains(got.err.Error(), "timeout after 1s") {
		t.Errorf("got %v", got.err)
	}
	if err := receive(t, stopped, "the host to stop"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stopped by %v", err)
	}
	offered(t, w.options, map[string]int{"image-build:debian": 1})
}

func removalStopsABuild(t *testing.T, w world) {
	shop, begun, _, stopped := gated(t, "debian")
	serve(t, w.options, "h1", shop)
	done := build(withTimeout(t), w.options, job("debian"))
	receive(t, begun, "the build")
	if err := newBuilder(w.options).Remove(withTimeout(t), id); err != nil {
		t.Error(err)
	}
	receive(t, stopped, "the host to stop")
	got := receive(t, done, "the build")
	if want := "the build was removed while it ran"; got.err == nil || got.err.Error() != want {
		t.Errorf("got error %v, want %s", got.err, want)
	}
	offered(t, w.options, map[string]int{"image-build:debian": 1})
	again := build(withTimeout(t), w.options, job("debian"))
	if got := receive(t, begun, "the build again"); got != "build "+id {
		t.Errorf("got %s", got)
	}
	if err := newBuilder(w.options).Remove(withTimeout(t), id); err != nil {
		t.Error(err)
	}
	receive(t, again, "the end")
}

// relayed returns options for a connection to the servers through a relay.
func relayed(t *testing.T, o protocol.Options) (*gearmantest.Relay, protocol.Options) {
	relay := gearmantest.StartRelay(t, o.Servers[0])
	o.Servers = []string{relay.Addr()}
	return relay, o
}

func remove(t *testing.T, b *gearman.Builder) <-chan error {
	done := make(chan error, 1)
	go func() { done <- b.Remove(withTimeout(t), id) }()
	return done
}

// The connection of the client is lost after the host has received the job, and the client connects again after the
// host has removed the build.
func lostAnswerOfARemoval(t *testing.T, w world) {
	relay, o := relayed(t, w.options)
	shop := newWorkshop(t, "debian")
	testutil.WriteFile(t, shop.path(id, "raw"), "image")
	shop.remove = func(context.Context) error { relay.Reset(); return nil }
	serve(t, w.options, "h1", shop)
	offered(t, w.options, map[string]int{"image-build:debian": 1, "image-upload:" + id: 2, "image-delete:" + id: 2})
	done := remove(t, newBuilder(o))
	offered(t, w.options, map[string]int{"image-build:debian": 1})
	relay.Resume()
	if err := receive(t, done, "the removal"); err != nil {
		t.Errorf("the repeated removal: %v", err)
	}
}

// The host loses its connection together with the client, before it has removed the build: no host offers the build,
// but it exists.
func hostIsLostDuringARemoval(t *testing.T, w world) {
	toClient, o := relayed(t, w.options)
	toHost, hostOptions := relayed(t, w.options)
	shop := newWorkshop(t, "debian")
	testutil.WriteFile(t, shop.path(id, "raw"), "image")
	removals := 0 // one at a time: the host serializes them
	shop.remove = func(ctx context.Context) error {
		if removals++; removals > 1 {
			return nil
		}
		toClient.Reset() // first, so that the client does not receive a failure from the server
		toHost.Reset()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	serve(t, hostOptions, "h1", shop)
	offered(t, w.options, map[string]int{"image-build:debian": 1, "image-upload:" + id: 2, "image-delete:" + id: 2})
	done := remove(t, newBuilder(o))
	testutil.Await(t, "the loss of the connections", func() bool { return toClient.Refused() > 0 && toHost.Refused() > 0 })
	offered(t, w.options, map[string]int{})
	before := toClient.Accepted()
	toClient.Resume()
	testutil.Await(t, "queries for the host", func() bool { return toClient.Accepted() >= before+6 || len(done) > 0 })
	if len(done) > 0 {
		t.Fatalf("the removal ends with %v while the host is away", <-done)
	}
	toHost.Resume()
	if err := receive(t, done, "the removal"); err != nil {
		t.Errorf("the removal after the return of the host: %v", err)
	}
	if _, err := os.Stat(shop.path(id, "raw")); err == nil {
		t.Error("the file is still there")
	}
}

func hostIsUp(t *testing.T, w world) {
	up := func(host string, want bool) {
		t.Helper()
		if got, err := newBuilder(w.options).Up(withTimeout(t), host); got != want || err != nil {
			t.Errorf("host %q is up: %t, %v; want %t", host, got, err, want)
		}
	}
	up("h1", false)
	shut := serve(t, w.options, "h1", newWorkshop(t, "debian"))
	serve(t, w.options, "h 2", newWorkshop(t, "debian"))
	offered(t, w.options, map[string]int{"image-build:debian": 2})
	up("h1", true)
	up("h 2", true)
	up("h", false)
	up("", false)
	shut()
	up("h1", false)
}

func killedHost(t *testing.T, w world) {
	shop, begun, _, stopped := gated(t, "debian")
	other, otherBegun, open, _ := gated(t, "debian")
	shut := serve(t, w.options, "h1", shop)
	done := build(withTimeout(t), w.options, job("debian"))
	receive(t, begun, "the build")
	serve(t, w.options, "h2", other)
	offered(t, w.options, map[string]int{"image-build:debian": 2, "image-delete:" + id: 2})
	shut()
	receive(t, stopped, "the first host to stop")
	if w.kind == gearmantest.Python {
		if got := receive(t, done, "the failure"); got.err == nil {
			t.Errorf("got %+v, want an error", got)
		}
		// The main side tries again.
		done = build(withTimeout(t), w.options, job("debian"))
	}
	receive(t, otherBegun, "the second host")
	open <- nil
	if got := receive(t, done, "the build"); got.artifact.Host != "h2" || got.err != nil {
		t.Errorf("got %+v", got)
	}
	offered(t, w.options, map[string]int{"image-build:debian": 1, "image-upload:" + id: 2, "image-delete:" + id: 2})
}

func offeredFromTheStart(t *testing.T, w world) {
	shop := newWorkshop(t, "debian")
	for _, build := range []string{"one", "two"} {
		testutil.WriteFile(t, shop.path(build, "raw"), "image")
	}
	shut := serve(t, w.options, "h1", shop)
	offered(t, w.options, map[string]int{
		"image-build:debian": 1, "image-upload:one": 2, "image-delete:one": 2, "image-upload:two": 2, "image-delete:two": 2,
	})
	shut()
	offered(t, w.options, map[string]int{})
}

func comesAndGoes(t *testing.T, w world) {
	shop := newWorkshop(t, "debian")
	serve(t, w.options, "h1", shop)
	offered(t, w.options, map[string]int{"image-build:debian": 1})
	testutil.WriteFile(t, shop.path("new", "raw"), "image")
	offered(t, w.options, map[string]int{"image-build:debian": 1, "image-upload:new": 2, "image-delete:new": 2})
	testutil.Must(t, os.Remove(shop.path("new", "raw")))
	offered(t, w.options, map[string]int{"image-build:debian": 1})
}

func reloaded(t *testing.T, w world) {
	shop, begun, open, _ := gated(t, "debian", "fedora")
	host, _ := serveHost(t, w.options, "h1", shop)
	offered(t, w.options, map[string]int{"image-build:debian": 1, "image-build:fedora": 1})
	running := build(withTimeout(t), w.options, job("debian"))
	receive(t, begun, "the build")
	images, use := shop.use("suse")
	if err := host.Reload(withTimeout(t), []string{"no name"}, use); err == nil || !slices.Equal(shop.Images(), []string{"debian", "fedora"}) {
		t.Errorf("after a name that gearman cannot have: error %v, images %v", err, shop.Images())
	}
	broken := errors.New("broken")
	if err := host.Reload(withTimeout(t), images, func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got error %v, want %v", err, broken)
	}
	offered(t, w.options, map[string]int{"image-build:debian": 1, "image-build:fedora": 1, "image-delete:" + id: 2})

	testutil.Must(t, host.Reload(withTimeout(t), images, use))
	// The function of the running job is withdrawn after the job.
	offered(t, w.options, map[string]int{"image-build:debian": 1, "image-build:suse": 1, "image-delete:" + id: 2})
	open <- nil
	if got := receive(t, running, "the build that ran"); got.err != nil || got.artifact.Host != "h1" {
		t.Errorf("the build that ran ends with %+v", got)
	}
	offered(t, w.options, map[string]int{"image-build:suse": 1, "image-upload:" + id: 2, "image-delete:" + id: 2})
}

func versionsOfExternalSources(t *testing.T, w world) {
	shop := newWorkshop(t, "debian", "fedora")
	list := []resources.Version{{ID: "b", Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}, {ID: "a", Time: time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)}}
	down := fmt.Errorf("list the builds: %w", errQuota)
	fails := false // guarded by shop.mu
	shop.versions = map[string]func() ([]resources.Version, error){
		"debian": func() ([]resources.Version, error) {
			if fails {
				return nil, down
			}
			return list, nil
		},
		"suse": func() ([]resources.Version, error) { return nil, nil },
	}
	host, shut := serveHost(t, w.options, "h1", shop)
	offered(t, w.options, map[string]int{"image-build:debian": 1, "image-build:fedora": 1, "image-versions:debian": 2})
	log := new(bytes.Buffer)
	o := w.options
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	b := newBuilder(o)
	query := func(image, want string, wantErr error) {
		t.Helper()
		got, err := b.Versions(withTimeout(t), image, job(image).Config, "")
		if fmt.Sprint(got) != want || !errors.Is(err, wantErr) {
			t.Errorf("%s: got %v and error %v, want %s and %v", image, got, err, want, wantErr)
		}
	}
	query("debian", fmt.Sprint(list), nil)
	query("fedora", "[]", builders.ErrNoVersions)
	query("fedora", "[]", builders.ErrNoVersions)
	if n := strings.Count(log.String(), "build hosts report no versions of an image"); n != 1 {
		t.Errorf("%d log lines about an image without versions, want 1:\n%s", n, log)
	}
	shop.mu.Lock()
	fails = true
	shop.mu.Unlock()
	query("debian", "[]", errQuota)

	j := job("debian")
	j.Version = "b"
	if got := receive(t, build(withTimeout(t), w.options, j), "the build"); got.err != nil {
		t.Error(got.err)
	}
	if made, _ := shop.history(); !slices.Equal(made, []string{"debian " + id + " [qcow2 raw] b"}) {
		t.Errorf("built %q", made)
	}
	images, use := shop.use("fedora", "suse")
	testutil.Must(t, host.Reload(withTimeout(t), images, use))
	offered(t, w.options, map[string]int{"image-build:fedora": 1, "image-build:suse": 1, "image-versions:suse": 2, "image-upload:" + id: 2, "image-delete:" + id: 2})
	query("suse", "[]", nil)
	query("debian", "[]", builders.ErrNoVersions)
	shut()
	query("suse", "[]", builders.ErrNoVersions)
}

func absentHost(t *testing.T, w world) {
	b := gearman.New(gearman.Settings{Gearman: w.options, HostTimeout: 50 * time.Millisecond})
	_, err := b.Upload(withTimeout(t), sending())
	if !errors.Is(err, builders.ErrHostUnavailable) || !strings.Contains(err.Error(), w.options.Servers[0]) {
		t.Errorf("send: got %v, want ErrAway with the server", err)
	}
	if err := b.Remove(withTimeout(t), id); !errors.Is(err, builders.ErrHostUnavailable) {
		t.Errorf("remove: got %v, want ErrAway", err)
	}
	if _, err := b.Build(withTimeout(t), job("debian"), &bytes.Buffer{}); !errors.Is(err, protocol.ErrNoWorker) || errors.Is(err, builders.ErrHostUnavailable) {
		t.Errorf("build: got %v, want ErrNoWorker", err)
	}
	// A host that disappears while the upload waits in the queue.
	shop, begun, _, _ := gated(t, "debian")
	testutil.WriteFile(t, shop.path(id, "raw"), "image")
	shut := serve(t, w.options, "h1", shop)
	offered(t, w.options, map[string]int{"image-build:debian": 1, "image-upload:" + id: 2, "image-delete:" + id: 2})
	var work sync.WaitGroup
	errs := make(chan error, 3)
	for n := range 3 {
		s := sending()
		s.Provider = fmt.Sprint("cloud", n)
		work.Go(func() {
			_, err := newBuilder(w.options).Upload(withTimeout(t), s)
			errs <- err
		})
	}
	receive(t, begun, "an upload")
	receive(t, begun, "another upload")
	shut()
	work.Wait()
	close(errs)
	for err := range errs {
		// The Python server fails jobs that were running.
		failed := w.kind == gearmantest.Python && errors.Is(err, protocol.ErrFailed)
		if !errors.Is(err, builders.ErrHostUnavailable) && !failed {
			t.Errorf("got %v, want ErrAway", err)
		}
	}
}

// do submits a job as the original client does.
func do(t testing.TB, o protocol.Options, function, data string) (string, error) {
	t.Helper()
	got, err := protocol.New(o).Do(withTimeout(t), protocol.Job{
		Function: function, Unique: "6c84fb90129b4f3cb8f3ba3ad4ccf2b8", Data: []byte(data), Wait: patience,
		Output: func(data []byte) { t.Errorf("an original client takes %q for the result", data) },
	})
	return string(got), err
}

func originalClient(t *testing.T, w world) {
	shop := newWorkshop(t, "centos7")
	serve(t, w.options, "h1", shop)
	got, err := do(t, w.options, "image-build:centos7", `{"image-id": "42"}`)
	if !strings.HasPrefix(got, `{"image-id":"42",`) || err != nil {
		t.Errorf("build: %s, %v", got, err)
	}
	got, err = do(t, w.options, "image-upload:42", `{"provider": "rax-dfw", "image-name": "centos7"}`)
	if got != `{"external-id":"cloud-42"}` || err != nil {
		t.Errorf("upload: %s, %v", got, err)
	}
	builds, sent := shop.history()
	if diff := cmp.Diff([]string{"centos7 42 []"}, builds); diff != "" {
		t.Errorf("built (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]builders.UploadJob{{BuildID: "42", Image: "centos7", Provider: "rax-dfw"}}, sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
	shop.send = func(context.Context, builders.UploadJob) (string, error) { return "", errors.New("no such provider") }
	if _, err := do(t, w.options, "image-upload:42", `{"provider": "nowhere", "image-name": "centos7"}`); !errors.Is(err, protocol.ErrFailed) {
		t.Errorf("failing upload: %v, want WORK_FAIL", err)
	}
	if got, err = do(t, w.options, "image-delete:42", ""); got != "" || err != nil {
		t.Errorf("delete: %q, %v", got, err)
	}
	offered(t, w.options, map[string]int{"image-build:centos7": 1})
}

// originalWorker acts like the original worker: it ignores npctl's extensions and sends only results.
func originalWorker(t *testing.T, w world) {
	var mu sync.Mutex
	var got []string
	var worker *protocol.Worker
	note := func(task *protocol.Task) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, task.Function)
	}
	upload := func(_ context.Context, task *protocol.Task) ([]byte, error) {
		note(task)
		return []byte(`{"external-id": "d0b27f2e"}`), nil
	}
	remove := func(_ context.Context, task *protocol.Task) ([]byte, error) {
		note(task)
		worker.Remove("image-upload:"+id, "image-delete:"+id)
		return nil, nil
	}
	worker = protocol.NewWorker(w.options, 2)
	build := func(ctx context.Context, task *protocol.Task) ([]byte, error) {
		note(task)
		if err := errors.Join(worker.Add(ctx, upload, "image-upload:"+id), worker.Add(ctx, remove, "image-delete:"+id)); err != nil {
			return nil, err
		}
		return []byte(`{"image-id": "` + id + `"}`), nil
	}
	testutil.Must(t, worker.Add(withTimeout(t), build, "image-build:centos7"))
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	work.Go(func() { worker.Run(ctx) })
	t.Cleanup(func() { cancel(); work.Wait() })
	b := newBuilder(w.options)
	if artifact, err := b.Build(withTimeout(t), job("centos7"), &bytes.Buffer{}); err != nil || len(artifact.RemoteFiles) > 0 {
		t.Errorf("build: %+v, %v", artifact, err)
	}
	if external, err := b.Upload(withTimeout(t), sending()); external != "d0b27f2e" || err != nil {
		t.Errorf("send: %q, %v", external, err)
	}
	if err := b.Remove(withTimeout(t), id); err != nil {
		t.Error(err)
	}
	want := []string{"image-build:centos7", "image-upload:" + id, "image-delete:" + id}
	if !slices.Equal(got, want) {
		t.Errorf("done %v, want %v", got, want)
	}
}

func strangeRequests(t *testing.T, w world) {
	shop := newWorkshop(t, "centos7")
	serve(t, w.options, "h1", shop)
	for data, want := range map[string]error{
		`{"image-id": "../../etc/passwd"}`: protocol.ErrFailed,
		`{"image-id": ".."}`:               protocol.ErrFailed,
		`{"image-id": "a b"}`:              protocol.ErrFailed,
		`{"image-id": ""}`:                 protocol.ErrFailed,
		`{}`:                               protocol.ErrFailed,
		`not JSON`:                         new(protocol.ExceptionError),
		``:                                 new(protocol.ExceptionError),
		`{"image-id": ["x"]}`:              new(protocol.ExceptionError),
	} {
		_, err := do(t, w.options, "image-build:centos7", data)
		var exception *protocol.ExceptionError
		if errors.Is(want, protocol.ErrFailed) != errors.Is(err, protocol.ErrFailed) || err == nil || errors.As(want, &exception) != errors.As(err, &exception) {
			t.Errorf("%s: got %v, want %T", data, err, want)
		}
	}
	if builds, _ := shop.history(); len(builds) > 0 {
		t.Errorf("built %v", builds)
	}
	for data, want := range map[string]string{`{"image-id": 17}`: `{"image-id":"17"`, `{"image_id": "18"}`: `{"image-id":"18"`} {
		if got, err := do(t, w.options, "image-build:centos7", data); !strings.HasPrefix(got, want) || err != nil {
			t.Errorf("%s: %s, %v", data, got, err)
		}
	}
}
