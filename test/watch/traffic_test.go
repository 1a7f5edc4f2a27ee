//go:build integration

package watch

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// clientsAtATime is the number of concurrent clients.
const clientsAtATime = 5

// traffic is a set of clients that repeatedly take a node, use it for half a second and return it. None of their
// requests may fail, except for a label that is leaving.
type traffic struct {
	*site
	nodeUses
	projects []*project
	stop     context.CancelFunc
	clients  sync.WaitGroup
	ending   sync.Once
	served   atomic.Int64

	mu      sync.Mutex      // guards the fields below
	label   string          // label of new requests
	leaving map[string]bool // labels that may fail
	failed  []string        // errors of requests for these labels
}

// traffic starts clients that request a label.
func (s *site) traffic(label string, projects ...*project) *traffic {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	f := &traffic{site: s, projects: projects, stop: stop, label: label, leaving: map[string]bool{}}
	for i := range clientsAtATime {
		f.clients.Go(func() { f.client(ctx, fmt.Sprintf("client%d", i)) })
	}
	s.t.Cleanup(f.end)
	return f
}

// end waits until every client has completed its request, and checks the run.
func (f *traffic) end() {
	f.ending.Do(func() {
		f.stop()
		f.clients.Wait()
		for _, double := range f.overlaps() {
			f.t.Error(double)
		}
		f.t.Logf("%d requests were served", f.served.Load())
	})
}

func (f *traffic) client(ctx context.Context, name string) {
	for ctx.Err() == nil {
		f.mu.Lock()
		label := f.label
		f.mu.Unlock()
		if err := f.once(context.WithoutCancel(ctx), name, label); err != nil {
			f.recordFailure(label, err)
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// once makes one request and handles it until its end.
func (f *traffic) once(ctx context.Context, name, label string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	made, err := f.CreateRequest(ctx, wire.NewRequest{Labels: []string{label}, Requestor: name})
	if err != nil {
		return err
	}
	r, err := f.WaitRequest(ctx, made.ID)
	if err != nil {
		return fmt.Errorf("request %s: %w", made.ID, err)
	}
	if r.State != resources.StateFulfilled {
		return fmt.Errorf("request %s: %w", made.ID, errors.New(r.Error))
	}
	nodes, err := f.TakeRequest(ctx, r.ID, name, 0)
	if err != nil {
		return fmt.Errorf("request %s: %w", made.ID, err)
	}
	use := f.recordStart(nodes[0], name)
	time.Sleep(500 * time.Millisecond)
	if gone := f.unexpectedChange(nodes[0]); gone != "" {
		f.t.Errorf("request %s: %s", r.ID, gone)
	}
	f.recordEnd(use, time.Now())
	if _, err := f.ReturnNode(ctx, nodes[0].ID); err != nil {
		return fmt.Errorf("request %s: %w", made.ID, err)
	}
	f.served.Add(1)
	return nil
}

// unexpectedChange describes how a node in use has changed unexpectedly.
func (f *traffic) unexpectedChange(n wire.Node) string {
	for _, p := range f.projects {
		if p.Name != n.Provider {
			continue
		}
		if !slices.ContainsFunc(p.things(), func(t emulator.Thing) bool { return t.ID == n.ExternalID && t.Status == "ACTIVE" }) {
			return fmt.Sprintf("the server of node %s is gone while it is in use", n.ID)
		}
	}
	return ""
}

func (f *traffic) recordFailure(label string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.leaving[label] {
		f.t.Errorf("a request for %s failed: %v", label, err)
	}
	f.failed = append(f.failed, err.Error())
}

// permitFailures permits requests for a label to fail from now on.
func (f *traffic) permitFailures(label string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving[label] = true
}

// setLabel makes clients request another label from now on.
func (f *traffic) setLabel(label string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.label = label
}

// awaitProgress waits until twice as many requests were served as clients exist.
func (f *traffic) awaitProgress() {
	f.t.Helper()
	enough := f.served.Load() + 2*clientsAtATime
	testutil.Await(f.t, "requests are served", func() bool { return f.served.Load() >= enough })
}

// npctl runs a command in the directory of the configuration, and returns its exit code and output.
func (s *site) npctl(args ...string) (code int, said string) {
	s.t.Helper()
	cmd := s.command(s.t.Context(), append([]string{"-chdir=" + s.dir}, args...)...)
	out, err := cmd.CombinedOutput()
	var status *exec.ExitError
	if err != nil && !errors.As(err, &status) {
		s.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// reload makes the daemon reload its configuration. The command must end with the exit code and print the words.
func (s *site) reload(want int, words ...string) {
	s.t.Helper()
	s.reloadWith(nil, want, words...)
}

func (s *site) reloadWith(options []string, want int, words ...string) {
	s.t.Helper()
	code, said := s.npctl(append([]string{"reload"}, options...)...)
	if code != want {
		s.t.Errorf("npctl reload %q ends with %d, not %d:\n%s", options, code, want, said)
	}
	for _, word := range words {
		if !strings.Contains(said, word) {
			s.t.Errorf("npctl reload %q does not say %q:\n%s", options, word, said)
		}
	}
}
