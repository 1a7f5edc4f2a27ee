package reconcile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// refuse is a hook that fails for nodes of the uploads in the file "bad", and records each failure.
const refuse = `node=$(cat); for id in $(cat bad 2>/dev/null); do case "$node" in *'"upload":"'$id'"'*) echo "$id" >>refused; echo no network; exit 1;; esac; done; true`

// badBuild is a lab with a node of a good build, and a newer build from which no node passes its hook.
func badBuild(t *testing.T) (l *lab, good, bad string) {
	t.Helper()
	l = newLab(t, hooked(refuse, "true", "true"), emulator.Options{BuildTime: time.Second, DeleteTime: time.Second})
	l.mustRun(t, plan.Options{})
	good = l.nodes()[0].Upload
	time.Sleep(time.Hour)
	l.mustRun(t, plan.Options{Replace: []plan.Address{"diskimage.debian"}})
	for _, r := range l.records(resources.KindUpload) {
		if u := r.(*resources.Upload); u.ID != good && u.Provider == "two" {
			bad = u.ID
		}
	}
	testutil.WriteFile(t, filepath.Join(l.dir, "bad"), bad)
	if left := l.plan(plan.Options{}); !left.Summary().Empty() {
		t.Fatalf("a new build replaces a node:\n%s", text(left))
	}
	return l, good, bad
}

// again replaces the node.
func (l *lab) again() plan.Options {
	return plan.Options{Replace: []plan.Address{plan.Address("node." + l.nodes()[0].ID)}}
}

func (l *lab) trial(t *testing.T, upload string) resources.Trial {
	t.Helper()
	for _, r := range l.records(resources.KindTrial) {
		if r.Key().ID == upload {
			return *r.(*resources.Trial)
		}
	}
	return resources.Trial{}
}

// refusals returns how often the hook has failed.
func (l *lab) refusals(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, "refused"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

func TestLaunchesReturnToTheOlderBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, good, bad := badBuild(t)
		l.mustRun(t, l.again())
		if n := l.nodes()[0]; n.Upload != good || n.State != resources.StateReady || n.ReturnedAttempts != 3 {
			t.Errorf("the node boots from upload %s (good is %s) after %d returned attempts", n.Upload, good, n.ReturnedAttempts)
		}
		if got := l.trial(t, bad); got.Failures != 3 || !strings.Contains(got.Error, "no network") || l.refusals(t) != 3 {
			t.Errorf("trial of the bad build: %+v after %d refusals", got, l.refusals(t))
		}
		if got := l.trial(t, good); got.Failures != 0 || got.Launched.IsZero() {
			t.Errorf("trial of the good build: %+v", got)
		}
		left := l.plan(plan.Options{})
		if !left.Summary().Empty() || !slices.ContainsFunc(left.Notes, func(n plan.Note) bool { return n.Code == "returned" }) {
			t.Errorf("the next plan:\n%s%+v", text(left), left.Notes)
		}
		l.mustRun(t, l.again())
		if l.refusals(t) != 3 {
			t.Error("a node was launched from the bad build again")
		}

		time.Sleep(time.Hour)
		l.mustRun(t, plan.Options{Replace: []plan.Address{"diskimage.debian"}})
		l.mustRun(t, l.again())
		if n := l.nodes()[0]; n.Upload == good || n.Upload == bad {
			t.Errorf("the next build was not tried: the node boots from %s", n.Upload)
		}
		time.Sleep(time.Hour)
		l.mustRun(t, plan.Options{Replace: []plan.Address{"diskimage.debian"}}) // the uploads of the first builds go
		if trials := l.records(resources.KindTrial); len(trials) > 2 {
			t.Errorf("trials of deleted uploads stay: %d", len(trials))
		}
	})
}

// TestOtherFailuresSayNothingAboutABuild has failures that the image cannot have caused.
func TestOtherFailuresSayNothingAboutABuild(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"quota":    {Operation: "server.create", Action: emulator.Answer, Status: 403, Message: "Quota exceeded for instances"},
		"outage":   {Operation: "server.create", Action: emulator.Answer, Status: 503},
		"rejected": {Operation: "server.create", Action: emulator.Answer, Status: 400, Message: "no such flavor"},
		"cloud":    {Operation: "server.create", Action: emulator.ServerError, Message: "No valid host was found"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, _, bad := badBuild(t)
				testutil.Must(t, l.driver.Clouds["two"].SetFaults(fault))
				if _, result, _ := l.run(t.Context(), l.again()); len(result.Failed) == 0 {
					t.Error("nothing failed")
				}
				if got := l.trial(t, bad); got.Failures != 0 {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// killAndResume kills an apply at one point, and applies until nothing is left to do. It reports whether the apply reached the point.
func (l *lab) killAndResume(t *testing.T, at int, opt plan.Options) (where string, struck bool) {
	t.Helper()
	l.kill.Revive(at)
	_, _, _ = l.run(t.Context(), opt)
	where, struck = l.kill.Died()
	l.kill.Revive(0)
	where = fmt.Sprintf("killed at point %d %s", at, where)
	for range 3 {
		_, _, _ = l.run(t.Context(), plan.Options{})
	}
	if left := l.plan(plan.Options{}); !left.Summary().Empty() {
		t.Errorf("%s: the plan after it:\n%s", where, text(left))
	}
	return where, struck
}

// TestKilledDuringAReturn kills an apply at every commit and every changing call while launches return. Each failure counts
// at most once, and the end is the same.
func TestKilledDuringAReturn(t *testing.T) {
	for at := 1; ; at++ {
		struck := false
		synctest.Test(t, func(t *testing.T) {
			l, good, bad := badBuild(t)
			var where string
			where, struck = l.killAndResume(t, at, l.again())
			nodes := l.nodes() // the old one stays if the kill came before its deletion
			if len(nodes) == 0 || slices.ContainsFunc(nodes, func(n *resources.Node) bool { return n.State != resources.StateReady || n.Upload != good }) {
				t.Errorf("%s: nodes %+v", where, nodes)
			}
			counted, refused := l.trial(t, bad).Failures, l.refusals(t)
			if counted > refused || counted < refused-1 || counted > 3 {
				t.Errorf("%s: %d of %d failures are counted", where, counted, refused)
			}
		})
		if !struck || t.Failed() {
			if at < 20 {
				t.Errorf("only %d points were passed", at-1)
			}
			return
		}
	}
}
