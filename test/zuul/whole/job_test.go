//go:build integration

package whole

import (
	"slices"
	"testing"
	"time"
)

// TestJobsRunOnMachines has a job on one machine, which a push starts, and beside it one on two.
func TestJobsRunOnMachines(t *testing.T) {
	s := newSite(t)
	works, pairs := s.builds("work"), s.builds("work-on-two")
	greeting := "good morning, it is " + time.Now().String()
	commit := s.push(greeting)
	s.enqueue("pair")
	work := s.ended("work", works, "SUCCESS")
	pair := s.ended("work-on-two", pairs, "SUCCESS")
	if work.Ref.New != commit {
		t.Errorf("built is %s, pushed was %s", work.Ref.New, commit)
	}
	if got := s.text("ran", work.UUID+".node.greeting"); got != greeting {
		t.Errorf("on the machine is %q, pushed was %q", got, greeting)
	}
	if at := s.ran(work); len(at) != 1 || !slices.Contains(addresses(), at["node"]) {
		t.Errorf("the job on one machine ran at %v, machines are %v", at, addresses())
	}
	at := s.ran(pair)
	if len(at) != 2 || at["primary"] == at["secondary"] || !slices.Contains(addresses(), at["primary"]) || !slices.Contains(addresses(), at["secondary"]) {
		t.Errorf("the job on two machines ran at %v, machines are %v", at, addresses())
	}
	s.allFree()
}

// TestCancelledJobsFreeTheirMachines has one that runs, and one that waits for as many machines as there are.
func TestCancelledJobsFreeTheirMachines(t *testing.T) {
	s := newSite(t)
	before := s.builds("wait")
	s.enqueue("patient")
	running := s.began("wait", before)
	used := s.in("in-use")
	if address := s.ran(running)["node"]; len(used) != 1 || !used[address].Locked {
		t.Errorf("it runs at %s; in use are %v", address, used)
	}
	s.enqueue("crowd")
	s.await("a job waits for three machines", func() bool { return s.waiting(3) == 1 })
	s.dequeue("crowd")
	s.await("nothing waits any more", func() bool { return s.waiting(3) == 0 })
	s.dequeue("patient")
	s.ended("wait", before, "CANCELED", "ABORTED")
	s.allFree()
	s.letGo(running) // what Ansible has left behind on the machine
}

// TestMachinesOfFailedJobsAreHeld has one that is held until somebody ends it, and one for some seconds.
func TestMachinesOfFailedJobsAreHeld(t *testing.T) {
	s := newSite(t)
	fails, others := s.builds("fail"), s.builds("fail-too")
	s.autohold("fail", "to look at it", 0)
	s.autohold("fail-too", "to look soon", 8*time.Second)
	t.Cleanup(func() { s.endAutoholds("fail-too") }) // Zuul keeps it a day longer than its machine
	s.enqueue("broken")
	long := s.ran(s.ended("fail", fails, "FAILURE"))["node"]
	short := s.ran(s.ended("fail-too", others, "FAILURE"))["node"]
	began := time.Now()
	s.await("both machines are held", func() bool { return len(s.in("hold")) == 2 })
	held := s.in("hold")
	if held[long].Comment != "to look at it" || held[short].Comment != "to look soon" || held[short].Expiration != 8 {
		t.Errorf("the jobs ran at %s and %s, held are %+v", long, short, held)
	}
	s.await("the shorter hold has expired", func() bool { return s.in("ready")[short].ID != "" })
	if took := time.Since(began); took < 3*time.Second {
		t.Errorf("a hold of 8 s took %s", took)
	}
	if now := s.in("hold")[long]; now.ID != held[long].ID {
		t.Errorf("the longer hold was of %+v, is of %+v", held[long], now)
	}
	s.endAutoholds("fail")
	s.allFree()
}

// TestKilledNpctlDisturbsNoJob has a job that runs all the time, one that begins while nobody serves it, and one that ends
// while nobody is there to take its machine back.
func TestKilledNpctlDisturbsNoJob(t *testing.T) {
	s := newSite(t)
	waits, pairs := s.builds("wait"), s.builds("work-on-two")
	s.enqueue("patient")
	running := s.began("wait", waits)
	address := s.ran(running)["node"]
	its := s.in("in-use")[address]
	s.kill()
	s.enqueue("pair")
	s.await("a job waits for two machines", func() bool { return s.waiting(2) == 1 })
	s.start()
	s.ended("work-on-two", pairs, "SUCCESS")
	if now := s.in("in-use")[address]; its.ID == "" || now != its {
		t.Errorf("the job's machine was %+v, is %+v", its, now)
	}
	s.kill()
	s.letGo(running)
	s.ended("wait", waits, "SUCCESS")
	s.await("the machine was given back", func() bool { return s.in("used")[address].ID == its.ID })
	s.start()
	s.allFree()
}
