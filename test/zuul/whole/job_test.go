//go:build integration

package whole

import (
	"maps"
	"slices"
	"testing"
	"time"
)

func TestPushRunsAJobOnAMachine(t *testing.T) {
	s := newSite(t)
	before := s.builds("work")
	greeting := "good morning, it is " + time.Now().String()
	commit := s.push(greeting)
	b := s.ended("work", "SUCCESS", before)
	if b.Ref.New != commit {
		t.Errorf("built is %s, pushed was %s", b.Ref.New, commit)
	}
	at := s.ran(b)
	if len(at) != 1 || !slices.Contains(addresses(), at["node"]) {
		t.Errorf("it ran at %v, machines are %v", at, addresses())
	}
	if got := s.text("ran", b.UUID+".node.greeting"); got != greeting {
		t.Errorf("on the machine is %q", got)
	}
	s.allFree()
}

func TestJobOnTwoMachines(t *testing.T) {
	s := newSite(t)
	before := s.builds("work-on-two")
	s.enqueue("pair")
	at := s.ran(s.ended("work-on-two", "SUCCESS", before))
	if len(at) != 2 || at["primary"] == at["secondary"] || !slices.Contains(addresses(), at["primary"]) || !slices.Contains(addresses(), at["secondary"]) {
		t.Errorf("it ran at %v, machines are %v", at, addresses())
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
	s.ended("wait", "CANCELED", before)
	s.allFree()
	s.letGo(running) // what Ansible has left behind on the machine
}

func TestMachinesOfAFailedJobAreHeld(t *testing.T) {
	for name, c := range map[string]struct {
		expiration time.Duration
		end        func(*site, hold)
	}{
		"until the hold expires": {5 * time.Second, func(*site, hold) {}},
		"until it is ended":      {0, func(s *site, h hold) { s.endAutohold(h.ID) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			known := len(s.autoholds())
			s.autohold("fail", "to look "+name, c.expiration)
			before := s.builds("fail")
			s.enqueue("broken")
			b := s.ended("fail", "FAILURE", before)
			s.await("a machine is held", func() bool { return len(s.in("hold")) == 1 })
			held := slices.Collect(maps.Values(s.in("hold")))
			if at := s.ran(b)["node"]; len(held) != 1 || held[0].Address != at || held[0].Comment != "to look "+name {
				t.Errorf("it ran at %s; held are %+v", at, held)
			}
			all := s.autoholds()
			if len(all) != known+1 {
				t.Fatalf("holds are %+v", all)
			}
			c.end(s, all[len(all)-1])
			s.allFree()
		})
	}
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
	s.ended("work-on-two", "SUCCESS", pairs)
	if now := s.in("in-use")[address]; its.ID == "" || now != its {
		t.Errorf("the job's machine was %+v, is %+v", its, now)
	}
	s.kill()
	s.letGo(running)
	s.ended("wait", "SUCCESS", waits)
	s.await("the machine was given back", func() bool { return s.in("used")[address].ID == its.ID })
	s.start()
	s.allFree()
}
