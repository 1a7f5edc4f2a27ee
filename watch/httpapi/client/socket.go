package client

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// socketPathAtMost is the maximum length of a unix socket path in bytes.
const socketPathAtMost = 103

// SocketPath returns the default path of the socket of npctl watch for a state file: beside the file, or if that path
// is too long for a socket, below $XDG_RUNTIME_DIR or the directory for temporary files, in a directory that only this
// user may enter.
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

// CheckSocket rejects a socket unless its owner, and that of its directory, is this user, root, or the owner of an
// existing state file. Any other owner could read the calls and return false responses.
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
		return fmt.Errorf("%s belongs to user %d, who does not own the state", at, owner)
	}
	return nil
}

// CheckNamedSocket checks a socket at a path from the user. A socket of another user, except root, must be in a
// directory that belongs to the same user or root, and that no group or other user can write to. Otherwise a third user
// may have created it.
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
		return fmt.Errorf("%s belongs to user %d, and other users can write to its directory", path, owner)
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
