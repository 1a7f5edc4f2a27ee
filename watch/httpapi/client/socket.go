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

func ownerOf(info os.FileInfo) (int, bool) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(stat.Uid), true
}
