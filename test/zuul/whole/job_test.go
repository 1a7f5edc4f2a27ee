//go:build integration

package whole

import (
	"maps"
	"slices"
	"testing"
	"time"

	zuulsite "github.com/npctl/npctl/test/zuul/site"
)

func TestPushRunsAJobOnAMachine(t *testing.T) {
	s := newSite(t)
	before := s.Builds("work")
	greeting := "good morning, it is " + time.Now().String()
	commit := s.Push(greeting)
	b := s.Ended("work", before, "SUCCESS")
	if b.Ref.New != commit {
		t.Errorf("built is %s, pushed was %s", b.Ref.New, commit)
	}
	if got := s.Text("ran", b.UUID+".node.greeting"); got != greeting {
		t.Errorf("on the machine is %q, pushed was %q", got, greeting)
	}
	if at := s.AddressesOfBuild(b); len(at) != 1 || !slices.Contains(s.Machines(), at["node"]) {
		t.Errorf("it ran at %v, machines are %v", at, s.Machines())
	}
	s.awaitAllFree()
}

// TestCanceledJobsFreeTheirMachines cancels a running job and a waiting job that needs all machines.
func TestCanceledJobsFreeTheirMachines(t *testing.T) {
	s := newSite(t)
	before := s.Builds("wait")
	s.Enqueue("patient")
	running := s.AwaitBuild("wait", before)
	used := s.in("in-use")
	if address := s.AddressesOfBuild(running)["node"]; len(used) != 1 || !used[address].Locked {
		t.Errorf("it runs at %s; in use are %v", address, used)
	}
	s.Enqueue("crowd")
	s.await("a job waits for three machines", func() bool { return s.waiting(3) == 1 })
	s.Dequeue("crowd")
	s.await("nothing waits any more", func() bool { return s.waiting(3) == 0 })
	s.Dequeue("patient")
	s.Ended("wait", before, "CANCELED", "ABORTED")
	s.awaitAllFree()
	s.EndWait(running) // ends the process that Ansible has left on the machine
}

// TestMachinesOfFailedJobsAreHeld has a hold until an operator ends it, and a hold of some seconds.
func TestMachinesOfFailedJobsAreHeld(t *testing.T) {
	s := newSite(t)
	fails, others := s.Builds("fail"), s.Builds("fail-too")
	s.Autohold("fail", "to look at it", 0)
	s.Autohold("fail-too", "to look soon", 20*time.Second) // long enough to be observed on a busy machine
	t.Cleanup(func() { s.EndAutoholds("fail-too") })       // Zuul keeps the hold request a day longer than its machine
	s.Enqueue("broken")
	short := s.awaitHeld(s.Ended("fail-too", others, "FAILURE"))
	long := s.awaitHeld(s.Ended("fail", fails, "FAILURE"))
	if long.Comment != "to look at it" || long.Expiration != 0 || short.Comment != "to look soon" || short.Expiration != 20 {
		t.Errorf("held are %+v and %+v", long, short)
	}
	s.await("the shorter hold has expired", func() bool { return s.in("ready")[short.Address].ID != "" })
	if took := float64(time.Now().UnixMilli())/1000 - short.Since; took < 20 {
		t.Errorf("a hold of 20 s took %.1f s", took)
	}
	if now := s.in("hold")[long.Address]; now != long {
		t.Errorf("the longer hold was of %+v, is of %+v", long, now)
	}
	s.EndAutoholds("fail")
	s.awaitAllFree()
}

// awaitHeld waits until the machine of a build is held, and returns it.
func (s *site) awaitHeld(b zuulsite.Build) (n node) {
	s.t.Helper()
	address := s.AddressesOfBuild(b)["node"]
	s.await("the machine of "+b.Job+" is held", func() bool {
		n = s.in("hold")[address]
		return n.ID != "" && !n.Locked // Zuul unlocks it a moment later
	})
	return n
}

// TestKillOfNpctlDoesNotAffectRunningJob has a job on one machine that runs during the whole outage and ends while no npctl runs
// to take its machine back, and a job on two machines that requests them while no npctl serves it.
func TestKillOfNpctlDoesNotAffectRunningJob(t *testing.T) {
	s := newSite(t)
	waits, pairs := s.Builds("wait"), s.Builds("work-on-two")
	s.Enqueue("patient")
	running := s.AwaitBuild("wait", waits)
	address := s.AddressesOfBuild(running)["node"]
	its := s.in("in-use")[address]
	s.kill()
	s.Enqueue("pair")
	s.await("a job waits for two machines", func() bool { return s.waiting(2) == 1 })
	s.start()
	at := s.AddressesOfBuild(s.Ended("work-on-two", pairs, "SUCCESS"))
	if places := slices.Sorted(maps.Values(at)); len(at) != 2 || !slices.Equal(slices.Sorted(slices.Values(append(places, address))), s.Machines()) {
		t.Errorf("it ran at %v, and the other job at %s; machines are %v", at, address, s.Machines())
	}
	if now := s.in("in-use")[address]; its.ID == "" || now != its {
		t.Errorf("the job's machine was %+v, is %+v", its, now)
	}
	s.kill()
	s.EndWait(running)
	s.Ended("wait", waits, "SUCCESS")
	s.await("the machine was returned", func() bool { return s.in("used")[address].ID == its.ID })
	s.start()
	s.awaitAllFree()
}
