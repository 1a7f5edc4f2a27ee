package reconcile_test

import (
	"encoding/json"
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

// inspectNode is a program of a validation. It records the upload of each node that it tests, and fails while the file "broken" exists.
const inspectNode = `node=$(cat); echo "$NPCTL_EVENT" >>tested; test ! -e broken || { echo x >>refused; echo no network; exit 1; }`

// validated is a lab with one node and an image that is validated by nodes.
func validated(t *testing.T, rule string) *lab {
	t.Helper()
	program, _ := json.Marshal(inspectNode)
	block := "diskimage \"debian\" {\n  validate {\n    program = [\"sh\", \"-c\", " + string(program) + "]\n" + rule + "  }\n"
	config := strings.Replace(hooked("true", "true", "true"), `diskimage "debian" {`, block, 1)
	return newLab(t, config, emulator.Options{BuildTime: time.Second, DeleteTime: time.Second})
}

// breakImage makes test nodes fail from now on, or succeed again.
func (l *lab) breakImage(t *testing.T, broken bool) {
	t.Helper()
	file := filepath.Join(l.dir, "broken")
	if broken {
		testutil.WriteFile(t, file, "")
	} else if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

// rebuild builds the image again, an hour later.
func (l *lab) rebuild() plan.Options {
	time.Sleep(time.Hour)
	return plan.Options{Replace: []plan.Address{"diskimage.debian"}}
}

// newest returns the newest upload.
func (l *lab) newest() *resources.Upload {
	var newest *resources.Upload
	for _, r := range l.records(resources.KindUpload) {
		if u := r.(*resources.Upload); newest == nil || u.ID > newest.ID {
			newest = u
		}
	}
	return newest
}

// tests returns how many nodes the program has tested.
func (l *lab) tests(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, "tested"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "validate\n")
}

// oneNodeFrom checks that the fleet is a single ready node of an upload.
func (l *lab) oneNodeFrom(t *testing.T, upload, when string) {
	t.Helper()
	nodes := l.nodes()
	if len(nodes) != 1 || nodes[0].Upload != upload || nodes[0].State != resources.StateReady || nodes[0].Validates != "" {
		t.Errorf("%s: the nodes are %+v, want a ready one of upload %s", when, nodes, upload)
	}
	if servers := l.ours(t, "two"); servers != 1 {
		t.Errorf("%s: there are %d servers, want 1", when, servers)
	}
}

func TestUploadIsValidatedBeforeNodesBootFromIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := validated(t, "")
		l.mustRun(t, plan.Options{})
		first := l.newest().ID
		l.oneNodeFrom(t, first, "after the first build")
		if got := l.trial(t, first); got.Validated.IsZero() || got.Passed != 1 || l.tests(t) != 1 {
			t.Errorf("trial %+v after %d tests", got, l.tests(t))
		}
		l.mustRun(t, l.rebuild())
		second := l.newest().ID
		l.oneNodeFrom(t, first, "after the second build")
		if got := l.trial(t, second); got.Validated.IsZero() || l.tests(t) != 2 {
			t.Errorf("trial %+v after %d tests", got, l.tests(t))
		}
		l.mustRun(t, l.again())
		l.oneNodeFrom(t, second, "after the replacement")
		if left := l.plan(plan.Options{}); !left.Summary().Empty() || l.tests(t) != 2 {
			t.Errorf("there is more to do after %d tests:\n%s", l.tests(t), text(left))
		}
	})
}

func TestRejectedBuildIsNotUsedNorBuiltAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := validated(t, "attempts = 2\n")
		l.mustRun(t, plan.Options{})
		good := l.newest().ID
		l.breakImage(t, true)
		_, result, _ := l.run(t.Context(), l.rebuild())
		bad := l.newest().ID
		if len(result.Failed) != 1 || !strings.Contains(result.Failed[0].Err.Error(), "is rejected in two") || !strings.Contains(result.Failed[0].Err.Error(), "no network") {
			t.Errorf("failed: %+v", result.Failed)
		}
		if got := l.trial(t, bad); got.Rejected == nil || got.Rejected.Actor != resources.ValidationActor || got.Failures != 2 || l.refusals(t) != 2 {
			t.Errorf("trial %+v after %d refusals", got, l.refusals(t))
		}
		l.mustRun(t, plan.Options{}) // deletes the test node
		l.oneNodeFrom(t, good, "after the rejection")
		left := l.plan(plan.Options{})
		if !left.Summary().Empty() || !slices.ContainsFunc(left.Notes, func(n plan.Note) bool { return n.Code == "returned" && strings.Contains(n.Text, "its validation") }) {
			t.Errorf("the plan after the rejection:\n%s%+v", text(left), left.Notes)
		}
		l.mustRun(t, l.again())
		l.oneNodeFrom(t, good, "after a replacement")

		for range 2 {
			_, _, _ = l.run(t.Context(), l.rebuild())
			l.mustRun(t, plan.Options{})
		}
		var uploads []string
		for _, r := range l.records(resources.KindUpload) {
			if u := r.(*resources.Upload); u.Provider == "two" {
				uploads = append(uploads, u.ID)
			}
		}
		if want := []string{good, l.newest().ID}; !slices.Equal(uploads, want) || slices.Contains(uploads, bad) {
			t.Errorf("uploads are %v, want the good one and the newest: %v", uploads, want)
		}
		l.breakImage(t, false)
		l.mustRun(t, l.rebuild())
		l.mustRun(t, l.again())
		l.oneNodeFrom(t, l.newest().ID, "after a good build")
	})
}

func TestNoNodeBootsWithoutAValidatedBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := validated(t, "")
		l.breakImage(t, true)
		_, _, _ = l.run(t.Context(), plan.Options{})
		l.mustRun(t, plan.Options{})
		left := l.plan(plan.Options{})
		if nodes := l.nodes(); len(nodes) > 0 || !left.Summary().Empty() {
			t.Errorf("%d nodes; the plan:\n%s", len(nodes), text(left))
		}
		if !slices.ContainsFunc(left.Notes, func(n plan.Note) bool {
			return n.Code == "below-min-ready" && strings.Contains(n.Text, "rejected by its validation")
		}) {
			t.Errorf("notes: %+v", left.Notes)
		}
		l.breakImage(t, false)
		l.mustRun(t, l.rebuild())
		l.oneNodeFrom(t, l.newest().ID, "after a good build")
	})
}

// TestSeveralTestNodes needs three nodes that succeed.
func TestSeveralTestNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := validated(t, "nodes = 3\n")
		l.mustRun(t, plan.Options{})
		if got := l.trial(t, l.newest().ID); got.Passed != 3 || got.Validated.IsZero() || l.tests(t) != 3 {
			t.Errorf("trial %+v after %d tests", got, l.tests(t))
		}
		l.oneNodeFrom(t, l.newest().ID, "at the end")
	})
}

// TestValidationSaysNothing has failures of test nodes that the image cannot have caused.
func TestValidationSaysNothing(t *testing.T) {
	for name, fault := range map[string]emulator.Fault{
		"quota": {Operation: "server.create", Action: emulator.Answer, Status: 403, Message: "Quota exceeded for instances"},
		"cloud": {Operation: "server.create", Action: emulator.ServerError, Message: "No valid host was found"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := validated(t, "")
				l.mustRun(t, plan.Options{})
				testutil.Must(t, l.driver.Clouds["two"].SetFaults(fault))
				if _, result, _ := l.run(t.Context(), l.rebuild()); len(result.Failed) == 0 {
					t.Error("nothing failed")
				}
				if got := l.trial(t, l.newest().ID); got.Failures != 0 || got.Rejected != nil || got.Passed != 0 {
					t.Errorf("%+v", got)
				}
				testutil.Must(t, l.driver.Clouds["two"].SetFaults())
				l.mustRun(t, plan.Options{})
				if got := l.trial(t, l.newest().ID); got.Validated.IsZero() {
					t.Errorf("after the fault: %+v", got)
				}
			})
		})
	}
}

// TestKilledDuringAValidation kills an apply at every commit and every changing call. No node boots from a build that is not
// validated, no result counts twice, and no test node is left.
func TestKilledDuringAValidation(t *testing.T) {
	passed := 0 // runs that end before they are killed
	for at := 1; passed < 2; at++ {
		broken, struck := at%2 == 0, false
		synctest.Test(t, func(t *testing.T) {
			l := validated(t, "attempts = 2\n")
			l.mustRun(t, plan.Options{})
			good, before := l.newest().ID, l.tests(t)
			if broken {
				l.breakImage(t, true)
			}
			var where string
			where, struck = l.killAndResume(t, at, l.rebuild())
			l.oneNodeFrom(t, good, where)
			newest, tests := l.trial(t, l.newest().ID), l.tests(t)-before
			counted := newest.Passed + newest.Failures
			switch {
			case l.newest().ID == good: // killed before the build
			case broken && (newest.Rejected == nil || newest.Failures != 2) || !broken && newest.Validated.IsZero():
				t.Errorf("%s: %+v", where, newest)
			case tests < counted || tests > counted+1:
				t.Errorf("%s: %d tests, %d are counted", where, tests, counted)
			}
		})
		if t.Failed() {
			return
		}
		if !struck {
			passed++
		}
		if at == 20 && passed > 0 {
			t.Error("fewer than 20 points were passed")
		}
	}
}
