// Package lab finds the OpenStack that test/openstack/up.sh has started and makes it misbehave, for integration tests.
//
// It knows nothing of npctl: a test hands CloudsYAML to whatever it tests. The lab is one for the whole machine, so
// tests that use Faults, Pause or Quota must not run in parallel with others on it; what they set up they take back
// with Clear, the returned resume and restore functions, best in t.Cleanup.
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

// ErrNoLab means that no lab has been brought up where Find looked.
var ErrNoLab = errors.New("no OpenStack lab")

// Lab is a lab that up.sh has brought up. Its zero value is of no use; see Find.
type Lab struct {
	dir    string // the work directory
	source string // the directory of up.sh
}

// Find returns the lab in $NPCTL_OPENSTACK_WORK or, when that is not set, in the place that up.sh uses by default.
// The error is an ErrNoLab when there is none; it does not ask whether the services answer.
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

// Dir is the work directory: log/NAME.log, etc/, clouds.yaml.
func (l *Lab) Dir() string { return l.dir }

// CloudsYAML is the path of a clouds.yaml with the entries npctl, npctl-appcred, other, admin, wrong-password and
// unreachable. It is what OS_CLIENT_CONFIG_FILE should hold.
func (l *Lab) CloudsYAML() string { return filepath.Join(l.dir, "clouds.yaml") }

// PrivateKey is the path of the OpenSSH private key of keypair "lab".
func (l *Lab) PrivateKey() string { return filepath.Join(l.dir, "id_lab") }
