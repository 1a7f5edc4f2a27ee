package watch_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

// slotFleet has two slots on each node of a cloud.
const slotFleet = `
npctl { images_dir = "images" }

diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}

label "host" {}
label "job" {}

provider "lab" "one" {
  image_format    = "raw"
  launch_attempts = 1
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    max_servers       = 3
    node_attributes   = { rack = "7", shared = "no" }
    label "host" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}

provider "metastatic" "slots" {
  launch_attempts = 1
  pool "main" {
    node_attributes = { shared = "yes" }
    label "job" {
      backing_label     = "host"
      max_parallel_jobs = 2
      grace_time        = "5m"
    }
  }
}
`

// slotLab runs daemons one after the other: each dies, and the next one continues.
type slotLab struct {
	*lab
	d    *watch.Daemon
	stop func(orderly bool)
	life *life
}

func newSlotLab(t *testing.T, config string, first *life) *slotLab {
	s := &slotLab{lab: newLab(t, config, emulator.Options{BuildTime: 15 * time.Second, DeleteTime: 4 * time.Second}), life: first}
	s.refresh = 20 * time.Second
	s.d, s.stop = s.daemonWith(first)
	return s
}

// call runs a call of a client, and repeats it with the next daemon after the death of this one.
func (s *slotLab) call(what string, do func(*watch.Daemon) (done bool, err error)) {
	s.t.Helper()
	for range 600 {
		if s.life.over.Load() {
			s.restart()
		}
		done, err := do(s.d)
		if s.life.over.Load() {
			continue
		}
		if err != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
		if done {
			return
		}
		time.Sleep(time.Second)
	}
	s.t.Fatalf("%s: not within ten minutes\n%s", what, s.describe())
}

func (s *slotLab) restart() {
	s.stop(false)
	s.life = &life{}
	s.d, s.stop = s.daemonWith(s.life)
}

// records reads the store.
func (s *slotLab) records() (records plan.Records) {
	s.t.Helper()
	entries, err := s.store.List(s.t.Context(), resources.KindNode, resources.KindRequest)
	testutil.Must(s.t, err)
	for _, entry := range entries {
		records.Put(entry.Record, uint64(entry.Revision))
	}
	return records
}

func (s *slotLab) describe() string {
	var b strings.Builder
	records := s.records()
	for _, n := range records.Nodes {
		fmt.Fprintf(&b, "node %s %s %s %s request %s: %s\n", n.ID, n.State, n.Labels, n.ExternalID, n.Request, n.Error)
	}
	for _, r := range records.Requests {
		fmt.Fprintf(&b, "request %s %s %s by %s: %s\n", r.ID, r.State, r.Labels, r.Requestor, r.Error)
	}
	return b.String()
}

// take requests a node for a job and takes it.
func (s *slotLab) take(job string) (node *resources.Node) {
	s.t.Helper()
	mine := func() (r *resources.Request) {
		requests := s.records().Requests
		if i := slices.IndexFunc(requests, func(r *resources.Request) bool { return r.Requestor == job }); i >= 0 {
			r = requests[i]
		}
		return r
	}
	asked := false
	s.call(job, func(d *watch.Daemon) (bool, error) {
		records := s.records()
		if i := slices.IndexFunc(records.Nodes, func(n *resources.Node) bool { return n.Requestor == job && n.State == resources.StateInUse }); i >= 0 {
			node = records.Nodes[i]
			return true, nil
		}
		r := mine()
		switch {
		case r == nil && !asked:
			_, err := d.Clients.CreateRequest(s.t.Context(), watch.NewRequest{Labels: []string{"job"}, Requestor: job})
			asked = err == nil
			return false, err
		case r == nil:
			return false, errors.New("the request is lost")
		case r.State == resources.StateFailed:
			return false, errors.New(r.Error)
		case r.State == resources.StateFulfilled:
			_, err := d.Clients.Take(s.t.Context(), r.ID, job, 0)
			if errors.Is(err, watch.ErrState) { // the daemon learns of its commit after the store
				err = nil
			}
			return false, err
		}
		return false, nil
	})
	return node
}

func (s *slotLab) giveBack(n *resources.Node) {
	s.t.Helper()
	s.call("return node "+n.ID, func(d *watch.Daemon) (bool, error) {
		_, err := d.Clients.Return(s.t.Context(), n.ID)
		return err == nil || errors.Is(err, state.ErrNotFound), nil
	})
}

// awaitEmpty waits until no node and no server is left.
func (s *slotLab) awaitEmpty() {
	s.t.Helper()
	s.call("nothing is left", func(d *watch.Daemon) (bool, error) {
		records := s.records()
		return len(records.Nodes) == 0 && s.servers("one") == 0, nil
	})
}

func TestSlotsShareABackingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotLab(t, slotFleet, &life{})
		defer func() { s.stop(true) }()
		a, b := s.take("a"), s.take("b")
		if s.servers("one") != 1 || a.ExternalID == b.ExternalID || a.Addresses != b.Addresses {
			t.Errorf("%d servers for slots %s and %s at %s and %s", s.servers("one"), a.ExternalID, b.ExternalID, a.Addresses.Interface, b.Addresses.Interface)
		}
		if a.Attributes["rack"] != "7" || a.Attributes["shared"] != "yes" || a.Cloud == "" || a.Zone == "" || a.Login.ConnectionPort != 22 {
			t.Errorf("node %s has attributes %v, cloud %q, zone %q, port %d", a.ID, a.Attributes, a.Cloud, a.Zone, a.Login.ConnectionPort)
		}
		if c := s.take("c"); s.servers("one") != 2 {
			t.Errorf("%d servers with three jobs, the third in %s", s.servers("one"), c.ExternalID)
		}
		s.giveBack(b)
		time.Sleep(time.Minute)
		if d := s.take("d"); d.ExternalID != b.ExternalID || s.servers("one") != 2 {
			t.Errorf("job d is in slot %s, want the free slot %s; %d servers", d.ExternalID, b.ExternalID, s.servers("one"))
		}
	})
}

func TestIdleBackingNodeIsReturnedAfterGraceTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotLab(t, slotFleet, &life{})
		defer func() { s.stop(true) }()
		s.giveBack(s.take("a"))
		time.Sleep(4 * time.Minute)
		if n := s.servers("one"); n != 1 {
			t.Fatalf("%d servers before grace_time has passed", n)
		}
		s.restart() // the time of the last use survives
		time.Sleep(2 * time.Minute)
		if n := s.servers("one"); n != 0 {
			t.Errorf("%d servers after grace_time\n%s", n, s.describe())
		}
	})
}

func TestBackingNodeOfARemovedProviderIsReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotLab(t, slotFleet, &life{})
		defer func() { s.stop(true) }()
		a := s.take("a")
		rest, _, _ := strings.Cut(slotFleet, `provider "metastatic"`)
		s.write(rest)
		_, err := s.d.Reload(t.Context(), watch.ReloadOptions{AllowDestroy: true})
		testutil.Must(t, err)
		time.Sleep(10 * time.Minute)
		if n := s.servers("one"); n != 1 {
			t.Fatalf("%d servers while a job runs\n%s", n, s.describe())
		}
		s.giveBack(a)
		s.awaitEmpty()
	})
}

func TestRenamedProviderKeepsItsSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotLab(t, slotFleet, &life{})
		defer func() { s.stop(true) }()
		a := s.take("a")
		s.write(strings.Replace(slotFleet, `"metastatic" "slots"`, `"metastatic" "parts"`, 1) + "\nmoved {\n  from = provider.slots\n  to   = provider.parts\n}\n")
		p, err := s.d.Reload(t.Context(), watch.ReloadOptions{})
		testutil.Must(t, err)
		if n := p.Summary(); n.Move == 0 || n.Move != n.Total {
			t.Errorf("the plan of the reload is: %s", n)
		}
		time.Sleep(10 * time.Minute)
		if b := s.take("b"); s.servers("one") != 1 || b.Addresses != a.Addresses || b.Provider != "parts" {
			t.Errorf("%d servers; job b is at %s of %s, job a at %s\n%s", s.servers("one"), b.Addresses.Interface, b.Provider, a.Addresses.Interface, s.describe())
		}
		records := s.records()
		for _, n := range records.Nodes {
			if n.Provider == "slots" || n.Requestor == "npctl:metastatic:slots" {
				t.Errorf("node %s of %s, requestor %s", n.ID, n.Provider, n.Requestor)
			}
			if n.Provider == "parts" {
				s.giveBack(n)
			}
		}
		s.awaitEmpty()
	})
}

func TestDeletedBackingNodeTakesItsSlotsWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotLab(t, slotFleet, &life{})
		defer func() { s.stop(true) }()
		s.take("a")
		for _, id := range s.serverIDs() {
			testutil.Must(t, s.driver.Clouds["one"].Remove(id))
		}
		s.awaitEmpty()
	})
}

// TestReadySlotOfAStoppedServerIsReplaced: the server is deleted once no job runs on it.
func TestReadySlotOfAStoppedServerIsReplaced(t *testing.T) {
	for name, used := range map[string]bool{"unused": false, "a job uses the other slot": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSlotLab(t, strings.Replace(slotFleet, `label "job" {}`, "label \"job\" {\n  min_ready = 1\n}", 1), &life{})
				defer func() { s.stop(true) }()
				if used {
					s.take("a")
				}
				time.Sleep(2 * time.Minute)
				stopped := s.serverIDs()
				for _, id := range stopped {
					testutil.Must(t, s.driver.Clouds["one"].SetServerStatus(id, "SHUTOFF", ""))
				}
				time.Sleep(10 * time.Minute)
				if used {
					records := s.records()
					i := slices.IndexFunc(records.Nodes, func(n *resources.Node) bool { return n.Requestor == "a" })
					if i < 0 || s.servers("one") != 2 {
						t.Fatalf("the job has lost its server:\n%s", s.describe())
					}
					s.giveBack(records.Nodes[i])
					time.Sleep(10 * time.Minute)
				}
				if now := s.backing(); len(stopped) != 1 || len(now) != 1 || now[0] == stopped[0] || s.servers("one") != 1 {
					t.Errorf("servers %v were stopped, slots are on %v\n%s", stopped, now, s.describe())
				}
			})
		})
	}
}

// serverIDs returns the IDs of the servers of cloud one.
func (s *slotLab) serverIDs() (ids []string) {
	s.t.Helper()
	things, err := s.driver.Clouds["one"].Inventory()
	testutil.Must(s.t, err)
	for _, thing := range things {
		if thing.Type == "server" {
			ids = append(ids, thing.ID)
		}
	}
	return ids
}

// backing returns the cloud IDs of the nodes on which slots are.
func (s *slotLab) backing() (ids []string) {
	s.t.Helper()
	records := s.records()
	for _, n := range records.Nodes {
		if len(records.SlotsOf(n)) > 0 {
			ids = append(ids, n.ExternalID)
		}
	}
	return ids
}

// TestFailedBackingNodeFailsTheRequest: the reason reaches the request of the job.
func TestFailedBackingNodeFailsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlotLab(t, slotFleet, &life{})
		defer func() { s.stop(true) }()
		testutil.Must(t, s.driver.Clouds["one"].SetFaults(emulator.Fault{Operation: "server.create", Action: emulator.ServerError,
			Message: "No valid host was found. There are not enough hosts available."}))
		r, err := s.d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"job"}})
		testutil.Must(t, err)
		if r = s.fulfilled(s.d, r.ID); r.State != resources.StateFailed || !strings.Contains(r.Error, "No valid host") || !strings.Contains(r.Error, "no capacity") {
			t.Errorf("the request is %s: %s", r.State, r.Error)
		}
		testutil.Must(t, s.driver.Clouds["one"].SetFaults())
		s.awaitEmpty()
	})
}

// TestKilledAtEachCommitOfASlot kills the daemon before and after the effect of each commit, from the request of the
// first job until the backing node is gone. Both jobs run in slots of one backing node, and nothing is left.
func TestKilledAtEachCommitOfASlot(t *testing.T) {
	for _, late := range []bool{false, true} {
		at := int64(1)
		for reached := true; reached; at++ {
			synctest.Test(t, func(t *testing.T) {
				first := &life{dieAt: at, late: late}
				s := newSlotLab(t, slotFleet, first)
				defer func() { s.stop(false) }()
				a, b := s.take("a"), s.take("b")
				if n := s.servers("one"); n != 1 || a.ExternalID == b.ExternalID || a.Addresses != b.Addresses {
					t.Errorf("killed at commit %d (late %t): %d servers for slots %s and %s\n%s", at, late, n, a.ExternalID, b.ExternalID, s.describe())
				}
				s.giveBack(a)
				s.giveBack(b)
				s.awaitEmpty()
				if p := s.d.Last().Plan; slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Thing == plan.ThingNode }) {
					t.Errorf("killed at commit %d (late %t): there is still something to do", at, late)
				}
				reached = first.over.Load()
			})
			if t.Failed() {
				return
			}
		}
		t.Logf("killed at %d commits, late %t", at-2, late)
		if at < 15 {
			t.Errorf("only %d commits were seen", at)
		}
	}
}

// TestSlotsCostFewerCalls counts the API calls of 100 jobs that run at the same time, from their requests to the deletion
// of the servers, in four slots of each server and with a server each.
func TestSlotsCostFewerCalls(t *testing.T) {
	config := strings.NewReplacer("max_parallel_jobs = 2", "max_parallel_jobs = 4", "max_servers       = 3", "max_servers = 100",
		`image_format    = "raw"`, "image_format = \"raw\"\n  rate = 0", `provider "metastatic" "slots" {`, "provider \"metastatic\" \"slots\" {\n  rate = 0").Replace(slotFleet)
	quota := emulator.DefaultQuota()
	quota.Instances, quota.Cores, quota.RAM = 200, 400, 1<<20
	total := map[string]int{}
	for _, label := range []string{"host", "job"} {
		synctest.Test(t, func(t *testing.T) {
			s := &slotLab{lab: newLab(t, config, emulator.Options{BuildTime: 15 * time.Second, DeleteTime: 4 * time.Second, Quota: &quota}), life: &life{}}
			calls := &tally{counts: map[string]int{}}
			s.around, s.refresh = calls.wrap, time.Minute
			s.d, s.stop = s.daemonWith(s.life)
			defer func() { s.stop(true) }()
			time.Sleep(time.Minute) // the image is uploaded
			calls.take()
			began := time.Now()
			var ids []string
			for range 100 {
				r, err := s.d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{label}})
				testutil.Must(t, err)
				ids = append(ids, r.ID)
			}
			var nodes []string
			for _, id := range ids {
				r := s.fulfilled(s.d, id)
				_, err := s.d.Clients.Take(t.Context(), r.ID, "job", 0)
				testutil.Must(t, err)
				nodes = append(nodes, r.Nodes...)
			}
			took, servers := time.Since(began), s.servers("one")
			for _, id := range nodes {
				_, err := s.d.Clients.Return(t.Context(), id)
				testutil.Must(t, err)
			}
			s.awaitEmpty()
			n, text := calls.take()
			total[label] = n
			t.Logf("%s: %d calls, %d servers, ready after %s\n%s", label, n, servers, took, text)
		})
	}
	if total["job"] > total["host"]*2/3 { // most of the remaining calls list servers while they start
		t.Errorf("%d calls with slots, %d without", total["job"], total["host"])
	}
}
