package reconcile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// TestKilledAnywhere kills an apply, and then a destroy, at every commit and every changing call, before and after its
// effect. The next applies must reach the desired state: no duplicates, no leaks, no change of foreign objects.
func TestKilledAnywhere(t *testing.T) {
	for name, opt := range map[string]plan.Options{"apply": {}, "destroy": {Destroy: true}} {
		t.Run(name, func(t *testing.T) {
			supplies := 0
			for at := 1; ; at++ {
				struck, compared := killedAt(t, opt, at)
				supplies += compared
				if !struck {
					t.Logf("killed at %d points", at-1)
					if at < 30 {
						t.Errorf("only %d points were passed; the killer sees too little", at-1)
					}
					if opt.Destroy && supplies == 0 {
						t.Error("no plan after a kill took a ready node or upload")
					}
					return
				}
			}
		})
	}
}

// killedAt runs with a kill at one point, and reports whether the run reached it, and how many least numbers of ready nodes and uploads
// were compared in the complete runs.
func killedAt(t *testing.T, opt plan.Options, at int) (struck bool, supplies int) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second,
			Foreign: []emulator.ForeignServer{{Name: "np0000000001"}}})
		if opt.Destroy {
			l.mustRun(t, plan.Options{})
		}
		l.kill.Revive(at)
		_, _, err := l.run(t.Context(), opt)
		where, died := l.kill.Died()
		struck = died
		l.kill.Revive(0)
		if !died {
			if err != nil {
				t.Fatalf("without a kill: %v", err)
			}
			return
		}
		l.settle(t, opt, where)
		if opt.Destroy {
			l.empty(t)
		} else {
			l.asWanted(t, where)
		}
		if t.Failed() {
			t.Logf("killed at point %d: %s", at, where)
		}
		supplies = l.supplies
	})
	return struck, supplies
}

func (l *lab) mustRun(t *testing.T, opt plan.Options) {
	t.Helper()
	if p, _, err := l.run(t.Context(), opt); err != nil {
		t.Fatalf("%v\n%s", err, text(p))
	}
}

// settle applies until nothing is left to do. Two applies are enough: one to finish, and one for leaks, which need two
// sightings.
func (l *lab) settle(t *testing.T, opt plan.Options, where string) {
	t.Helper()
	for range 2 {
		l.mustRun(t, opt)
		time.Sleep(time.Minute) // simulated: time between the two sightings of a leak
	}
	if p := l.plan(opt); len(p.Steps) > 0 {
		t.Errorf("killed %s: two applies later there is still something to do:\n%s", where, text(p))
	}
}

// asWanted checks the contents of the clouds instead of npctl's view of them.
func (l *lab) asWanted(t *testing.T, where string) {
	t.Helper()
	want := map[string]map[string]int{
		"one": {"server": 2, "floating_ip": 2, "image": 1, "foreign": 1},
		"two": {"server": 1, "image": 1, "foreign": 1},
	}
	for name, cloud := range l.driver.Clouds {
		things, err := cloud.Inventory()
		testutil.Must(t, err)
		got := map[string]int{}
		ids := map[string]bool{}
		for _, thing := range things {
			ours := thing.Metadata["npctl_installation"] != ""
			switch {
			case thing.Type == "server" && !ours:
				got["foreign"]++
			case thing.Type == "image" && !ours, thing.Type == "port", thing.Type == "volume":
			default:
				got[thing.Type]++
			}
			if id := thing.Metadata["npctl_node_id"]; id != "" {
				if ids[id] {
					t.Errorf("killed %s: node %s has two servers in %s", where, id, name)
				}
				ids[id] = true
			}
		}
		for kind, n := range want[name] {
			if got[kind] != n {
				t.Errorf("killed %s: %d things of type %s in cloud %s, want %d", where, got[kind], kind, name, n)
			}
		}
	}
	l.oneBuild(t, where)
}

// oneBuild checks that one build is left on disk and on record. A build that was complete before the kill is used.
func (l *lab) oneBuild(t *testing.T, where string) {
	t.Helper()
	if builds := l.records(resources.KindBuild); len(builds) != 1 {
		t.Errorf("killed %s: %d builds on record, want 1", where, len(builds))
	}
	files, err := os.ReadDir(filepath.Join(l.dir, "images"))
	testutil.Must(t, err)
	var names []string
	for _, f := range files {
		if plan.BuildIDOfFile(f.Name()) != "" {
			names = append(names, f.Name())
		}
	}
	if len(names) != 1 || !strings.HasSuffix(names[0], ".raw") {
		t.Errorf("killed %s: image files are %v, want one", where, names)
	}
}

// TestKilledWhileAFailedAttemptIsCleared: the first server of a node fails in the cloud and another replaces it. After
// a kill at any time, the next apply continues at once and does not wait for the deletion of the failed server.
func TestKilledWhileAFailedAttemptIsCleared(t *testing.T) {
	for at, struck := 1, true; struck; at++ {
		synctest.Test(t, func(t *testing.T) {
			one := strings.Replace(oneCloud(), "min_ready = 2", "min_ready = 1", 1)
			l := newLab(t, one, emulator.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second})
			if err := l.driver.Clouds["one"].SetFaults(emulator.Fault{Operation: "server.create", Action: emulator.ServerError,
				Message: "No valid host was found. ", Times: 1}); err != nil {
				t.Fatal(err)
			}
			l.kill.Revive(at)
			_, _, _ = l.run(t.Context(), plan.Options{})
			where, died := l.kill.Died()
			l.kill.Revive(0)
			if struck = died; !died && at < 15 {
				t.Errorf("only %d points were passed; the killer sees too little", at-1)
			}
			began := time.Now()
			l.mustRun(t, plan.Options{})
			if took := time.Since(began); took > 10*time.Minute {
				t.Errorf("killed %s: the next apply took %s", where, took)
			}
			l.settle(t, plan.Options{}, where)
			nodes := l.nodes()
			for _, n := range nodes {
				if n.State != resources.StateReady || n.Attempt > 3 {
					t.Errorf("killed %s: node %s is %s after %d attempts: %s", where, n.ID, n.State, n.Attempt, n.Error)
				}
			}
			if servers := l.ours(t, "one"); servers != 1 || len(nodes) != 1 {
				t.Errorf("killed %s: there are %d nodes and %d servers of ours", where, len(nodes), servers)
			}
		})
	}
}

// ours returns the number of servers in a cloud with our ownership tags.
func (l *lab) ours(t *testing.T, cloud string) (servers int) {
	t.Helper()
	things, err := l.driver.Clouds[cloud].Inventory()
	testutil.Must(t, err)
	for _, thing := range things {
		if thing.Type == "server" && thing.Metadata["npctl_installation"] != "" {
			servers++
		}
	}
	return servers
}
