package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/resources"
)

// twoLabels is a provider with a nodes of label a, b nodes of label b, one build and one upload.
func twoLabels(a, b int) (resources.Desired, Observed) {
	d, o := fleet(), settled()
	d.Providers = d.Providers[:1]
	delete(o.Providers, "lab")
	pool := &d.Providers[0].Pools[0]
	pool.MaxServers = nil
	offer := pool.Offers[0]
	pool.Offers, d.Labels, o.Records.Nodes = nil, nil, nil
	view := o.Providers["cloud"]
	view.Instances = nil
	for _, label := range []struct {
		name  string
		count int
	}{{"a", a}, {"b", b}} {
		offer.Label = label.name
		pool.Offers = append(pool.Offers, offer)
		d.Labels = append(d.Labels, resources.Label{Name: label.name, MinReady: int64(label.count)})
		for range label.count {
			n := readyNode(fmt.Sprintf("%010d", len(o.Records.Nodes)+1))
			n.Labels = []string{label.name}
			o.Records.Nodes = append(o.Records.Nodes, n)
			view.Instances = append(view.Instances, instance(n.ID))
		}
	}
	o.Providers["cloud"] = view
	return d, o
}

func TestRemovalsThatNeedConsent(t *testing.T) {
	drop := func(label string) func(*resources.Desired) {
		return func(d *resources.Desired) {
			pool := &d.Providers[0].Pools[0]
			for i := range pool.Offers {
				if pool.Offers[i].Label == label {
					pool.Offers = append(pool.Offers[:i:i], pool.Offers[i+1:]...)
					break
				}
			}
			for i := range d.Labels {
				if d.Labels[i].Name == label {
					d.Labels = append(d.Labels[:i:i], d.Labels[i+1:]...)
					break
				}
			}
		}
	}
	rename := func(d *resources.Desired) {
		for i := range d.Providers[0].Pools[0].Offers {
			if d.Providers[0].Pools[0].Offers[i].Label == "a" {
				d.Providers[0].Pools[0].Offers[i].Label = "c"
			}
		}
		for i := range d.Labels {
			if d.Labels[i].Name == "a" {
				d.Labels[i].Name = "c"
			}
		}
	}
	empty := func(d *resources.Desired) { *d = resources.Desired{Settings: d.Settings} }
	// One build and one upload count in addition to the nodes.
	for name, test := range map[string]struct {
		a, b   int
		change func(*resources.Desired)
		opt    Options
		want   string // in the problem; empty means that no consent is needed
	}{
		"nothing changes":                    {a: 20, b: 0, change: func(*resources.Desired) {}},
		"more than ten":                      {a: 11, b: 30, change: drop("a"), want: "would remove 11 objects"},
		"ten of many":                        {a: 10, b: 30, change: drop("a")},
		"most of a small fleet":              {a: 5, b: 1, change: drop("a"), want: "would remove 5 of 8 objects"},
		"half of a small fleet":              {a: 4, b: 2, change: drop("a")},
		"a label is renamed":                 {a: 5, b: 0, change: rename},
		"min_ready is lowered":               {a: 9, b: 0, change: func(d *resources.Desired) { d.Labels[0].MinReady, d.Labels[1].MinReady = 1, 0 }},
		"max_servers is lowered":             {a: 9, b: 0, change: func(d *resources.Desired) { d.Providers[0].Pools[0].MaxServers = ptr(1) }},
		"an empty configuration":             {a: 1, b: 0, change: empty, want: "the configuration is empty"},
		"an empty configuration, big fleet":  {a: 20, b: 20, change: empty, want: "the configuration is empty"},
		"with consent":                       {a: 11, b: 30, change: drop("a"), opt: Options{AllowDestroy: AllowAll}},
		"-destroy":                           {a: 11, b: 30, change: drop("a"), opt: Options{Destroy: true}},
		"held by an earlier plan":            {a: 1, b: 30, change: drop("a"), opt: Options{RequireConsent: true}, want: "would remove 1 of"},
		"held by an earlier plan, none left": {a: 1, b: 30, change: func(*resources.Desired) {}, opt: Options{RequireConsent: true}},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := twoLabels(test.a, test.b)
			test.change(&d)
			p := Compute(d, o, test.opt)
			var problem string
			for _, q := range p.Problems {
				problem += q.Text
			}
			if test.want == "" && problem != "" || !strings.Contains(problem, test.want) {
				t.Errorf("problems are %q, want %q", problem, test.want)
			}
			patient := test.opt
			patient.HonorBackoff = true
			p = Compute(d, o, patient)
			if len(p.Problems) > 0 {
				t.Errorf("a daemon's plan has problems: %+v", p.Problems)
			}
			for _, s := range p.Steps {
				if s.NeedsConsent != (test.want != "" && s.unconfigured()) {
					t.Errorf("%s (%s) is held: %t", s.ID, s.Reason, s.NeedsConsent)
				}
			}
			if noted := strings.Contains(lines(p), noteConsent); noted != (test.want != "") {
				t.Errorf("noted: %t", noted)
			}
		})
	}
}

func TestMissingProgramsAreNoted(t *testing.T) {
	converter := []Program{{Name: "qemu-img", Package: "qemu-utils"}}
	build := Step{Kind: KindBuild, Address: "diskimage.debian", Image: "debian", Formats: []string{"qcow2", "raw"}}
	convert := Step{Kind: KindConvert, Address: "diskimage.debian", Image: "debian", Format: "vhd"}
	const noQemu = "this host lacks qemu-img, so the build of diskimage.debian will fail; install the Debian package qemu-utils"
	for name, test := range map[string]struct {
		seen  Observed
		steps []Step
		want  []string
	}{
		"nothing is missing": {Observed{Tools: map[string]Tools{"debian": {Formats: []string{"raw"}}}}, []Step{build, convert}, nil},
		"the builder's program": {
			Observed{Tools: map[string]Tools{"debian": {Missing: []Program{{Name: "make-image"}}, Formats: []string{"qcow2", "raw"}}}}, []Step{build},
			[]string{"this host lacks make-image, so the build of diskimage.debian will fail"},
		},
		"a conversion in the build":  {Observed{Converter: converter, Tools: map[string]Tools{"debian": {Formats: []string{"raw"}}}}, []Step{build, build}, []string{noQemu}},
		"no conversion in the build": {Observed{Converter: converter, Tools: map[string]Tools{"debian": {Formats: []string{"qcow2", "raw"}}}}, []Step{build}, nil},
		"unknown builder":            {Observed{Converter: converter}, []Step{build}, nil},
		"a conversion": {
			Observed{Converter: converter}, []Step{convert},
			[]string{"this host lacks qemu-img, so the conversion of diskimage.debian will fail; install the Debian package qemu-utils"},
		},
		"no such step": {Observed{Converter: converter}, []Step{{Kind: KindDeleteBuild, Image: "debian"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := review{&world{seen: test.seen}}
			var got []string
			for _, n := range c.missingPrograms(test.steps) {
				if n.Code != "program-missing" || n.Severity != Warning || n.Address != "diskimage.debian" {
					t.Errorf("note is %+v", n)
				}
				got = append(got, n.Text)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("notes are %q, want %q", got, test.want)
			}
		})
	}
}
