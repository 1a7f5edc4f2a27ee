package gearman_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/gearman"
	protocol "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/gearman/gearmantest"
	"github.com/npctl/npctl/internal/testutil"
)

func TestLostAnswerIsNoSecondBuild(t *testing.T) {
	for _, kind := range []gearmantest.Kind{gearmantest.Gearmand, gearmantest.Python} {
		t.Run(kind.String(), func(t *testing.T) {
			server := gearmantest.Start(t, kind)
			o := quick(t, server.Addr())
			shop := newWorkshop(t, "debian")
			shop.make = func(context.Context, string, string, func(string, int64, int64)) error {
				server.Drop("") // so the answer for the finished image is lost
				return nil
			}
			serve(t, o, "h1", shop)
			if got := receive(t, build(withTimeout(t), o, job("debian")), "the build"); got.artifact.Host != "h1" || got.err != nil {
				t.Errorf("got %+v", got)
			}
			if builds, _ := shop.history(); len(builds) != 1 {
				t.Errorf("made %v", builds)
			}
		})
	}
}

func TestServerThatRestartsLosesNoBuild(t *testing.T) {
	server := gearmantest.Start(t, gearmantest.Gearmand)
	o := quick(t, server.Addr())
	shop, begun, open, stopped := gated(t, "debian")
	serve(t, o, "h1", shop)
	done := build(withTimeout(t), o, job("debian"))
	receive(t, begun, "the build")
	server.Stop()
	receive(t, stopped, "the build to be stopped")
	gearmantest.Again(t, gearmantest.Gearmand, server.Addr())
	receive(t, begun, "the build again")
	open <- nil
	if got := receive(t, done, "the build"); got.artifact.Host != "h1" || got.err != nil {
		t.Errorf("got %+v", got)
	}
}

// A host does not repeat the build of another host that reconnects to the server more slowly.
func TestServerThatRestartsMakesNoSecondBuild(t *testing.T) {
	server := gearmantest.Start(t, gearmantest.Gearmand)
	o := quick(t, server.Addr())
	first, second := newWorkshop(t, "debian"), newWorkshop(t, "debian")
	serve(t, o, "h1", first)
	offered(t, o, map[string]int{"image-build:debian": 1})
	if _, err := newBuilder(o).Build(withTimeout(t), job("debian"), &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	serve(t, o, "h2", second)
	offered(t, o, map[string]int{"image-build:debian": 2, "image-upload:" + id: 2, "image-delete:" + id: 2})
	for range 5 {
		server.Stop()
		done := build(withTimeout(t), o, job("debian"))
		server = gearmantest.Again(t, gearmantest.Gearmand, server.Addr())
		if got := receive(t, done, "the build"); got.artifact.Host != "h1" || got.err != nil {
			t.Errorf("got %+v", got)
		}
	}
	if builds, _ := second.history(); len(builds) > 0 {
		t.Errorf("made again: %v", builds)
	}
}

func TestTwoServersAreOne(t *testing.T) {
	first, second := gearmantest.Start(t, gearmantest.Gearmand), gearmantest.Start(t, gearmantest.Gearmand)
	o := quick(t, first.Addr(), second.Addr())
	shop := newWorkshop(t, "debian")
	serve(t, o, "h1", shop)
	for _, server := range []*gearmantest.Server{first, second} {
		offered(t, quick(t, server.Addr()), map[string]int{"image-build:debian": 1})
	}
	b := newBuilder(o)
	if _, err := b.Build(withTimeout(t), job("debian"), &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	first.Stop()
	if _, err := b.Upload(withTimeout(t), sending()); err != nil {
		t.Error(err)
	}
	held, err := b.ListBuilds(withTimeout(t))
	if diff := cmp.Diff(map[string]bool{id: true}, held); diff != "" || err != nil {
		t.Errorf("held (-want +got):\n%s%v", diff, err)
	}
	second.Stop()
	if held, err = b.ListBuilds(withTimeout(t)); err == nil {
		t.Errorf("nobody could look, and yet nothing is held: %v", held)
	}
	if _, err := gearman.New(gearman.Settings{Gearman: o, HostTimeout: 10 * time.Millisecond}).Upload(withTimeout(t), sending()); err == nil || errors.Is(err, builders.ErrHostUnavailable) {
		t.Errorf("got %v, want an error about the servers: nobody could look", err)
	}
}

// workAs runs a worker that is not npctl's.
func workAs(t *testing.T, o protocol.Options, handler protocol.Handler, functions ...string) {
	t.Helper()
	o.Name = "stranger"
	w := protocol.NewWorker(o, 1)
	testutil.Must(t, w.Add(withTimeout(t), handler, functions...))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

func TestBuildThatTakesItsHostsDownIsGivenUp(t *testing.T) {
	server := gearmantest.Start(t, gearmantest.Gearmand)
	o := quick(t, server.Addr())
	starts, reports := 0, func() (n int) {
		for _, line := range server.Log() {
			if strings.HasPrefix(line, "stranger-1 WORK_DATA") {
				n++
			}
		}
		return n
	}
	workAs(t, o, func(ctx context.Context, task *protocol.Task) ([]byte, error) {
		if err := task.Send([]byte(`{"host":"h1"}`)); err != nil {
			t.Error(err)
		}
		starts++
		testutil.Await(t, "the report at the server", func() bool { return reports() >= starts }) // a lost report is no start
		server.Drop("stranger-1")
		<-ctx.Done()
		return nil, ctx.Err()
	}, "image-build:debian")
	got := receive(t, build(withTimeout(t), o, job("debian")), "the build")
	want := "build hosts have started it 5 times and were lost each time, h1 last: see their logs"
	if got.err == nil || got.err.Error() != "build: "+want {
		t.Errorf("got error  %v\nwant error build: %s", got.err, want)
	}
}

func TestResponsesAreChecked(t *testing.T) {
	o := quick(t, gearmantest.Start(t, gearmantest.Gearmand).Addr())
	answers := make(chan string, 1)
	workAs(t, o, func(_ context.Context, task *protocol.Task) ([]byte, error) {
		_ = task.Send([]byte("no report"))
		_ = task.Send([]byte(`{"phase":"` + strings.Repeat("x", 1000) + `"}`))
		return []byte(<-answers), nil
	}, "image-build:debian", "image-upload:7")
	for answer, want := range map[string]string{
		``:                           "",
		`{"image-id": "` + id + `"}`: "",
		`{}`:                         "",
		`<html>`:                     `response "<html>" of the build host: invalid character`,
		`{"image-id": "other"}`:      `the build host responds for build "other", not "` + id + `"`,
		`{"image-id": "` + id + `", "npctl": {"files": [{"format": "raw", "name": "../../x"}]}}`:       "the response of the build host contains no file",
		`{"image-id": "` + id + `", "npctl": {"files": [{"format": "raw", "name": "x", "size": -1}]}}`: "the response of the build host contains no file",
	} {
		answers <- answer
		got := receive(t, build(withTimeout(t), o, job("debian")), "the build")
		if want == "" && got.err != nil || want != "" && (got.err == nil || !strings.HasPrefix(got.err.Error(), want)) {
			t.Errorf("%s: got error  %v\nwant error %s", answer, got.err, want)
		}
	}
	for answer, want := range map[string]string{
		``:                    `response "" of the build host: unexpected end`,
		`{}`:                  `response "{}" of the build host contains no ID of the image in the cloud`,
		`{"external-id": 17}`: "",
	} {
		answers <- answer
		s := sending()
		s.BuildID = "7"
		_, err := newBuilder(o).Upload(withTimeout(t), s)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: got error  %v\nwant error %s", answer, err, want)
		}
	}
}

func TestVersionsAreChecked(t *testing.T) {
	o := quick(t, gearmantest.Start(t, gearmantest.Gearmand).Addr())
	answers := make(chan string, 1)
	workAs(t, o, func(context.Context, *protocol.Task) ([]byte, error) { return []byte(<-answers), nil }, "image-versions:debian")
	offered(t, o, map[string]int{"image-versions:debian": 1})
	for answer, want := range map[string]string{
		``:                 `response "" of the build host: unexpected end`,
		`{}`:               `response "{}" of the build host contains no list of versions`,
		`{"versions": []}`: "",
		`{"versions": [{"id": "a", "time": "2026-03-01T12:00:00Z"}]}`: "",
		`{"versions": [{"id": "a b"}]}`:                               `the build host reports version "a b": it must not contain a slash or a space`,
		`{"versions": [{"id": "a", "time": "noon"}]}`:                 `response "{\"versions\": [{\"id\": \"a\", \"time\": \"noon\"}]}" of the build host: `,
	} {
		answers <- answer
		_, err := newBuilder(o).Versions(withTimeout(t), "debian", job("debian").Config, "")
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: got error  %v\nwant error %s", answer, err, want)
		}
	}
	answers <- `{"versions": [` + strings.Repeat(`{"id": "a"},`, 500) + `{"id": "a"}]}`
	if got, err := newBuilder(o).Versions(withTimeout(t), "debian", job("debian").Config, ""); len(got) != builders.MaxVersions || err != nil {
		t.Errorf("%d of 501 versions are read, %v; want %d", len(got), err, builders.MaxVersions)
	}
}

func TestHostThatCannotBeginSaysSo(t *testing.T) {
	for name, test := range map[string]struct {
		options gearman.ServeOptions
		want    string
	}{
		"no server":  {gearman.ServeOptions{BuildService: newWorkshop(t)}, "there is no gearman server: write at least one in the gearman block"},
		"image name": {gearman.ServeOptions{Gearman: quick(t, "x"), BuildService: newWorkshop(t, "a b")}, `image "a b" cannot be offered through gearman: it must not contain a slash or a space`},
		"listing":    {gearman.ServeOptions{Gearman: quick(t, "x"), BuildService: noListing{}}, "list the builds of this host: disk is gone"},
	} {
		host, err := gearman.NewHost(test.options)
		if err == nil {
			err = host.Serve(withTimeout(t))
		}
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: got error  %v\nwant error %s", name, err, test.want)
		}
	}
}

type noListing struct{ *workshop }

func (noListing) ListBuilds(context.Context) ([]string, error) {
	return nil, errors.New("disk is gone")
}

func TestUploadOfABuildThatHasJustDisappearedFindsNoHost(t *testing.T) {
	server := gearmantest.Start(t, gearmantest.Gearmand)
	o := quick(t, server.Addr())
	shop := newWorkshop(t, "debian")
	serve(t, o, "h1", shop)
	b := newBuilder(o)
	if _, err := b.Build(withTimeout(t), job("debian"), &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	server.IgnoreWithdrawals()
	testutil.Must(t, os.Remove(shop.path(id, "raw")))
	testutil.Await(t, "the host to withdraw the build", func() bool {
		return strings.Count(strings.Join(server.Log(), "\n"), "CANT_DO image-upload:"+id) == 2 // its workers
	}, func() string { return strings.Join(server.Log(), "\n") })
	_, err := b.Upload(withTimeout(t), sending())
	want := "h1 no longer offers image-upload:" + id + ": no available host has it"
	if !errors.Is(err, builders.ErrHostUnavailable) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestRemovalThatFailsSaysWhy(t *testing.T) {
	o := quick(t, gearmantest.Start(t, gearmantest.Gearmand).Addr())
	shop := newWorkshop(t)
	testutil.Must(t, errors.Join(os.Mkdir(shop.path(id, "raw"), 0o700), os.Mkdir(shop.path(id, "raw")+"/in-the-way", 0o700)))
	serve(t, o, "h1", shop)
	offered(t, o, map[string]int{"image-upload:" + id: 2, "image-delete:" + id: 2})
	if err := newBuilder(o).Remove(withTimeout(t), id); err == nil || !strings.Contains(err.Error(), "directory not empty") {
		t.Errorf("got %v, want the reason", err)
	}
	offered(t, o, map[string]int{"image-upload:" + id: 2, "image-delete:" + id: 2})
}

// A removal without an answer is not done as long as the host that had the build is away.
func TestRemovalAtAHostThatStaysAwayIsAnError(t *testing.T) {
	for _, kind := range []gearmantest.Kind{gearmantest.Gearmand, gearmantest.Python} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			server := gearmantest.Start(t, kind)
			toClient, clientOptions := relayed(t, quick(t, server.Addr()))
			toHost, hostOptions := relayed(t, quick(t, server.Addr()))
			shop := newWorkshop(t)
			testutil.WriteFile(t, shop.path(id, "raw"), "image")
			shop.remove = func(ctx context.Context) error {
				toClient.Reset()
				toHost.Reset()
				toClient.Resume()
				<-ctx.Done()
				return context.Cause(ctx)
			}
			serve(t, hostOptions, "h1", shop)
			offered(t, quick(t, server.Addr()), map[string]int{"image-upload:" + id: 2, "image-delete:" + id: 2})
			err := gearman.New(gearman.Settings{Gearman: clientOptions, HostTimeout: time.Second}).Remove(withTimeout(t), id)
			if err == nil {
				t.Error("the build counts as removed")
			}
		})
	}
}

func TestSettingsAreChecked(t *testing.T) {
	b := new(gearman.Builder)
	for _, a := range b.Schema().Attributes {
		if a.Doc == "" {
			t.Errorf("attribute %s lacks documentation", a.Name)
		}
	}
	image, _ := b.Schema().Lookup("image")
	for value, want := range map[string]string{
		"debian": "", "debian-12.x_64": "",
		"a/b": `image = "a/b" is not an image name: it must not contain a slash or a space`,
		"":    `image = "" is not an image name: it is empty, or a directory`,
	} {
		err := image.Check(cty.StringVal(value))
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("got error  %v\nwant error %s", err, want)
		}
	}
}
