package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

// leaks adds n servers with our ownership tags and without records, with a first sighting an hour ago.
func leaks(o *Observed, n int, change func(*resources.Sighting)) {
	view := o.Providers["cloud"]
	for i := range n {
		server := instance(fmt.Sprintf("%010d", 100+i))
		view.Instances = append(view.Instances, server)
		s := &resources.Sighting{Provider: "cloud", Type: "server", External: server.ID, First: o.Now.Add(-time.Hour), Last: o.Now,
			Record: resources.Key{Kind: resources.KindNode, ID: server.Marks.ID}}
		if change != nil {
			change(s)
		}
		o.Records.Sightings = append(o.Records.Sightings, s)
	}
	o.Providers["cloud"] = view
}

// A daemon plans again within seconds: its recent deletions count.
func TestLeakLimitAppliesOverTime(t *testing.T) {
	d, o := fleet(), settled()
	d.Settings.LeakLimit, d.Settings.LeakSightings = 3, 10*time.Minute
	leaks(&o, 12, nil)
	began := o.Now
	deleted := map[string]time.Duration{}
	for o.Now.Sub(began) < 45*time.Minute {
		for _, s := range Compute(d, o, Options{HonorBackoff: true}).Steps {
			if s.Thing != ThingLeftover {
				continue
			}
			if _, again := deleted[s.External]; !again {
				deleted[s.External] = o.Now.Sub(began)
			}
			for _, r := range o.Records.Sightings {
				if r.External == s.External {
					r.Deleted = o.Now
				}
			}
			if o.Now.Sub(began)%(20*time.Second) != 0 { // every other deletion fails at first and counts only once
				continue
			}
			view := o.Providers["cloud"]
			view.Instances = slices.DeleteFunc(slices.Clone(view.Instances), func(i resources.Instance) bool { return i.ID == s.External })
			o.Providers["cloud"] = view
		}
		now, gone := Sightings(o, d.Settings.LeakSightings)
		o.Records.Sightings = slices.DeleteFunc(o.Records.Sightings, func(r *resources.Sighting) bool { return slices.Contains(gone, r.Key()) })
		for _, s := range now {
			i := slices.IndexFunc(o.Records.Sightings, func(r *resources.Sighting) bool { return r.Key() == s.Key() })
			if i < 0 {
				o.Records.Sightings = append(o.Records.Sightings, s)
			} else {
				o.Records.Sightings[i] = s
			}
		}
		o.Now = o.Now.Add(10 * time.Second)
		view := o.Providers["cloud"]
		view.ListedAt = o.Now
		o.Providers["cloud"] = view
	}
	in := map[time.Duration]int{}
	for _, at := range deleted {
		in[at.Truncate(10*time.Minute)]++
	}
	for from, n := range in {
		if n > 3 {
			t.Errorf("%d leaks were deleted within ten minutes of %s, leak_limit is 3", n, from)
		}
	}
	if len(deleted) != 12 {
		t.Errorf("%d of 12 leaks were deleted in 45 minutes: %v", len(deleted), deleted)
	}
}

func TestOldStateDeletesNoLeaks(t *testing.T) {
	for name, test := range map[string]struct {
		ahead bool
		opt   Options
		want  int
		noted bool
	}{
		"a state that gave the ids":           {false, Options{HonorBackoff: true}, 4, false},
		"a state older than the cloud":        {true, Options{HonorBackoff: true}, 0, true},
		"a state older than the cloud, apply": {true, Options{}, 0, true},
		"with consent":                        {true, Options{AllowDestroy: AllowAll}, 4, true},
		"consent to images only":              {true, Options{AllowDestroy: AllowImages}, 0, true},
		"-destroy":                            {true, Options{Destroy: true}, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), settled()
			leaks(&o, 4, func(s *resources.Sighting) { s.NewerThanState = test.ahead && s.External != "server-0000000100" })
			p := Compute(d, o, test.opt)
			n := 0
			for _, s := range p.Steps {
				if s.Thing == ThingLeftover {
					n++
				}
			}
			if noted := strings.Contains(lines(p), "note "+NoteOldState); n != test.want || noted != test.noted {
				t.Errorf("%d leaks are deleted, noted: %t\n%s", n, noted, lines(p))
			}
		})
	}
}

func TestInstanceOfRunningBuildIsNoLeak(t *testing.T) {
	d, o := fleet(), settled()
	b := &resources.Build{ID: buildID(7), Image: "debian", Kind: resources.DiskImage, State: resources.StateBuilding, StateTime: o.Now}
	o.Records.Builds = append(o.Records.Builds, b)
	view := o.Providers["cloud"]
	view.Instances = append(view.Instances, resources.Instance{ID: "machine", Status: resources.StatusReady,
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindBuild, ID: b.ID}})
	o.Providers["cloud"] = view
	o.Busy = map[resources.Key]bool{b.Key(): true}
	if text := lines(Compute(d, o, Options{HonorBackoff: true})); strings.Contains(text, "machine") {
		t.Errorf("the machine of a build that runs is deleted:\n%s", text)
	}
	o.Busy = nil
	if text := lines(Compute(d, o, Options{HonorBackoff: true})); !strings.Contains(text, "delete provider.cloud.server.machine: unfinished") {
		t.Errorf("the machine of an interrupted build stays:\n%s", text)
	}
}
