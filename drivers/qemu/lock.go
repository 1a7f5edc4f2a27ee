package qemu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/waits"
)

// pollInterval is the time between two attempts to get a lock.
const pollInterval = 20 * time.Millisecond

// lockDirectory locks the provider's directory, in which two processes must not add machines at the same time.
func (c *Cloud) lockDirectory(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(c.machines(), 0o700); err != nil {
		return nil, err
	}
	for {
		file, err := tryLock(filepath.Join(c.dir, fileLock), os.O_CREATE, true)
		if err != nil {
			return nil, err
		}
		if file != nil {
			return func() { _ = file.Close() }, nil
		}
		if err := waits.Sleep(ctx, pollInterval); err != nil {
			return nil, fmt.Errorf("wait for the lock of %s: %w", c.dir, err)
		}
	}
}

// lockMachine locks a machine without a process. It returns nil if a process of it, or another npctl, has the lock.
func (c *Cloud) lockMachine(id string) (*os.File, error) {
	path := c.file(id, fileLock)
	file, err := tryLock(path, os.O_CREATE, true)
	if file == nil || err != nil {
		return nil, err
	}
	// Another npctl may have deleted the machine since the file was opened.
	ours, err1 := file.Stat()
	there, err2 := os.Stat(path)
	if err1 != nil || err2 != nil || !os.SameFile(ours, there) {
		return nil, errors.Join(fmt.Errorf("%w: machine %s was deleted", fs.ErrNotExist, id), file.Close())
	}
	return file, nil
}

// isLocked reports whether a machine starts or runs.
func (c *Cloud) isLocked(id string) bool {
	file, err := tryLock(c.file(id, fileLock), 0, false)
	if file != nil {
		_ = file.Close()
	}
	return file == nil && err == nil
}

// tryLock opens and locks a file. It returns nil if the file is locked by others.
func tryLock(path string, flag int, exclusive bool) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|flag, 0o600)
	if err != nil {
		return nil, err
	}
	locked, err := host.TryLock(file, exclusive)
	if err != nil || !locked {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
