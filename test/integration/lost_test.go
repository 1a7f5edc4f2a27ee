//go:build integration

package integration

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/openstack/lab"
)

// Tests that inject faults into the whole lab do not run in parallel. The tests in this file verify that a few
// applies reach the desired state, without leaks, duplicates and changes of foreign objects.

// applyUntilSettled applies until nothing is left to do. Three times is enough: to finish, for the second sighting of a leak, and
// to check.
func (at *place) applyUntilSettled() {
	at.t.Helper()
	for range 3 {
		at.run("apply", "-auto-approve")
		o := at.run("plan", "-detailed-exitcode")
		leaks := strings.Contains(o.stdout, "has our ownership tags and ") // the object has no record, or is a second one
		if o.code == 0 && o.last() == "No changes." && !leaks {
			return
		}
		if leaks {
			<-time.After(time.Second) // leak_age
		}
	}
	at.t.Errorf("three applies later there is still something to do:\n%s", at.run("plan").text())
}

// gone destroys everything and fails the test unless the project is as before.
func (at *place) gone(p *project, before map[string]thing) {
	at.t.Helper()
	at.mustRun(0, "destroy", "-auto-approve")
	p.mustBe(before)
	at.mustRun(0, "destroy", "-auto-approve").endsWith("No changes.")
}

// faults replaces the rules of the lab until the test ends. The test fails if a rule has not affected an operation by then.
func (p *project) faults(rules ...lab.Rule) {
	p.t.Helper()
	p.allFaultsOccurred()
	testutil.Must(p.t, p.lab.Faults(rules...))
	p.t.Cleanup(func() {
		p.allFaultsOccurred()
		if err := p.lab.Clear(); err != nil {
			p.t.Error(err)
		}
	})
}

// allFaultsOccurred fails the test if a rule of the lab has not affected an operation. A failed test may have ended before that.
func (p *project) allFaultsOccurred() {
	p.t.Helper()
	if p.t.Failed() {
		return
	}
	if unused, err := p.lab.Unused(); err != nil || len(unused) > 0 {
		p.t.Errorf("faults did not occur: %+v, %v", unused, err)
	}
}

// pause stops services until resume is called or the test ends.
func (p *project) pause(services ...string) (resume func()) {
	p.t.Helper()
	undo, err := p.lab.Pause(services...)
	testutil.Must(p.t, err)
	resume = func() {
		if err := undo(); err != nil {
			p.t.Error(err)
		}
	}
	p.t.Cleanup(resume)
	return resume
}

const quick = "cloud           = \"mine\"\n  api_timeout = \"4s\""

// TestOpenStackCreateCompletesAfterLaunchGaveUp stops Neutron when Nova receives the first create, and resumes it when
// npctl has given up and ended. Nova creates the servers after that.
func TestOpenStackCreateCompletesAfterLaunchGaveUp(t *testing.T) {
	p := newProject(t).createUsualObjects()
	before := p.things()
	g := p.withGate()
	at := p.newPlace(small)
	at.change(`cloud           = "mine"`, quick)
	at.change("launch_attempts = 2", "launch_attempts = 1")
	at.change("min_ready = 2", "min_ready = 1")
	resume := func() {}
	var once sync.Once
	g.Set(func(call string) error {
		if call == "POST compute /servers" {
			once.Do(func() { resume = p.pause("neutron") })
		}
		return nil
	}, nil)
	at.mustRun(1, "apply", "-auto-approve").contains("no answer within 4s")
	resume()
	eventually(t, "the server appears after the end of the launch", func() bool { return len(p.nodes()) == 1 })

	at.applyUntilSettled()
	p.mustHave(before, map[string]int{"server": 1})
	at.gone(p, before)
}

// TestOpenStackMessageQueueHangs uses a Nova that accepts requests and does not execute them.
func TestOpenStackMessageQueueHangs(t *testing.T) {
	p := newProject(t).createUsualObjects()
	before := p.things()
	at := p.newPlace(small)
	at.change(`cloud           = "mine"`, quick)
	at.change("launch_attempts = 2", "launch_attempts = 1\n launch_timeout = \"20s\"")
	resume := p.pause("rabbitmq")
	undo := time.AfterFunc(30*time.Second, resume) // a service that hangs for a minute is reported down
	defer undo.Stop()
	at.mustRun(1, "apply", "-auto-approve").contains("0 launched")
	resume()
	at.applyUntilSettled()
	p.mustHave(before, map[string]int{"server": 2})
	at.gone(p, before)
}

// TestOpenStackServersFailAndAppearLate: of two servers one fails on its first host and one completely, so that npctl creates it
// again; both are ACTIVE before they have an address, and Nova shows floating IPs late. Then one server changes to ERROR after
// its first delete was answered with 204, and the other is deleted late.
func TestOpenStackServersFailAndAppearLate(t *testing.T) {
	p := newProject(t).createUsualObjects()
	before := p.things()
	at := p.newPlace(small)
	at.change("auto_floating_ip = false", "auto_floating_ip = true")
	p.faults(lab.Rule{On: lab.Spawn, Name: "np0000000001", Times: 1},
		lab.Rule{On: lab.Spawn, Action: lab.Abort, Name: "np0000000002", Times: 1},
		lab.Rule{On: lab.Address, Action: lab.Delay, Name: "np000000000?", For: 4 * time.Second},
		lab.Rule{On: lab.FloatingIP, Action: lab.Delay, Name: "np000000000?", For: 6 * time.Second})
	at.mustRun(0, "apply", "-auto-approve").contains("2 launched", "attempt 1 of 2 failed: ")
	at.nothingToDo()
	p.mustHave(before, map[string]int{"server": 2, "floating IP": 2})
	at.mustRun(0, "state", "pull").contains("127.78.")
	p.faults(lab.Rule{On: lab.Destroy, Name: "np0*", Times: 1},
		lab.Rule{On: lab.Destroy, Action: lab.Delay, Name: "np0*", For: 5 * time.Second})
	at.gone(p, before)
}

// TestOpenStackUndeletedFailedServerDoesNotDelayLaunches has a server that stays in BUILD and that Nova does not delete
// in the meantime. The next attempt starts at once, and the apply reports the remaining server.
func TestOpenStackUndeletedFailedServerDoesNotDelayLaunches(t *testing.T) {
	p := newProject(t).createUsualObjects()
	before := p.things()
	at := p.newPlace(small)
	at.change("launch_attempts = 2", "launch_attempts = 2\n  launch_timeout = \"20s\"")
	at.change("min_ready = 2", "min_ready = 1")
	p.faults(lab.Rule{On: lab.Spawn, Action: lab.Hang, Name: "np0*", Times: 1})
	// The apply ends before the server is deleted, which Nova does when the rule is removed.
	at.mustRun(0, "apply", "-auto-approve").contains("1 launched", "attempt 1 of 2 failed: ", "not ready within launch_timeout", "is not deleted yet")
	p.faults()
	at.applyUntilSettled()
	p.mustHave(before, map[string]int{"server": 1})
	at.gone(p, before)
}

// TestOpenStackNoValidHost requests a flavor that fits the quota and no host.
func TestOpenStackNoValidHost(t *testing.T) {
	t.Parallel()
	p := newProject(t).createUsualObjects()
	before := p.things()
	at := p.newPlace(small)
	at.change(`flavor           = "small"`, `flavor = "toobig"`)
	at.mustRun(1, "apply", "-auto-approve").contains("no capacity", "No valid host was found")
	p.mustBe(before)
	at.change(`flavor = "toobig"`, `flavor = "small"`)
	at.applyUntilSettled()
	p.mustHave(before, map[string]int{"server": 2})
	at.gone(p, before)
}

// TestOpenStackQuotaIsObservedAndReached: plans respect a quota, and other quotas are exceeded while a plan is executed.
func TestOpenStackQuotaIsObservedAndReached(t *testing.T) {
	t.Parallel()
	p := newProject(t).createUsualObjects()
	before := p.things()
	g := p.withGate()
	at := p.newPlace(small)
	at.change("auto_floating_ip = false", "auto_floating_ip = true")
	at.change("launch_attempts = 2", "launch_attempts = 2\n  max_concurrency = 1") // of two concurrent creates Nova refuses both

	restore := p.quota(map[string]int{lab.Instances: 1})
	at.run("plan").contains("quota").endsWith("Plan: 0 to build, 0 to upload, 1 to launch, 0 to delete.")
	restore()

	// hit sets limits after the plan and before the first server.
	hit := func(limits map[string]int) outcome {
		var once sync.Once
		g.Set(func(call string) error {
			if call == "POST compute /servers" {
				once.Do(func() { p.quota(limits) })
			}
			return nil
		}, nil)
		return at.mustRun(1, "apply", "-auto-approve")
	}
	hit(map[string]int{lab.Instances: 1}).contains("1 launched", "Quota exceeded for instances")
	p.mustHave(before, map[string]int{"server": 1, "floating IP": 1})
	p.quota(map[string]int{lab.Instances: 10})
	hit(map[string]int{lab.FloatingIPs: 1}).contains("0 launched", "Quota exceeded for resources: ['floatingip']")
	p.mustHave(before, map[string]int{"server": 1, "floating IP": 1})

	at.mustRun(0, "plan").contains("quota").endsWith("No changes.")
	p.quota(map[string]int{lab.FloatingIPs: 10})
	at.applyUntilSettled()
	p.mustHave(before, map[string]int{"server": 2, "floating IP": 2})
	at.gone(p, before)
}

// TestOpenStackEveryFirstAnswerIsLost lets the service execute a call and cuts the connection before the response, once
// for each kind of changing call.
func TestOpenStackEveryFirstAnswerIsLost(t *testing.T) {
	t.Parallel()
	p := newProject(t).createUsualObjects()
	before := p.others()
	g := p.withGate()
	at := p.newPlace(withImage)
	lose := func() {
		var mu sync.Mutex
		lost := map[string]bool{}
		g.Set(nil, func(call string) error {
			mu.Lock()
			defer mu.Unlock()
			kind := kindOf(call)
			if !gate.Changes(call) || lost[kind] {
				return nil
			}
			lost[kind] = true
			t.Logf("the answer to %s is lost", call)
			return gate.ErrCut
		})
	}
	lose()
	at.applyUntilSettled()
	p.mustHave(before, map[string]int{"server": 2, "floating IP": 2, "image": 1, "volume": 1})
	lose()
	at.run("destroy", "-auto-approve")
	g.Set(nil, nil)
	at.run("destroy", "-auto-approve")
	at.gone(p, before)
}

// kindOf returns a call with its IDs replaced.
func kindOf(call string) string {
	parts := strings.Split(call, "/")
	for i, part := range parts {
		if len(part) == 36 && strings.Count(part, "-") == 4 {
			parts[i] = "ID"
		}
	}
	return strings.Join(parts, "/")
}
