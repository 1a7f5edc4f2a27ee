package reconcile_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
)

// TestFaultsLeaveNothingBehind applies random configurations to clouds that fail in random ways, while servers vanish
// and break. Once the clouds work again, a few applies must reach the desired state: no duplicates, no leaks, no change
// of foreign objects, and an empty next plan.
func TestFaultsLeaveNothingBehind(t *testing.T) {
	for _, seed := range testutil.Seeds(8) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { faulty(t, rand.New(rand.NewPCG(seed, 0))) })
		})
	}
}

// menu holds the faults to draw from. Each occurs only a few times.
var menu = []emulator.Fault{
	{Operation: "*.list", Action: emulator.Answer, Status: 503},
	{Operation: "*.list", Action: emulator.Truncate},
	{Operation: "server.list", Action: emulator.LateListing, Delay: 10 * time.Second},
	{Operation: "server.create", Action: emulator.Answer, Status: 429, RetryAfter: 3 * time.Second},
	{Operation: "server.create", Action: emulator.Answer, Status: 500},
	{Operation: "server.create", Action: emulator.OverQuota},
	{Operation: "server.create", Action: emulator.ServerError, Message: "No valid host was found. "},
	{Operation: "server.create", Action: emulator.LostAfter},
	{Operation: "server.create", Action: emulator.LateEffect, Delay: 5 * time.Minute},
	{Operation: "server.create", Action: emulator.HangAfter},
	{Operation: "server.create", Action: emulator.HangBefore},
	{Operation: "server.create", Action: emulator.LateListing, Delay: 15 * time.Second},
	{Operation: "server.delete", Action: emulator.DeleteFails},
	{Operation: "server.delete", Action: emulator.LostAfter},
	{Operation: "server.delete", Action: emulator.Answer, Status: 500},
	{Operation: "server.delete", Action: emulator.LateListing, Delay: 20 * time.Second},
	{Operation: "floating_ip.create", Action: emulator.LostAfter},
	{Operation: "floating_ip.create", Action: emulator.LateEffect, Delay: time.Minute},
	{Operation: "floating_ip.create", Action: emulator.OverQuota},
	{Operation: "floating_ip.create", Action: emulator.LateAddress, Delay: 10 * time.Second},
	{Operation: "floating_ip.delete", Action: emulator.Answer, Status: 500},
	{Operation: "image.create", Action: emulator.LostAfter},
	{Operation: "image.upload", Action: emulator.CutUpload},
	{Operation: "image.upload", Action: emulator.LostAfter},
	{Operation: "image.upload", Action: emulator.StuckSaving},
	{Operation: "image.delete", Action: emulator.LostAfter},
	{Operation: "image.delete", Action: emulator.Answer, Status: 409},
	{Operation: "limits.show", Action: emulator.Slow, Delay: 20 * time.Second},
}

func faulty(t *testing.T, random *rand.Rand) {
	small, large := random.IntN(4), random.IntN(3)
	l := newLab(t, wanting(small, large, "small"), emulator.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second,
		Seed: random.Uint64(), Foreign: []emulator.ForeignServer{{Name: "np0000000001"}}})
	var story []string
	for range 3 {
		story = append(story, l.misbehave(t, random)...)
		_, _, err := l.run(t.Context(), plan.Options{})
		story = append(story, fmt.Sprintf("apply: %v", err))
		story = append(story, l.meddle(t, random)...)
		small, large = random.IntN(4), random.IntN(3)
		l.config = wanting(small, large, []string{"small", "medium"}[random.IntN(2)])
		time.Sleep(time.Duration(random.IntN(600)) * time.Second)
	}
	l.behave(t)
	time.Sleep(10 * time.Minute) // late effects have occurred by then
	for round := range 4 {
		p, _, err := l.run(t.Context(), plan.Options{})
		story = append(story, fmt.Sprintf("quiet apply: %v\n%s", err, text(p)))
		if err != nil && round > 0 {
			t.Errorf("apply on clouds that behave: %v", err)
		}
		time.Sleep(2 * time.Minute)
	}
	if p := l.plan(plan.Options{}); len(p.Steps) > 0 {
		t.Errorf("there is still something to do:\n%s", text(p))
	}
	l.count(t, small, large)
	if t.Failed() {
		t.Logf("what happened:\n%s", strings.Join(story, "\n"))
	}
}

func wanting(small, large int, flavor string) string {
	return strings.NewReplacer(
		`label "small" { min_ready = 2 }`, fmt.Sprintf(`label "small" { min_ready = %d }`, small),
		`label "large" { min_ready = 1 }`, fmt.Sprintf(`label "large" { min_ready = %d }`, large),
		`flavor            = "small"`, fmt.Sprintf(`flavor            = %q`, flavor),
	).Replace(twoClouds)
}

// misbehave sets a few random faults in each cloud.
func (l *lab) misbehave(t *testing.T, random *rand.Rand) (story []string) {
	t.Helper()
	for _, name := range []string{"one", "two"} {
		var faults []emulator.Fault
		for range random.IntN(4) {
			f := menu[random.IntN(len(menu))]
			f.Times, f.After = 1+random.IntN(4), random.IntN(3)
			faults = append(faults, f)
			story = append(story, fmt.Sprintf("%s: %s %s, %d times after %d", name, f.Operation, f.Action, f.Times, f.After))
		}
		testutil.Must(t, l.driver.Clouds[name].SetFaults(faults...))
	}
	return story
}

func (l *lab) behave(t *testing.T) {
	t.Helper()
	for _, cloud := range l.driver.Clouds {
		testutil.Must(t, cloud.SetFaults())
	}
}

// meddle removes or breaks objects of this installation in the clouds.
func (l *lab) meddle(t *testing.T, random *rand.Rand) (story []string) {
	t.Helper()
	for name, cloud := range l.driver.Clouds {
		things, err := cloud.Inventory()
		testutil.Must(t, err)
		for _, thing := range things {
			ours := thing.Metadata["npctl_installation"] != ""
			if !ours || random.IntN(6) > 0 {
				continue
			}
			if thing.Type == "server" && random.IntN(2) == 0 {
				story = append(story, fmt.Sprintf("%s: server %s breaks", name, thing.Name))
				err = cloud.SetServerStatus(thing.ID, "ERROR", "the host has died")
			} else {
				story = append(story, fmt.Sprintf("%s: %s %s vanishes", name, thing.Type, thing.Name))
				err = cloud.Remove(thing.ID)
			}
			testutil.Must(t, err)
		}
	}
	return story
}

// count checks the objects in the clouds. Ready nodes beyond min_ready are kept, so there may be more, but each has a
// record.
func (l *lab) count(t *testing.T, small, large int) {
	t.Helper()
	recorded := map[string]int{}
	for _, r := range l.nodes() {
		recorded[r.Provider]++
	}
	for name, least := range map[string]int{"one": small, "two": large} {
		things, err := l.driver.Clouds[name].Inventory()
		testutil.Must(t, err)
		got := map[string]int{}
		for _, thing := range things {
			switch ours := thing.Metadata["npctl_installation"] != ""; {
			case thing.Type == "server" && !ours:
				got["foreign"]++
			case thing.Type == "image" && !ours, thing.Type == "port":
			default:
				got[thing.Type]++
			}
		}
		if got["server"] != recorded[name] || got["server"] < least {
			t.Errorf("%s has %d servers of ours, %d on record, at least %d wanted", name, got["server"], recorded[name], least)
		}
		if name == "one" && got["floating_ip"] != got["server"] || name == "two" && got["floating_ip"] != 0 {
			t.Errorf("%s has %d floating IPs for %d servers", name, got["floating_ip"], got["server"])
		}
		if got["image"] != 1 || got["foreign"] != 1 {
			t.Errorf("%s has %d images of ours, want 1, and %d servers of others, want 1", name, got["image"], got["foreign"])
		}
	}
}

// TestRetryAfterIsRespectedFromTheFirstCall uses clouds that refuse their first calls, also those that open a connection.
func TestRetryAfterIsRespectedFromTheFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, twoClouds, emulator.Options{})
		for _, cloud := range l.driver.Clouds {
			testutil.Must(t, cloud.SetFaults(emulator.Fault{Operation: "*", Action: emulator.Answer, Status: 429, RetryAfter: 3 * time.Second, Times: 8}))
		}
		began := time.Now()
		if p, _, err := l.run(t.Context(), plan.Options{}); err != nil {
			t.Errorf("%v\n%s", err, text(p))
		}
		if took := time.Since(began); took < 9*time.Second {
			t.Errorf("the apply took %s; at least three calls one after the other were to wait for 3 s", took)
		}
		if p := l.plan(plan.Options{}); len(p.Steps) > 0 {
			t.Errorf("the second plan is not empty:\n%s", text(p))
		}
	})
}
