//go:build integration

package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tinyDebian is the element of a Debian without kernel in test/dib/elements. For npctl its build is like a real one,
// and it takes half a minute. The variables that test/dib/env.sh prints let builds use the mirrors of this machine.
const tinyDebian = "debian-tiny"

func elementsPath(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../dib/elements")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// dibEnvironment returns the variables that test/dib/env.sh has set, as an HCL map.
func dibEnvironment(t *testing.T) string {
	t.Helper()
	if os.Getenv("DIB_DISTRIBUTION_MIRROR") == "" {
		t.Fatal(`DIB_DISTRIBUTION_MIRROR is not set: run this through test/dib/run.sh or test/openstack/run.sh, or eval "$(test/dib/env.sh)" first`)
	}
	var pairs []string
	for _, line := range os.Environ() {
		if name, value, _ := strings.Cut(line, "="); strings.HasPrefix(name, "DIB_") && name != "DIB_RELEASE" {
			pairs = append(pairs, `"`+name+`" = "`+value+`"`)
		}
	}
	cache := filepath.Join(os.TempDir(), "npctl-dib-cache") // so that the second build of a run does not download a Debian again
	return "{ " + strings.Join(append(pairs, `"DIB_IMAGE_CACHE" = "`+cache+`"`), ", ") + " }"
}
