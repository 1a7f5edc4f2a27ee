package drivertest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// elsewhere are the drivers without a run of the suite in their folder.
var elsewhere = map[string]string{
	"kubernetes": "../../test/kubernetes", // needs an API server
	"static":     "",                      // creates, lists and deletes nothing: TestNodesAreNotCreatedListedOrDeleted
}

func TestEveryDriverRunsTheSuite(t *testing.T) {
	folders, err := filepath.Glob("../*/driver.go")
	testutil.Must(t, err)
	if len(folders) < 10 {
		t.Fatalf("folders of drivers are %q", folders)
	}
	for _, file := range folders {
		dir := filepath.Dir(file)
		other, isElsewhere := elsewhere[filepath.Base(dir)]
		if other != "" {
			dir = other
		}
		if filepath.Base(dir) != "cloudkit" && runs(t, dir) != (other != "" || !isElsewhere) {
			t.Errorf("%s: its tests run the suite: %t", dir, runs(t, dir))
		}
	}
}

// runs reports whether the tests in a folder run the suite.
func runs(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	testutil.Must(t, err)
	for _, file := range files {
		if strings.Contains(testutil.ReadFile(t, file), "drivertest.Run") {
			return true
		}
	}
	return false
}

// A field that a test needs must be set, or have a reason.
func TestUnsetFieldNeedsAReason(t *testing.T) {
	set := Setup{Calls: func() int { return 0 }}
	for name, c := range map[string]struct {
		setup  Setup
		needs  []string
		fails  bool
		result string
	}{
		"set":                 {set, []string{"Calls"}, false, ""},
		"unset":               {Setup{}, []string{"Calls"}, true, "Calls"},
		"empty":               {Setup{Rejected: nil}, []string{"Rejected"}, true, "Rejected"},
		"with a reason":       {Setup{Omits: map[string]string{"Calls": "why"}}, []string{"Calls"}, false, "Setup.Calls: why"},
		"set with a reason":   {Setup{Calls: set.Calls, Omits: map[string]string{"Calls": "why"}}, []string{"Calls"}, true, ""},
		"without the ability": {Setup{Lacks: []string{"images"}}, []string{"images", "ForeignImage"}, false, "the driver has no images"},
	} {
		reported := &testing.T{}
		s := &suite{Setup: c.setup}
		if got := s.missing(reported, c.needs); got != c.result || reported.Failed() != c.fails {
			t.Errorf("%s: missing is %q, failed %t; want %q, %t", name, got, reported.Failed(), c.result, c.fails)
		}
	}
}
