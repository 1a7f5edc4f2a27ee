//go:build integration

package clouds

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/program"
)

// npctl is the path of the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// cloud is a kind of clouds, and what its tests need besides those of all.
type cloud struct {
	open func(t *testing.T, configuration string) *lab
	node map[string]int // objects of a node, by kind
	late bool           // some objects are deleted after their machine

	example   []string           // variables of examples/NAME.hcl for two nodes without SSH, which machines of these clouds lack
	change    string             // assignment of a variable that replaces nodes
	changes   string             // the attribute that changes
	unknown   []unknown          // plans with names that do not exist
	onDemand  string             // configuration with the label "small" without ready nodes
	firstCall string             // the daemon makes this call at its start; the calls until then do not count
	calls     map[string]callsOf // limits of calls for a hundred nodes, by a part of their names
}

// unknown is a plan that fails.
type unknown struct {
	args []string
	says []string
}

// callsOf is the least and the largest number of calls.
type callsOf struct{ least, most int }

// lab is a directory with a configuration and a cloud, which npctl reaches through a proxy.
type lab struct {
	*program.Place
	*program.Recorder
	peer
}

// peer is the cloud as another client sees it.
type peer interface {
	owned() map[string]int                // objects of npctl by kind
	foreign() (stay func())               // creates objects of another user; stay checks that they remain
	remove()                              // deletes a machine of npctl
	changed() bool                        // reports whether all machines of npctl have the changed attribute
	shows(t *testing.T, n resources.Node) // compares a node with what the cloud shows
}

var clouds = map[string]cloud{"aws": amazon, "azure": azure, "gce": google, "ibmvpc": ibm}

// each runs a test for each cloud.
func each(t *testing.T, run func(t *testing.T, name string, c cloud)) {
	for _, name := range slices.Sorted(maps.Keys(clouds)) {
		t.Run(name, func(t *testing.T) { run(t, name, clouds[name]) })
	}
}

// times returns the objects of n nodes.
func (c cloud) times(n int) map[string]int {
	all := map[string]int{}
	for kind, one := range c.node {
		if n > 0 {
			all[kind] = one * n
		}
	}
	return all
}

// mustHave checks which objects npctl has.
func (l *lab) mustHave(want map[string]int) {
	l.T.Helper()
	if got := l.owned(); !maps.Equal(got, want) {
		l.T.Errorf("objects of npctl are %v, want %v", got, want)
	}
}

// awaitObjects waits until npctl has these objects.
func (l *lab) awaitObjects(want map[string]int) {
	l.T.Helper()
	testutil.Await(l.T, "the objects are complete", func() bool { return maps.Equal(l.owned(), want) },
		func() string { return fmt.Sprintf("they are %v, want %v", l.owned(), want) })
}

// afterDeletions checks which objects npctl has when it has deleted some.
func (c cloud) afterDeletions(l *lab, want map[string]int) {
	l.T.Helper()
	if c.late {
		l.awaitObjects(want)
	}
	l.mustHave(want)
}

// variables returns arguments that assign variables.
func variables(assignments ...string) (args []string) {
	for _, one := range assignments {
		args = append(args, "-var", one)
	}
	return args
}

func TestExampleIsAppliedDriftedAndDestroyed(t *testing.T) {
	each(t, func(t *testing.T, name string, c cloud) {
		l := c.open(t, testutil.ReadFile(t, "../../examples/"+name+".hcl"))
		stay := l.foreign()
		l.Args = append(l.Args, variables(c.example...)...)
		l.Args = append(l.Args, variables("host_key_checking=false", "min_ready=2")...)
		l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "Plan: 0 to build, 0 to upload, 2 to launch, 0 to delete.")
		l.mustHave(c.times(0))
		l.MustContain(l.Run(0, "apply", "-auto-approve"), "Apply complete: 0 built, 0 uploaded, 2 launched, 0 deleted.")
		l.mustHave(c.times(2))
		l.MustContain(l.Run(0, "plan", "-detailed-exitcode"), "No changes.")
		l.Quiet("the state", testutil.ReadFile(t, filepath.Join(l.Dir, ".npctl", "npctl.db")))

		t.Log("a machine goes behind npctl's back")
		l.remove()
		l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), "1 to launch")
		l.Run(0, "apply", "-auto-approve")
		c.afterDeletions(l, c.times(2))

		t.Log("a replacing attribute changes")
		l.Args = append(l.Args, variables(c.change)...)
		l.MustContain(l.Run(2, "plan", "-detailed-exitcode"), c.changes)
		l.Run(0, "apply", "-auto-approve")
		l.Run(0, "apply", "-auto-approve")
		c.afterDeletions(l, c.times(2))
		if !l.changed() {
			t.Errorf("some machines do not have %s", c.change)
		}
		l.Run(0, "destroy", "-auto-approve")
		c.afterDeletions(l, c.times(0))
		l.MustContain(l.Run(0, "destroy", "-auto-approve"), "No changes.")
		stay()
	})
}

func TestUnknownNamesAreProblemsOfThePlan(t *testing.T) {
	each(t, func(t *testing.T, name string, c cloud) {
		l := c.open(t, testutil.ReadFile(t, "../../examples/"+name+".hcl"))
		usual := slices.Concat(l.Args, variables(c.example...))
		for _, one := range c.unknown {
			l.Args = append(slices.Clone(usual), variables(one.args...)...)
			l.MustContain(l.Run(1, "plan"), one.says...)
		}
	})
}

func TestWatchServesARequest(t *testing.T) {
	each(t, func(t *testing.T, _ string, c cloud) {
		l := c.open(t, c.onDemand)
		stay := l.foreign()
		l.Watch(t)
		n := l.Take("small", 1)[0]
		if n.Addresses.Interface == "" || n.Addresses.Interface != n.Addresses.PublicIPv4 || n.Region == "" || n.Login.Username != "user" || n.Login.ConnectionPort != 2222 {
			t.Errorf("node is %+v", n)
		}
		l.awaitObjects(c.times(1))
		l.shows(t, n)
		l.Return(n)
		l.awaitObjects(c.times(0))
		stay()
	})
}

// TestCallsOfAHundredNodes counts the API calls from a request for 100 nodes to their deletion.
func TestCallsOfAHundredNodes(t *testing.T) {
	each(t, func(t *testing.T, _ string, c cloud) {
		const number = 100
		l := c.open(t, c.onDemand)
		l.Watch(t)
		if c.firstCall != "" {
			testutil.Await(t, "the daemon has called "+c.firstCall, func() bool { return l.Count(c.firstCall) > 0 })
		}
		l.Taken()
		made := l.Take("small", number)
		calls, total := l.Taken()
		t.Logf("%d nodes from request to ready: %d calls: %v", number, total, calls)
		l.Return(made...)
		l.awaitObjects(c.times(0))
		deletions, more := l.Taken()
		t.Logf("from return to deletion: %d calls: %v; together %d", more, deletions, total+more)
		for part, limit := range c.calls {
			n := 0
			for _, counts := range []map[string]int{calls, deletions} {
				for name, times := range counts {
					if strings.Contains(name, part) {
						n += times
					}
				}
			}
			if n < limit.least || n > limit.most {
				t.Errorf("%d calls %s for %d nodes, want %d to %d", n, part, number, limit.least, limit.most)
			}
		}
	})
}
