package reconcile_test

import (
	"fmt"
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

// inRollout is a lab with four nodes of the first build, and a second build with a rollout of one stage: a quarter of the nodes, until
// so many launches have succeeded.
func inRollout(t *testing.T, successes int) (l *lab, first, second string) {
	t.Helper()
	config := strings.Replace(hooked(refuse, "true", "true"), `diskimage "debian" {`, fmt.Sprintf("diskimage \"debian\" {\n  rollout {\n    stage {\n      share = 25\n      successes = %d\n    }\n  }\n", successes), 1)
	l = newLab(t, strings.Replace(config, `label "large" { min_ready = 1 }`, `label "large" { min_ready = 4 }`, 1), emulator.Options{BuildTime: time.Second, DeleteTime: time.Second})
	l.mustRun(t, plan.Options{})
	first = l.newest().ID
	l.mustRun(t, l.rebuild())
	second = l.newest().ID
	l.boot(t, "after the second build", first, first, first, first)
	return l, first, second
}

// boot checks from which uploads the nodes boot.
func (l *lab) boot(t *testing.T, when string, want ...string) {
	t.Helper()
	var got []string
	for _, n := range l.nodes() {
		got = append(got, n.Upload)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: nodes boot from %v, want %v", when, got, want)
	}
}

// replace replaces a node of an upload.
func (l *lab) replace(t *testing.T, upload string) plan.Options {
	t.Helper()
	nodes := l.nodes()
	i := slices.IndexFunc(nodes, func(n *resources.Node) bool { return n.Upload == upload })
	if i < 0 {
		t.Fatalf("no node boots from %s", upload)
	}
	return plan.Options{Replace: []plan.Address{plan.Address("node." + nodes[i].ID)}}
}

func TestRolloutLaunchesAShareOfTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, first, second := inRollout(t, 2)
		l.mustRun(t, l.replace(t, first))
		l.boot(t, "the first launch", first, first, first, second)
		l.mustRun(t, l.replace(t, first))
		l.boot(t, "the share is reached", first, first, first, second)
		l.mustRun(t, l.replace(t, second))
		l.boot(t, "the second success", first, first, first, second)
		if got := l.trial(t, second); got.Completed.IsZero() {
			t.Errorf("trial %+v", got)
		}
		for range 2 {
			l.mustRun(t, l.replace(t, first))
		}
		l.boot(t, "after the rollout", first, second, second, second)
	})
}

func TestBadRolloutReturnsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, first, second := inRollout(t, 2)
		testutil.WriteFile(t, filepath.Join(l.dir, "bad"), second)
		for range 2 {
			l.mustRun(t, l.replace(t, first))
		}
		l.boot(t, "the new build is bad", first, first, first, first)
		if got := l.trial(t, second); got.Failures != 3 || !got.Completed.IsZero() || l.refusals(t) != 3 {
			t.Errorf("trial %+v after %d refusals", got, l.refusals(t))
		}
	})
}

// TestKilledDuringARollout kills an apply at every commit and every changing call. Each success counts exactly once.
func TestKilledDuringARollout(t *testing.T) {
	for at := 1; ; at++ {
		struck := false
		synctest.Test(t, func(t *testing.T) {
			l, first, second := inRollout(t, 9)
			var where string
			where, struck = l.killAndResume(t, at, l.replace(t, first))
			newer := 0
			for _, n := range l.nodes() {
				if n.Upload == second {
					newer++
				}
			}
			if got := l.trial(t, second); got.StagePassed != newer || newer > 1 || len(l.nodes()) < 4 {
				t.Errorf("%s: %d successes, %d of %d nodes", where, got.StagePassed, newer, len(l.nodes()))
			}
		})
		if !struck || t.Failed() {
			if at < 8 {
				t.Errorf("only %d points were passed", at-1)
			}
			return
		}
	}
}
