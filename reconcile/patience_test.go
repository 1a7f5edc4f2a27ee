package reconcile_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// TestProviderThatAsksToWaitIsListed: Retry-After is respected from the first call on, including the login.
func TestProviderThatAsksToWaitIsListed(t *testing.T) {
	for _, operation := range []string{"token.create", "version.show", "server.list", "*"} {
		t.Run(operation, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, oneCloud(), emulator.Options{})
				busy := emulator.Fault{Operation: operation, Action: emulator.Answer, Status: 429, RetryAfter: 3 * time.Second, Times: 8}
				testutil.Must(t, l.driver.Clouds["one"].SetFaults(busy))
				started := time.Now()
				p := l.plan(plan.Options{})
				if len(p.Steps) == 0 || len(p.Deferred)+len(p.Problems) > 0 {
					t.Errorf("the plan is\n%s\nwith %v deferred and problems %v", text(p), p.Deferred, p.Problems)
				}
				if took := time.Since(started); took < 3*time.Second || took > time.Minute {
					t.Errorf("the plan took %s", took)
				}
			})
		})
	}
}

func TestFailedBuildRequestIsRemembered(t *testing.T) {
	l := newLab(t, strings.Replace(oneCloud(), "echo built", "exit 1; echo built", 1), emulator.Options{})
	for _, requested := range []bool{true, false} {
		opt := plan.Options{}
		if requested {
			opt.Replace = []plan.Address{"diskimage.debian"}
		}
		if _, _, err := l.run(t.Context(), opt); err == nil {
			t.Fatal("the build did not fail")
		}
		images := l.records(resources.KindImage)
		if len(images) != 1 {
			t.Fatalf("images on record are %v", images)
		}
		if f := images[0].(*resources.ImageRecord).Failure; f == nil || f.Requested != requested {
			t.Errorf("a build that was requested: %t; remembered is %+v", requested, f)
		}
	}
}

// failing returns a lab of one cloud with one node. The given number of servers fail and cannot be deleted.
func failing(t *testing.T, config string, servers int) *lab {
	t.Helper()
	l := newLab(t, strings.NewReplacer("min_ready = 2", "min_ready = 1", "auto_floating_ip  = true", "").Replace(config),
		emulator.Options{BuildTime: 5 * time.Second, DeleteTime: 5 * time.Second})
	l.mustRun(t, plan.Options{Targets: []plan.Address{"diskimage.debian"}})
	if err := l.driver.Clouds["one"].SetFaults(
		emulator.Fault{Operation: "server.create", Action: emulator.ServerError, Message: "the host has died", Times: servers},
		emulator.Fault{Operation: "server.delete", Action: emulator.Answer, Status: 500}); err != nil {
		t.Fatal(err)
	}
	return l
}

// heals checks that an apply reaches the desired state once the clouds work again.
func (l *lab) heals(t *testing.T) {
	t.Helper()
	l.behave(t)
	l.mustRun(t, plan.Options{})
	nodes := l.nodes()
	if servers := l.ours(t, "one"); servers != 1 || len(nodes) != 1 || nodes[0].State != resources.StateReady {
		t.Errorf("in the end there are %d servers and nodes %+v, want one", servers, nodes)
	}
	if p := l.plan(plan.Options{}); len(p.Steps) > 0 {
		t.Errorf("there is still something to do:\n%s", text(p))
	}
}

func TestNextAttemptDoesNotWaitForTheDeletionOfTheFailedServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := failing(t, oneCloud(), 1)
		started := time.Now()
		_, result, err := l.run(t.Context(), plan.Options{})
		if took := time.Since(started); err != nil || took > 2*time.Minute {
			t.Errorf("apply: %v after %s", err, took)
		}
		if len(result.Undeleted) != 1 || result.Undeleted[0].Provider != "one" || result.Undeleted[0].Server == "" || result.Undeleted[0].Err == nil {
			t.Errorf("left are %+v, want the failed server and why it is there", result.Undeleted)
		}
		states := map[resources.State]int{}
		for _, n := range l.nodes() {
			states[n.State]++
		}
		if states[resources.StateReady] != 1 || states[resources.StateDeleting] != 1 {
			t.Errorf("nodes are %v, want one that is ready and one on its way out", states)
		}
		l.heals(t)
	})
}

func TestApplyEndsAfterItsAttemptsThoughNoServerIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := failing(t, oneCloud(), 0)
		started := time.Now()
		_, result, _ := l.run(t.Context(), plan.Options{})
		if took := time.Since(started); took > 2*time.Minute {
			t.Errorf("the apply took %s", took)
		}
		if len(result.Failed) != 1 || !strings.Contains(result.Failed[0].Err.Error(), "attempt 3 of 3: ") || len(result.Undeleted) != 3 {
			t.Errorf("failed are %v and left %+v", result.Failed, result.Undeleted)
		}
		l.heals(t)
	})
}

func TestAttemptWaitsForCapacity(t *testing.T) {
	crowded := strings.Replace(oneCloud(), `pool "main" {`, "pool \"main\" {\n    max_servers = 1", 1)
	synctest.Test(t, func(t *testing.T) {
		l := failing(t, crowded, 1)
		_, result, _ := l.run(t.Context(), plan.Options{})
		if len(result.Failed) != 1 || !strings.Contains(result.Failed[0].Err.Error(), "no capacity for the next attempt while failed instances are being deleted: max_servers is 1 and 1 are taken") {
			t.Errorf("while the failed server cannot be deleted: %v", result.Failed)
		}
		if created := l.driver.Clouds["one"].Calls()["server.create"]; created != 1 {
			t.Errorf("the cloud was asked for %d servers", created)
		}
		l.heals(t)
	})
	synctest.Test(t, func(t *testing.T) {
		l := failing(t, crowded, 1)
		testutil.Must(t, l.driver.Clouds["one"].SetFaults(emulator.Fault{Operation: "server.create", Action: emulator.ServerError, Message: "the host has died", Times: 1}))
		_, result, err := l.run(t.Context(), plan.Options{})
		if err != nil || len(result.Undeleted) != 0 {
			t.Errorf("with a server that can be deleted: %v, left %+v", err, result.Undeleted)
		}
		l.heals(t)
	})
	synctest.Test(t, func(t *testing.T) {
		l := failing(t, crowded, 1)
		soon, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		if _, _, err := l.run(soon, plan.Options{}); err == nil || soon.Err() == nil {
			t.Errorf("the run was to end while it waits for capacity: %v", err)
		}
		if n := l.nodes(); len(n) != 2 {
			t.Errorf("nodes are %+v, want the failed one and its successor", n)
		}
		l.run(t.Context(), plan.Options{}) //nolint:errcheck // no room either
		if created := l.driver.Clouds["one"].Calls()["server.create"]; created != 1 {
			t.Errorf("after a run that ended while it waited for room, the cloud was asked for %d servers", created)
		}
		l.heals(t)
	})
}

// TestImageBuiltInTheFutureIsRebuiltInTime: the clock was a year ahead when the image was built.
func TestImageBuiltInTheFutureIsRebuiltInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, strings.Replace(oneCloud(), `diskimage "debian" {`, "diskimage \"debian\" {\n  rebuild_age = \"24h\"", 1), emulator.Options{})
		l.mustRun(t, plan.Options{})
		build := l.records(resources.KindBuild)[0].(*resources.Build)
		build.StateTime = time.Now().Add(365 * 24 * time.Hour)
		l.store(t, build)
		l.mustRun(t, plan.Options{Replace: []plan.Address{"node." + plan.Address(l.nodes()[0].ID)}})
		time.Sleep(25 * time.Hour)
		if p := l.plan(plan.Options{}); !strings.Contains(text(p), "build diskimage.debian: rebuild-age") {
			t.Errorf("a day later the plan is\n%s", text(p))
		}
	})
}

// store writes a record regardless of its revision.
func (l *lab) store(t *testing.T, record resources.Record) {
	t.Helper()
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(l.dir, "npctl.db")})
	testutil.Must(t, err)
	defer store.Close() //nolint:errcheck // read only after the commit
	if _, err := store.Commit(t.Context(), state.Op{Record: record, Force: true}); err != nil {
		t.Fatal(err)
	}
}
