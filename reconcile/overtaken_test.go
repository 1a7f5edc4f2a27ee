package reconcile

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state"
)

// countingBuilder counts its builds, all of which fail.
type countingBuilder struct{ builds int }

func (*countingBuilder) Kind() string         { return "counting" }
func (*countingBuilder) Schema() schema.Block { return schema.Block{} }
func (b *countingBuilder) Build(context.Context, builders.Job, io.Writer) (builders.Artifact, error) {
	b.builds++
	return builders.Artifact{}, errors.New("out of order")
}

func TestABuildThatAnotherHasFinishedIsNotMadeAgain(t *testing.T) {
	for name, test := range map[string]struct {
		image   string
		planned bool // the plan knew that the other build was ready
		builds  int
	}{
		"finished after the plan":  {image: "debian", builds: 0},
		"finished before the plan": {image: "debian", planned: true, builds: 1},
		"of another image":         {image: "fedora", builds: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShared(t)
			maker := &countingBuilder{}
			desired := resources.Desired{Images: []resources.Image{{Name: "debian", Kind: resources.DiskImage, Builder: "counting"}}}
			desired.Settings.ImagesDir, desired.Settings.BuildLogDir = t.TempDir(), t.TempDir()
			e := New(Options{Desired: desired, Store: s, Builders: map[string]builders.Builder{"counting": maker}})
			t.Cleanup(func() { _ = e.Close() })
			other := &resources.Build{ID: "00000000000000000000000000000abc", Image: test.image, Kind: resources.DiskImage, State: resources.StateReady}
			seen := plan.Observed{Installation: "here"}
			finish := func() {
				building := *other
				building.State = resources.StateBuilding
				entries, err := s.Store.Commit(t.Context(), state.Op{Record: &building})
				testutil.Must(t, err)
				if _, err := s.Store.Commit(t.Context(), state.Op{Record: other, Revision: entries[0].Revision}); err != nil {
					t.Fatal(err)
				}
			}
			if test.planned {
				finish()
				seen.Records.Builds = []*resources.Build{other}
			} else {
				s.afterCommit = finish
			}
			x, err := begin(t.Context(), e, seen)
			testutil.Must(t, err)
			defer x.pollers.end()
			_, err = x.build(t.Context(), plan.Step{ID: "build debian", Kind: plan.KindBuild, Image: "debian", Formats: []string{"raw"}})
			if changed := errors.Is(err, errChanged); err == nil || changed != (test.builds == 0) || maker.builds != test.builds {
				t.Errorf("the step ended with %v after %d builds, want %d", err, maker.builds, test.builds)
			}
			entries, err := s.List(t.Context(), resources.KindBuild)
			if err != nil || len(entries) != 1 {
				t.Errorf("records of builds are %v, %v; want the one that is ready", entries, err)
			}
		})
	}
}
