package location

import (
	"errors"
	"fmt"

	"github.com/npctl/npctl/internal/hints"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/zookeeper"
)

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
