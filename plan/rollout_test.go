package plan

import (
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

// TestRolloutSharesNodes launches nodes of an image with a new build beside nodes of the build before it.
func TestRolloutSharesNodes(t *testing.T) {
	for name, c := range map[string]struct {
		share              int
		older, newer, more int // nodes that exist, and nodes to launch
		want               int // launches from the new build
	}{
		"an empty pool":          {share: 30, more: 10, want: 3},
		"the first one":          {share: 10, more: 1, want: 1},
		"one of ten":             {share: 10, older: 9, more: 1, want: 1},
		"one of ten is there":    {share: 10, older: 8, newer: 1, more: 1, want: 0},
		"two of eleven":          {share: 10, older: 9, newer: 1, more: 1, want: 1},
		"half":                   {share: 50, older: 4, more: 4, want: 4},
		"all":                    {share: 100, older: 4, more: 2, want: 2},
		"more than in the stage": {share: 10, newer: 5, more: 2, want: 0},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := secondUpload()
			d.Images[0].Validate, d.Images[0].Rollout = nil, &resources.Rollout{Stages: []resources.RolloutStage{{Share: c.share, Successes: 5}}}
			d.Labels[0].MinReady, d.Providers[0].Pools[0].MaxServers = int64(c.older+c.newer+c.more), nil
			view := o.Providers["cloud"]
			o.Records.Nodes, view.Instances = o.Records.Nodes[2:], nil
			for i := range c.older + c.newer {
				n := readyNode("00000000" + string(rune('1'+i/10)) + string(rune('0'+i%10)))
				if i >= c.older {
					n.Upload = "2"
				}
				o.Records.Nodes, view.Instances = append(o.Records.Nodes, n), append(view.Instances, instance(n.ID))
			}
			o.Providers["cloud"] = view
			p := Compute(d, o, Options{})
			launches := map[string]int{}
			for _, s := range p.Steps {
				if s.Kind != KindLaunch || len(s.Needs) > 0 {
					t.Errorf("unexpected step %s", s.ID)
				}
				launches[s.Upload]++
			}
			if launches["2"] != c.want || launches["1"] != c.more-c.want {
				t.Errorf("launches by upload: %v, want %d of %d from upload 2", launches, c.want, c.more)
			}
		})
	}
}

// The build to return to stays during a rollout, however few builds are kept.
func TestRolloutKeepsTheOlderBuild(t *testing.T) {
	d, o := secondUpload()
	d.Images[0].Keep, d.Images[0].Validate, d.Images[0].Rollout = 1, nil, &resources.Rollout{Stages: []resources.RolloutStage{{Share: 50, Successes: 9}}}
	trial := &resources.Trial{Upload: "2", Build: buildID(2), Launched: now, StageSince: now.Add(-time.Minute), StagePassed: 2}
	o.Records.Trials = append(o.Records.Trials, trial)
	for i := range 2 {
		o.Records.Nodes[i].Upload = "2"
	}
	if got, want := lines(Compute(d, o, Options{})), "note rollout provider.cloud.image.debian\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	trial.Completed = now
	if got, want := lines(Compute(d, o, Options{})), "delete provider.cloud.image.debian: superseded [upload/1]\ndelete diskimage.debian: superseded [build/"+buildID(1)+"] needs(delete upload 1)\n"; got != want {
		t.Errorf("after the rollout: got\n%swant\n%s", got, want)
	}
}
