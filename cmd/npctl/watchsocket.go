package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/npctl/npctl/watch/httpapi/client"
)

// mode parses -socket-mode.
func (c *watchCommand) mode() (fs.FileMode, error) {
	mode, err := strconv.ParseUint(c.socketMode, 8, 9)
	if err != nil || mode&0o007 != 0 || mode&0o600 != 0o600 {
		return 0, hint(fmt.Errorf("option -socket-mode: %q is not a mode for a socket", c.socketMode),
			"write 0600 for the user of npctl, or 0660 for its group too; every client of the socket may do everything")
	}
	return fs.FileMode(mode), nil
}

// ownSocket returns the path of the socket to create. link creates a symbolic link at the default path, where commands
// find the socket, if -socket names another path.
func (c *watchCommand) ownSocket() (path string, link func() (remove func(), err error), err error) {
	usual := client.SocketPath(c.place.File, c.lookupEnv)
	if err := removeLink(usual); err != nil {
		return "", nil, err
	}
	none := func() (func(), error) { return func() {}, nil }
	if c.socket == "" {
		return usual, none, nil
	}
	path, err = filepath.Abs(c.socket)
	if err != nil || path == usual {
		return path, none, err
	}
	return path, func() (func(), error) {
		if err := os.MkdirAll(filepath.Dir(usual), 0o700); err != nil {
			return nil, fmt.Errorf("link to the socket: %w", err)
		}
		if err := os.Symlink(path, usual); err != nil {
			return nil, fmt.Errorf("link to the socket: %w", err)
		}
		return func() { _ = removeLink(usual) }, nil // the next npctl watch removes it too
	}, nil
}

// removeLink removes the link of a killed npctl watch. This process holds the lock of the state, so no other process
// uses the link.
func removeLink(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink == 0:
		return nil
	default:
		return os.Remove(path)
	}
}
