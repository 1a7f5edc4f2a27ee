package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
)

func TestIdleNodesAreDeleted(t *testing.T) {
	const first, second = "delete node.0000000001: surplus [node/0000000001]\n", "delete node.0000000002: surplus [node/0000000002]\n"
	for name, c := range map[string]struct {
		change func(*resources.Desired, *Observed)
		want   string
	}{
		"beyond min_ready, the oldest first": {
			change: func(d *resources.Desired, o *Observed) { d.Labels[0].MinReady = 1 },
			want:   first,
		},
		"all of them": {
			change: func(d *resources.Desired, o *Observed) { d.Labels[0].MinReady = 0 },
			want:   first + second,
		},
		"not without a timeout": {
			change: func(d *resources.Desired, o *Observed) { d.Labels[0].MinReady, d.Labels[0].IdleTimeout = 0, 0 },
		},
		"not before it": {
			change: func(d *resources.Desired, o *Observed) {
				d.Labels[0].MinReady, d.Labels[0].IdleTimeout = 0, 2*time.Hour
			},
		},
		"a launch under way does not count": {
			change: func(d *resources.Desired, o *Observed) {
				launching := readyNode("0000000004")
				launching.State = resources.StateBuilding
				o.Records.Nodes, o.Busy = append(o.Records.Nodes, launching), map[resources.Key]bool{launching.Key(): true}
			},
		},
		"a request takes it": {
			change: func(d *resources.Desired, o *Observed) {
				d.Labels[0].MinReady = 0
				o.Records.Requests = []*resources.Request{{ID: "r", State: resources.StateRequested, StateTime: now, Created: now, Labels: []string{"small"}, Priority: 100}}
			},
			want: "serve request.r: request-waiting [request/r]\n" + second,
		},
		"a cloud that bills by the hour": {
			change: func(d *resources.Desired, o *Observed) {
				d.Labels[0].MinReady, d.Providers[0].MinRetention = 0, 50*time.Minute
				o.Records.Nodes[0].Created, o.Records.Nodes[1].Created = now.Add(-time.Hour), now.Add(-45*time.Minute)
			},
			want: first,
		},
		"within a budget": {
			change: func(d *resources.Desired, o *Observed) {
				d.Labels[0].MinReady, d.Labels[0].Disruptions = 0, []resources.Disruption{{Max: "1", Reasons: []string{"surplus"}}}
			},
			want: first + "note disruption label.small\n",
		},
		"a node in use stays": {
			change: func(d *resources.Desired, o *Observed) {
				d.Labels[0].MinReady = 0
				o.Records.Nodes[0].State = resources.StateInUse
			},
			want: second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), settled()
			d.Labels[0].IdleTimeout = 30 * time.Minute
			o.Records.Nodes[1].StateTime = o.Records.Nodes[0].StateTime.Add(time.Minute)
			c.change(&d, &o)
			if diff := cmp.Diff(c.want, lines(Compute(d, o, Options{}))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
