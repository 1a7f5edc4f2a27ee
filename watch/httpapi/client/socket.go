package client

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// socketPathAtMost is how long the path of a unix socket may be.
const socketPathAtMost = 103

// SocketPath is where npctl watch listens for those who use the same state file, when nobody says otherwise: beside it,
// or where that path is too long for a socket, below $XDG_RUNTIME_DIR or the directory for temporary files, in a directory
// that only this user may enter.
func SocketPath(statePath string, lookupEnv func(string) (string, bool)) string {
	beside := statePath + ".sock"
	if len(beside) <= socketPathAtMost {
		return beside
	}
	sum := sha256.Sum256([]byte(statePath))
	name := hex.EncodeToString(sum[:8]) + ".sock"
	if dir, ok := lookupEnv("XDG_RUNTIME_DIR"); ok && filepath.IsAbs(dir) && len(dir) < socketPathAtMost-len(name)-len("/npctl/") {
		return filepath.Join(dir, "npctl", name)
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("npctl-%d", os.Getuid()), name)
}

// CheckSocket refuses a socket that belongs to somebody who is neither this user nor root nor, when there is a state
// file, its owner: whoever made it would be told what is asked for, and could answer anything.
func CheckSocket(path, statePath string) error {
	for _, at := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		owner, known := ownerOf(info)
		if !known || owner == 0 || owner == os.Getuid() {
			continue
		}
		if of, err := os.Stat(statePath); err == nil {
			if mine, known := ownerOf(of); known && mine == owner {
				continue
			}
		}
		return fmt.Errorf("%s belongs to user %d, and the state does not", at, owner)
	}
	return nil
}

// CheckNamedSocket refuses a socket at a place that the user has named, when it belongs to somebody else and may have been
// put there by a third: unless it is root's or this user's, it has to be in a directory of its owner or of root which no
// other user and no group can write to.
func CheckNamedSocket(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	owner, known := ownerOf(info)
	if !known || owner == 0 || owner == os.Getuid() {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if of, _ := ownerOf(dir); of != owner && of != 0 || dir.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s belongs to user %d, and others can write to its directory", path, owner)
	}
	return nil
}

func ownerOf(info os.FileInfo) (int, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
