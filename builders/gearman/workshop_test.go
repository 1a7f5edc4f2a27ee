package gearman_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/gearman"
	protocol "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

const patience = testutil.Patience

func withTimeout(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("the test lost patience"))
	t.Cleanup(cancel)
	return ctx
}

func quick(t testing.TB, servers ...string) protocol.Options {
	return protocol.Options{
		Servers: servers, Check: 100 * time.Millisecond, KeepAlive: 5 * time.Second,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

var errQuota = errors.New("quota exceeded")

func kinds() map[string]error { return map[string]error{"quota": errQuota} }

func newBuilder(o protocol.Options) *gearman.Builder {
	return gearman.New(gearman.Settings{Gearman: o, HostTimeout: patience, Kinds: kinds()})
}

// workshop keeps builds as files in a directory, like a real build host.
type workshop struct {
	dir    string
	images []string                                                                               // guarded by mu
	make   func(ctx context.Context, image, id string, progress func(string, int64, int64)) error // additional work of a build
	send   func(ctx context.Context, s builders.UploadJob) (string, error)
	remove func(ctx context.Context) error // additional work before the files are removed
	// versions lists the versions of images with an external source.
	versions map[string]func() ([]resources.Version, error) // guarded by mu
	mu       sync.Mutex
	made     []string             // guarded by mu: image id formats
	sent     []builders.UploadJob // guarded by mu
}

var (
	_ builders.BuildService = (*workshop)(nil)
	_ gearman.Logs          = (*workshop)(nil)
)

func newWorkshop(t testing.TB, images ...string) *workshop {
	return &workshop{dir: t.TempDir(), images: images}
}

func (w *workshop) Images() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.images
}

// use returns a function that makes the workshop offer other images.
func (w *workshop) use(images ...string) (now []string, use func(context.Context) error) {
	return images, func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.images = images
		return nil
	}
}

func (w *workshop) ListBuilds(context.Context) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(w.dir, "*.raw"))
	for n, path := range found {
		found[n] = filepath.Base(path[:len(path)-len(".raw")])
	}
	return found, err
}

func (w *workshop) VersionedImages() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.images), func(image string) bool { return w.versions[image] == nil })
}

func (w *workshop) Versions(_ context.Context, image string) ([]resources.Version, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if list := w.versions[image]; list != nil {
		return list()
	}
	return nil, builders.ErrNoVersions
}

func (w *workshop) path(id, ext string) string { return filepath.Join(w.dir, id+"."+ext) }

func (w *workshop) files(id string) []resources.ImageFile {
	return []resources.ImageFile{{Format: "raw", Name: id + ".raw", Size: 5, SHA256: "ab", MD5: "cd"}}
}

func (w *workshop) Build(ctx context.Context, job builders.RemoteBuild) ([]resources.ImageFile, error) {
	image, id := job.Image, job.BuildID
	if _, err := os.Stat(w.path(id, "raw")); err == nil {
		return w.files(id), nil
	}
	w.mu.Lock()
	w.made = append(w.made, strings.TrimSpace(fmt.Sprint(image, " ", id, " ", job.Formats, " ", job.Version)))
	w.mu.Unlock()
	w.write(id, fmt.Sprintf("building %s\n", image))
	if w.make != nil {
		if err := w.make(ctx, image, id, job.Progress); err != nil {
			return nil, err
		}
	}
	return w.files(id), os.WriteFile(w.path(id, "raw"), []byte("image"), 0o600)
}

// write appends to a build's log.
func (w *workshop) write(id, text string) {
	file, err := os.OpenFile(w.path(id, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	_, _ = file.WriteString(text)
}

func (w *workshop) OpenLog(_ context.Context, id string) (io.ReadCloser, error) {
	return os.Open(w.path(id, "log"))
}

func (w *workshop) Upload(ctx context.Context, s builders.UploadJob) (string, error) {
	if _, err := os.Stat(w.path(s.BuildID, "raw")); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("build %s: %w", s.BuildID, builders.ErrHostUnavailable)
	}
	progress := s.Progress
	s.Progress = nil
	w.mu.Lock()
	w.sent = append(w.sent, s)
	w.mu.Unlock()
	progress(1, 2)
	if w.send != nil {
		return w.send(ctx, s)
	}
	return "cloud-" + s.BuildID, nil
}

func (w *workshop) Remove(ctx context.Context, id string) error {
	if w.remove != nil {
		if err := w.remove(ctx); err != nil {
			return err
		}
	}
	err := os.Remove(w.path(id, "raw"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (w *workshop) history() (made []string, sent []builders.UploadJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.made), slices.Clone(w.sent)
}

// serve runs a build host until the end of the test or until it is closed.
func serve(t testing.TB, o protocol.Options, name string, w builders.BuildService) (shut func()) {
	t.Helper()
	_, shut = serveHost(t, o, name, w)
	return shut
}

func serveHost(t testing.TB, o protocol.Options, name string, w builders.BuildService) (host *gearman.Host, shut func()) {
	t.Helper()
	host = newHost(t, gearman.ServeOptions{
		Gearman: o, BuildService: w, Host: name, Kinds: kinds(), Log: o.Log, UploadWorkers: 2, Refresh: 200 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		if err := host.Serve(ctx); err != nil {
			t.Errorf("host %s: %v", name, err)
		}
	})
	shut = func() { cancel(); work.Wait() }
	t.Cleanup(shut)
	return host, shut
}

func newHost(t testing.TB, o gearman.ServeOptions) *gearman.Host {
	t.Helper()
	host, err := gearman.NewHost(o)
	testutil.Must(t, err)
	return host
}

// offered waits until exactly these functions have workers, in the given numbers.
func offered(t testing.TB, o protocol.Options, want map[string]int) {
	t.Helper()
	got := map[string]int{}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		status, err := protocol.New(o).Status(withTimeout(t))
		testutil.Must(t, err)
		clear(got)
		for name, f := range status {
			if f.Workers > 0 {
				got[name] = f.Workers
			}
		}
		if maps.Equal(got, want) {
			return
		}
	}
	t.Fatalf("offered %v, want %v", got, want)
}

func receive[T any](t testing.TB, from <-chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(patience):
		t.Fatalf("timed out waiting for %s", what)
	}
	return value
}
