package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// afar is a builder that builds images on another host.
type afar struct {
	exec.Builder
	build   error
	remove  error
	up      bool
	held    func(id string) (bool, error) // whether the host has a build; it has none when nil
	removed []string
	// interrupted cancels the run during the build.
	interrupted bool
	interrupt   context.CancelFunc
}

var (
	_ builders.Remote     = (*afar)(nil)
	_ builders.HostStatus = (*afar)(nil)
)

func (a *afar) Build(context.Context, builders.Job, io.Writer) (builders.Artifact, error) {
	if a.interrupted {
		a.interrupt()
		return builders.Artifact{}, context.Canceled
	}
	return builders.Artifact{Host: "h1"}, a.build
}

func (a *afar) Upload(context.Context, builders.UploadJob) (string, error) {
	return "", errors.New("not asked for here")
}

func (a *afar) Remove(_ context.Context, id string) error {
	a.removed = append(a.removed, id)
	return a.remove
}

func (a *afar) ListBuilds(context.Context) (map[string]bool, error) {
	held := map[string]bool{}
	for _, id := range a.removed {
		if a.held == nil {
			continue
		}
		has, err := a.held(id)
		if err != nil {
			return nil, err
		}
		held[id] = has
	}
	return held, nil
}

func (a *afar) Up(_ context.Context, host string) (bool, error) { return a.up && host == "h1", nil }

// does executes one step with the builder.
func (l *lab) does(t *testing.T, a *afar, s plan.Step) error {
	t.Helper()
	e, end := l.engine()
	defer end()
	e.Builders["exec"] = a
	seen, err := e.Observe(t.Context(), false)
	testutil.Must(t, err)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	a.interrupt = interrupt
	result, err := e.Execute(ctx, plan.Plan{Steps: []plan.Step{s}}, plan.Options{}, seen)
	testutil.Must(t, err)
	if notDone := slices.Concat(result.Failed, result.Interrupted); len(notDone) > 0 {
		return notDone[0].Err
	}
	return nil
}

var buildAfar = plan.Step{ID: "build debian", Kind: plan.KindBuild, Image: "debian", Formats: []string{"raw"}}

func (l *lab) theBuild(t *testing.T) *resources.Build {
	t.Helper()
	records := l.records(resources.KindBuild)
	if len(records) != 1 {
		t.Fatalf("there are %d builds, want 1", len(records))
	}
	return records[0].(*resources.Build)
}

func TestFailedRemoteBuildIsRemovedFromItsHost(t *testing.T) {
	l := newLab(t, host, emulator.Options{})
	away := fmt.Errorf("nobody has it: %w", builders.ErrHostUnavailable)
	for name, remove := range map[string]error{"that is there": nil, "that nobody has": away} {
		a := &afar{build: errors.New("timeout"), remove: remove}
		if err := l.does(t, a, buildAfar); err == nil || len(a.removed) != 1 {
			t.Errorf("%s: got %v, and removed %v", name, err, a.removed)
		}
		if builds := l.records(resources.KindBuild); len(builds) > 0 {
			t.Errorf("%s: the record stays", name)
		}
	}
	a := &afar{build: errors.New("timeout"), remove: errors.New("no server")}
	if err := l.does(t, a, buildAfar); err == nil || err.Error() != "timeout (log: "+l.logOf(t)+")" {
		t.Errorf("got %v", err)
	}
	b := l.theBuild(t)
	if b.State != resources.StateFailed {
		t.Errorf("a build that could not be removed is %s", b.State)
	}
	if err := l.does(t, &afar{remove: away}, plan.Step{ID: "delete", Kind: plan.KindDeleteBuild, Record: b.Key()}); err != nil {
		t.Error(err)
	}
}

func (l *lab) logOf(t *testing.T) string {
	t.Helper()
	b := l.theBuild(t)
	return l.dir + "/build-logs/debian-" + b.ID + ".log"
}

func TestRemoteBuildIsGoneOrItsHostIsDown(t *testing.T) {
	away := fmt.Errorf("nobody has it: %w", builders.ErrHostUnavailable)
	for name, test := range map[string]struct {
		remove error
		up     bool
		held   func(string) (bool, error)
		gone   bool
	}{
		"removed":                                    {remove: nil, gone: true},
		"its host is down":                           {remove: away},
		"its host is up and has it no more":          {remove: away, up: true, gone: true},
		"its host is up and nobody could ask for it": {remove: errors.New("no server"), up: true},
		"its host returned after the removal":        {remove: away, up: true, held: func(string) (bool, error) { return true, nil }},
		"its builds cannot be listed":                {remove: away, up: true, held: func(string) (bool, error) { return false, errors.New("no server") }},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, host, emulator.Options{})
			testutil.Must(t, l.does(t, &afar{}, buildAfar))
			b := l.theBuild(t)
			a := &afar{remove: test.remove, up: test.up, held: test.held}
			step := plan.Step{ID: "delete", Kind: plan.KindDeleteBuild, Record: b.Key()}
			if err := l.does(t, a, step); (err == nil) != test.gone {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff([]string{b.ID}, a.removed); diff != "" {
				t.Errorf("removed (-want +got):\n%s", diff)
			}
			if left := len(l.records(resources.KindBuild)); (left == 0) != test.gone {
				t.Errorf("%d records are left", left)
			}
		})
	}
}

// A build that was interrupted before any host had finished it is dropped without finding its host.
func TestInterruptedRemoteBuildOfNoHostIsDropped(t *testing.T) {
	l := newLab(t, host, emulator.Options{})
	if err := l.does(t, &afar{interrupted: true}, buildAfar); !errors.Is(err, reconcile.ErrInterrupted) {
		t.Fatalf("got %v", err)
	}
	b := l.theBuild(t)
	if b.State != resources.StateBuilding {
		t.Fatalf("the build is %s", b.State)
	}
	a := &afar{remove: fmt.Errorf("nobody has it: %w", builders.ErrHostUnavailable)}
	if err := l.does(t, a, plan.Step{ID: "delete", Kind: plan.KindDeleteBuild, Record: b.Key()}); err != nil {
		t.Error(err)
	}
	if left := l.records(resources.KindBuild); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
