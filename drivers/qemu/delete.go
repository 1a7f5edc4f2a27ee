package qemu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/resources"
)

// Delete implements drivers.Cloud: it kills the process, waits for its end, and removes the files.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	doing := "delete machine " + id
	if err := ctx.Err(); err != nil {
		return drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	m, found, err := c.read(id)
	if err != nil || !found {
		return err
	}
	if !resources.OwnerTags(m.Tags).SameRecord(expected) {
		return fmt.Errorf("%s: %w", doing, drivers.ErrNotOurs)
	}
	lock, err := c.stop(ctx, id)
	if errors.Is(err, fs.ErrNotExist) { // another call has deleted it
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if err := errors.Join(c.remove(id), lock.Close()); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// stop kills the process of a machine and returns the lock of the machine.
func (c *Cloud) stop(ctx context.Context, id string) (*os.File, error) {
	for {
		lock, err := c.lockMachine(id)
		if lock != nil || err != nil {
			return lock, err
		}
		// Without a process ID the machine is just being started.
		if _, err := killHolder(c.file(id, filePID)); err != nil {
			return nil, fmt.Errorf("kill QEMU: %w", err)
		}
		if err := waits.Sleep(ctx, pollInterval); err != nil {
			return nil, fmt.Errorf("wait for the end of QEMU: %w", err)
		}
	}
}

// remove deletes the files that npctl and QEMU have created for a machine: the description after all others, so that List
// shows a machine after an interrupted deletion, then the lock. Other files, and thus the directory, stay. The caller has the
// lock.
func (c *Cloud) remove(id string) error {
	paths := host.Unfinished(c.file(id, fileDescription))
	for _, name := range []string{fileDisk, fileSeed, fileConsole, fileLog, filePID, fileDescription, fileLock} {
		paths = append(paths, c.file(id, name))
	}
	if err := removeFiles(paths...); err != nil {
		return err
	}
	return removeDirectory(c.directoryOf(id))
}

// removeFiles deletes the files that exist.
func removeFiles(paths ...string) error {
	for _, path := range paths {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// removeDirectory deletes a directory unless it has files of others.
func removeDirectory(path string) error {
	if entries, err := os.ReadDir(path); err != nil || len(entries) > 0 {
		return err
	}
	return os.Remove(path)
}

// removeInterrupted deletes the directories that interrupted calls have left: without a description, with a name of npctl,
// and with nothing but a lock. All others are foreign. The caller has the lock of the provider's directory. A directory that
// cannot be deleted is harmless, and the next call tries again.
func (c *Cloud) removeInterrupted() {
	entries, _ := os.ReadDir(c.machines())
	for _, entry := range entries {
		if id := entry.Name(); entry.IsDir() && hasForm(id) && c.isInterrupted(id) {
			c.removeLock(id)
		}
	}
}

// isInterrupted reports whether a directory has nothing but a lock, which is empty, and unfinished descriptions.
func (c *Cloud) isInterrupted(id string) bool {
	entries, err := os.ReadDir(c.directoryOf(id))
	unfinished := host.Unfinished(c.file(id, fileDescription))
	return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		info, err := e.Info()
		isLock := err == nil && info.Mode().IsRegular() && info.Size() == 0 && e.Name() == fileLock
		return !isLock && !slices.Contains(unfinished, c.file(id, e.Name()))
	})
}

// removeLock deletes the lock and the directory of a machine without a description, unless a process has the lock.
func (c *Cloud) removeLock(id string) {
	lock, err := tryLock(c.file(id, fileLock), 0, true)
	if lock == nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if lock != nil {
		defer lock.Close() //nolint:errcheck // the lock ends with the file
	}
	if c.isInterrupted(id) { // also with the lock
		_ = c.remove(id)
	}
}
