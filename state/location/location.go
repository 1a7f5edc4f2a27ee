// Package location finds and names the place of a state: a file, or ZooKeeper with a private file.
package location

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/hints"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/zookeeper"
)

// The kinds of stores. The first is the default.
const (
	Bolt      = "bolt"
	ZooKeeper = "zookeeper"
)

// Schemas returns the schema of the state block of each kind.
func Schemas() map[string]schema.Block {
	return map[string]schema.Block{Bolt: bolt.Schema(), ZooKeeper: zookeeper.Schema()}
}

// Location is the location of a state.
type Location struct {
	// File is the state itself, or the private file of this process beside a shared state. It determines the socket of
	// npctl watch in both cases.
	File   string
	Shared *zookeeper.Options // nil: the file is the state
}

// InFile returns the location of a state in a file.
func InFile(path string) Location { return Location{File: path} }

// Shadow returns the location for a shadow: the same shared state with another private file.
func (p Location) Shadow() Location {
	ext := filepath.Ext(p.File)
	p.File = strings.TrimSuffix(p.File, ext) + ".shadow" + ext
	return p
}

// String returns the location in the form for messages.
func (p Location) String() string {
	if p.Shared == nil {
		return p.File
	}
	return "ZooKeeper at " + p.Shared.String()
}

// Phrase returns the location with a preposition.
func (p Location) Phrase() string {
	if p.Shared == nil {
		return "at " + p.File
	}
	return "of npctl in " + p.String()
}

// Equal reports whether two locations are equal, so that a store opened at one is valid for the other.
func (p Location) Equal(q Location) bool {
	return p.File == q.File && p.String() == q.String()
}

// SameState reports whether two locations can be of one state, perhaps at other servers of the same ensemble.
func (p Location) SameState(q Location) bool {
	if p.Shared == nil || q.Shared == nil {
		return p.Equal(q)
	}
	return p.File == q.File && strings.TrimSuffix(p.Shared.Chroot, "/") == strings.TrimSuffix(q.Shared.Chroot, "/")
}

// Changed returns the attributes of the state block that differ between two locations in ZooKeeper.
func (p Location) Changed(q Location) (names []string) {
	if p.Shared == nil || q.Shared == nil {
		return nil
	}
	for _, one := range []struct {
		name string
		same bool
	}{
		{"hosts", slices.Equal(p.Shared.Hosts, q.Shared.Hosts)},
		{"chroot", strings.TrimSuffix(p.Shared.Chroot, "/") == strings.TrimSuffix(q.Shared.Chroot, "/")},
		{"file", p.File == q.File},
		{"tls", reflect.DeepEqual(p.Shared.TLS, q.Shared.TLS)},
		{"session_timeout", p.Shared.SessionTimeout == q.Shared.SessionTimeout},
	} {
		if !one.same {
			names = append(names, one.name)
		}
	}
	return names
}

// IsEmpty reports whether no state can exist at the location. It reports false for ZooKeeper, which must be queried
// first.
func (p Location) IsEmpty() bool {
	return p.Shared == nil && !exists(p.File)
}

// From returns the location in a state block.
func From(s resources.StateSettings, dir string) (Location, error) {
	switch s.Kind {
	case ZooKeeper:
		opts, file, err := zookeeper.FromConfig(s.Config, dir)
		if err != nil {
			return Location{}, err
		}
		return Location{File: file, Shared: &opts}, nil
	case Bolt, "":
		return InFile(boltPath(s.Config, dir)), nil
	default:
		return Location{}, fmt.Errorf("this npctl has no state %q", s.Kind)
	}
}

func boltPath(v cty.Value, dir string) string {
	path := bolt.DefaultPath
	if v != cty.NilVal && !v.IsNull() && v.Type().HasAttribute("path") {
		if p := v.GetAttr("path"); !p.IsNull() && p.IsKnown() && !p.IsMarked() {
			path = p.AsString()
		}
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// exists returns whether there is a file at path. A file that cannot be examined exists, so that opening it reports the error.
func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// Explain adds a hint to an error about a state that is not at its configured location.
func Explain(err error, p Location) error {
	var role *bolt.RoleError
	var lineage *zookeeper.LineageError
	switch {
	case errors.As(err, &role):
		return hints.Add(err, roleHint(role))
	case errors.As(err, &lineage):
		return hints.Add(err, fmt.Sprintf("correct hosts and chroot; if ZooKeeper has lost its data or another state is meant, move %s away: "+
			"a state of another lineage ignores the objects of this one, because their ownership tags differ", p.File))
	case errors.Is(err, zookeeper.ErrImporting):
		return hints.Add(err, "finish it where it started: npctl state migrate")
	default:
		return err
	}
}

func roleHint(e *bolt.RoleError) string {
	switch e.Role {
	case bolt.RolePrivate:
		return fmt.Sprintf("write state %q in the configuration again; npctl state migrate brings a state back into a file", ZooKeeper)
	case bolt.RoleShadow:
		return "name another file in the state block; this one may be removed when its events are not needed"
	case bolt.RoleMigrating:
		return "npctl state migrate resumes it; npctl state migrate -abandon keeps the state in its old location"
	case bolt.RoleMigrated:
		return "correct the state block of the configuration, or name another file"
	default:
		return fmt.Sprintf("npctl state migrate -from=%s moves it to the configured location; or name another file", e.Path)
	}
}
