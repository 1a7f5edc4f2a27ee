//go:build integration

package integration

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npctl/npctl/test/openstack/lab"
)

// Tests here make the whole lab misbehave, so they do not run in parallel. What they are about: after one apply or a
// few the world is as wanted, nothing is left over, nothing is there twice, and what others have is as it was.

// settled applies until there is nothing left to do. Three times is enough: to finish, to see a leak again, to be sure.
func (at *place) settled() {
	at.t.Helper()
	for range 3 {
		at.run("apply", "-auto-approve")
		o := at.run("plan", "-detailed-exitcode")
		leaks := strings.Contains(o.stdout, "carries our marks and ") // has no record, or is a second one
		if o.code == 0 && o.last() == "No changes." && !leaks {
			return
		}
		if leaks {
			<-time.After(time.Second) // leak_age
		}
	}
	at.t.Errorf("three applies later there is still something to do:\n%s", at.run("plan").text())
}

// gone destroys everything and fails the test unless the project is as it was.
func (at *place) gone(p *project, before map[string]thing) {
	at.t.Helper()
	at.mustRun(0, "destroy", "-auto-approve")
	p.mustBe(before)
	at.mustRun(0, "destroy", "-auto-approve").ends("No changes.")
}

// faults sets rules of the lab until the test ends.
func (p *project) faults(rules ...lab.Rule) {
	p.t.Helper()
	if err := p.lab.Faults(rules...); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := p.lab.Clear(); err != nil {
			p.t.Error(err)
		}
	})
}

// pause stops services until resume is called, or the test ends.
func (p *project) pause(services ...string) (resume func()) {
	p.t.Helper()
	undo, err := p.lab.Pause(services...)
	if err != nil {
		p.t.Fatal(err)
	}
	resume = func() {
		if err := undo(); err != nil {
			p.t.Error(err)
		}
	}
	p.t.Cleanup(resume)
	return resume
}

const quick = "cloud           = \"mine\"\n  api_timeout = \"4s\""

// TestOpenStackCreateHappensAfterEverybodyGaveUp stops Neutron when Nova is asked for the first server, and lets it go
// on when npctl has given up and ended. The servers come then.
func TestOpenStackCreateHappensAfterEverybodyGaveUp(t *testing.T) {
	p := newProject(t).furnish()
	before := p.things()
	g := p.gated()
	at := p.newPlace(small)
	at.change(`cloud           = "mine"`, quick)
	at.change("launch_attempts = 2", "launch_attempts = 1")
	at.change("min_ready = 2", "min_ready = 1")
	resume := func() {}
	var once sync.Once
	g.set(func(call string) error {
		if call == "POST compute /servers" {
			once.Do(func() { resume = p.pause("neutron") })
		}
		return nil
	}, nil)
	at.mustRun(1, "apply", "-auto-approve").says("no answer within 4s")
	resume()
	eventually(t, "the server comes though nobody waits for it", func() bool { return len(p.nodes()) == 1 })

	at.settled()
	p.mustHave(before, map[string]int{"server": 1})
	at.gone(p, before)
}

// TestOpenStackCreateHappensDuringTheNextAttempt lets Neutron go on when the second attempt asks again, so that both
// servers of one node come.
func TestOpenStackCreateHappensDuringTheNextAttempt(t *testing.T) {
	p := newProject(t).furnish()
	before := p.things()
	g := p.gated()
	at := p.newPlace(small)
	at.change(`cloud           = "mine"`, quick)
	at.change("min_ready = 2", "min_ready = 1")
	resume := func() {}
	var asked atomic.Int32
	g.set(func(call string) error {
		if call != "POST compute /servers" {
			return nil
		}
		switch asked.Add(1) {
		case 1:
			resume = p.pause("neutron")
		case 2:
			resume()
		}
		return nil
	}, nil)
	at.run("apply", "-auto-approve")
	if n := asked.Load(); n < 2 {
		t.Fatalf("Nova was asked %d times, want two", n)
	}
	at.settled()
	p.mustHave(before, map[string]int{"server": 1})
	at.gone(p, before)
}

// TestOpenStackMessageQueueHangs has a Nova that takes orders and passes none on.
func TestOpenStackMessageQueueHangs(t *testing.T) {
	p := newProject(t).furnish()
	before := p.things()
	at := p.newPlace(small)
	at.change(`cloud           = "mine"`, quick)
	at.change("launch_attempts = 2", "launch_attempts = 1\n launch_timeout = \"10s\"")
	resume := p.pause("rabbitmq")
	undo := time.AfterFunc(30*time.Second, resume) // a service that hangs for a minute is reported down
	defer undo.Stop()
	at.run("apply", "-auto-approve")
	resume()
	at.settled()
	p.mustHave(before, map[string]int{"server": 2})
	at.gone(p, before)
}

// TestOpenStackDeleteIsAcceptedAndFails has servers that go to ERROR after the first delete was answered with 204, and
// one that takes its time.
func TestOpenStackDeleteIsAcceptedAndFails(t *testing.T) {
	p := newProject(t).furnish()
	before := p.things()
	at := p.newPlace(small)
	at.mustRun(0, "apply", "-auto-approve")
	p.faults(lab.Rule{On: lab.Destroy, Name: "np0000000001", Times: 1},
		lab.Rule{On: lab.Destroy, Action: lab.Delay, Name: "np0000000002", For: 5 * time.Second})
	at.gone(p, before)
}

// TestOpenStackAddressesAppearLate has servers that are ACTIVE before they have an address, and floating IPs that Nova
// hears of late.
func TestOpenStackAddressesAppearLate(t *testing.T) {
	p := newProject(t).furnish()
	before := p.things()
	at := p.newPlace(small)
	at.change("auto_floating_ip = false", "auto_floating_ip = true")
	p.faults(lab.Rule{On: lab.Address, Action: lab.Delay, Name: "np000000000?", For: 4 * time.Second},
		lab.Rule{On: lab.FloatingIP, Action: lab.Delay, Name: "np000000000?", For: 6 * time.Second})
	at.mustRun(0, "apply", "-auto-approve").says("2 launched")
	at.nothingToDo()
	p.mustHave(before, map[string]int{"server": 2, "floating IP": 2})
	at.mustRun(0, "state", "show", "node.0000000001").says("127.78.")
	at.gone(p, before)
}

// TestOpenStackSpawnFails has a server that fails on its first host, and one that fails for good and is made again.
func TestOpenStackSpawnFails(t *testing.T) {
	p := newProject(t).furnish()
	before := p.things()
	at := p.newPlace(small)
	p.faults(lab.Rule{On: lab.Spawn, Name: "np0000000001", Times: 1},
		lab.Rule{On: lab.Spawn, Action: lab.Abort, Name: "np0000000002", Times: 1})
	at.mustRun(0, "apply", "-auto-approve").says("2 launched", "attempt 1 of 2 failed: ")
	p.mustHave(before, map[string]int{"server": 2})
	at.nothingToDo()
	at.gone(p, before)
}

// TestOpenStackNoValidHost asks for what fits the quota and no host.
func TestOpenStackNoValidHost(t *testing.T) {
	p := newProject(t).furnish()
	before := p.things()
	at := p.newPlace(small)
	at.change(`flavor           = "small"`, `flavor = "toobig"`)
	at.mustRun(1, "apply", "-auto-approve").says("no capacity", "No valid host was found")
	p.mustBe(before)
	at.change(`flavor = "toobig"`, `flavor = "small"`)
	at.settled()
	p.mustHave(before, map[string]int{"server": 2})
	at.gone(p, before)
}

// TestOpenStackQuotaIsSeenAndHit has a quota that plans keep to, and quotas that are hit while a plan is carried out.
func TestOpenStackQuotaIsSeenAndHit(t *testing.T) {
	p := newProject(t).furnish()
	before := p.things()
	g := p.gated()
	at := p.newPlace(small)
	at.change("auto_floating_ip = false", "auto_floating_ip = true")
	at.change("launch_attempts = 2", "launch_attempts = 2\n  max_concurrency = 1") // of two at once Nova refuses both

	restore := p.quota(map[string]int{lab.Instances: 1})
	at.run("plan").says("quota").ends("Plan: 0 to build, 0 to upload, 1 to launch, 0 to delete.")
	restore()

	// hit sets limits after the plan and before the first server.
	hit := func(limits map[string]int) outcome {
		var once sync.Once
		g.set(func(call string) error {
			if call == "POST compute /servers" {
				once.Do(func() { p.quota(limits) })
			}
			return nil
		}, nil)
		return at.mustRun(1, "apply", "-auto-approve")
	}
	hit(map[string]int{lab.Instances: 1}).says("1 launched", "Quota exceeded for instances")
	p.mustHave(before, map[string]int{"server": 1, "floating IP": 1})
	p.quota(map[string]int{lab.Instances: 10})
	hit(map[string]int{lab.FloatingIPs: 1}).says("0 launched", "Quota exceeded for resources: ['floatingip']")
	p.mustHave(before, map[string]int{"server": 1, "floating IP": 1})

	at.mustRun(0, "plan").says("quota").ends("No changes.")
	p.quota(map[string]int{lab.FloatingIPs: 10})
	at.settled()
	p.mustHave(before, map[string]int{"server": 2, "floating IP": 2})
	at.gone(p, before)
}

// TestOpenStackEveryFirstAnswerIsLost lets the service do what it was asked and cuts the connection before the answer,
// once for each kind of call that changes something.
func TestOpenStackEveryFirstAnswerIsLost(t *testing.T) {
	t.Parallel()
	p := newProject(t).furnish()
	before := p.others()
	g := p.gated()
	at := p.newPlace(withImage)
	lose := func() {
		var mu sync.Mutex
		lost := map[string]bool{}
		g.set(nil, func(call string) error {
			mu.Lock()
			defer mu.Unlock()
			kind := kindOf(call)
			if !changes(call) || lost[kind] {
				return nil
			}
			lost[kind] = true
			t.Logf("the answer to %s is lost", call)
			return errCut
		})
	}
	lose()
	at.settled()
	p.mustHave(before, map[string]int{"server": 2, "floating IP": 2, "image": 1, "volume": 1})
	lose()
	at.run("destroy", "-auto-approve")
	g.set(nil, nil)
	at.run("destroy", "-auto-approve")
	at.gone(p, before)
}

// kindOf is a call without ids.
func kindOf(call string) string {
	parts := strings.Split(call, "/")
	for i, part := range parts {
		if len(part) == 36 && strings.Count(part, "-") == 4 {
			parts[i] = "ID"
		}
	}
	return strings.Join(parts, "/")
}
