//go:build integration

package ibmvpc

import (
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers/ibmvpc/ibmvpctest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/program"
)

// npctl is the path of the program under test.
var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// lab is a directory with a configuration, and a cloud behind a proxy.
type lab struct {
	*program.Place
	*program.Recorder
	*ibmvpctest.Server
}

func newLab(t *testing.T, configuration string) *lab {
	t.Helper()
	l := &lab{Server: ibmvpctest.New(t), Recorder: &program.Recorder{Next: http.DefaultTransport, Name: callOf}}
	proxy := (&gate.Gate{}).Serve(t, "ibm", l.URL, l.Recorder)
	l.Place = program.NewPlace(t, npctl)
	for name, value := range l.Server.Env() {
		l.Place.Env = append(l.Place.Env, name+"="+strings.Replace(value, l.URL, proxy, 1))
	}
	l.Secrets = []string{ibmvpctest.APIKey}
	l.Write(strings.ReplaceAll(configuration, "STORAGE", proxy+"/cos"))
	return l
}

// callOf returns the method and the collection of a call, such as "POST instances".
func callOf(r *http.Request) string {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	collection, _, _ := strings.Cut(path, "/")
	return r.Method + " " + collection
}

// settle runs a command until the objects are as wanted: the cloud deletes boot volumes after their instances.
func (l *lab) settle(command string, want map[string]int) {
	l.T.Helper()
	testutil.Await(l.T, "the objects are complete", func() bool {
		l.Run(0, command, "-auto-approve")
		return maps.Equal(l.owned(), want)
	})
}

// owned counts the objects with names of npctl.
func (l *lab) owned() map[string]int {
	numbers := map[string]int{}
	count := func(kind string, names []string) {
		for _, name := range names {
			if strings.HasPrefix(name, "npctl-") || strings.Contains(name, " npctl-") {
				numbers[kind]++
			}
		}
	}
	for _, kind := range []string{"instances", "volumes", "floating_ips", "images"} {
		count(kind, l.Names(kind))
	}
	count("objects", l.Objects())
	return numbers
}

// mustHave waits until the numbers of owned objects are as wanted: the cloud deletes boot volumes after their instances.
func (l *lab) mustHave(want map[string]int) {
	l.T.Helper()
	if now := l.owned(); !maps.Equal(now, want) {
		l.T.Errorf("objects of npctl are %v, want %v", now, want)
	}
}

// foreign creates objects of another user and returns a check that they remain.
func (l *lab) foreign() (stay func()) {
	instance := l.Instance("np0000000001")
	l.Volume("data", instance)
	l.FloatingIP("theirs", instance)
	l.Image("theirs")
	l.PutObject("theirs.qcow2", []byte("x"))
	want := func() [][]string {
		var all [][]string
		for _, kind := range []string{"instances", "volumes", "floating_ips", "images"} {
			all = append(all, slices.DeleteFunc(l.Names(kind), func(name string) bool { return strings.HasPrefix(name, "npctl-") }))
		}
		return append(all, slices.DeleteFunc(l.Objects(), func(name string) bool { return strings.Contains(name, "npctl-") }))
	}
	before := want()
	return func() {
		l.T.Helper()
		if now := want(); !slices.EqualFunc(before, now, slices.Equal[[]string]) {
			l.T.Errorf("objects of another user were %q and are %q", before, now)
		}
	}
}
