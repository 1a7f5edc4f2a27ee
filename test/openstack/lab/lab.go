// Package lab finds the OpenStack that test/openstack/up.sh has started and injects faults into it, for integration
// tests.
//
// The package does not depend on npctl: a test passes CloudsYAML to the program under test. A machine has only one lab,
// so tests that use Faults, Pause or Quota must not run in parallel with other tests of the lab. They must undo their
// changes with Clear and the returned resume and restore functions, preferably in t.Cleanup.
package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// EnvWork is the environment variable with the lab's work directory; up.sh prints a file that sets it.
const EnvWork = "NPCTL_OPENSTACK_WORK"

// ErrNoLab means that no lab was started in the work directory.
var ErrNoLab = errors.New("no OpenStack lab")

// Lab is a running lab. Its zero value is not usable; see Find.
type Lab struct {
	dir    string // the work directory
	source string // the directory of up.sh
}

// Find returns the lab in $NPCTL_OPENSTACK_WORK or, if that is not set, in the default work directory of up.sh. It
// returns ErrNoLab if there is none. It does not check that the services respond.
func Find() (*Lab, error) {
	dir := os.Getenv(EnvWork)
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "npctl-openstack")
	}
	source, err := os.ReadFile(filepath.Join(dir, "source"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s: run test/openstack/up.sh, or set %s", ErrNoLab, dir, EnvWork)
	}
	if err != nil {
		return nil, fmt.Errorf("find lab: %w", err)
	}
	return &Lab{dir: dir, source: strings.TrimSpace(string(source))}, nil
}

// Dir returns the work directory. It contains log/NAME.log, etc/ and clouds.yaml.
func (l *Lab) Dir() string { return l.dir }

// CloudsYAML returns the path of a clouds.yaml with the entries npctl, npctl-appcred, other, admin, wrong-password and
// unreachable, for use in OS_CLIENT_CONFIG_FILE.
func (l *Lab) CloudsYAML() string { return filepath.Join(l.dir, "clouds.yaml") }
