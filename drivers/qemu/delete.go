package qemu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Delete implements drivers.Cloud: it kills the process, waits for its end, and removes the files.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	doing := "delete machine " + id
	if err := ctx.Err(); err != nil {
		return refuse(fmt.Errorf("%s: %w", doing, err))
	}
	m, found, err := c.read(id)
	if err != nil || !found {
		return err
	}
	if !m.Tags.owner().SameRecord(expected) {
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
		if err := pause(ctx); err != nil {
			return nil, fmt.Errorf("wait for the end of QEMU: %w", err)
		}
	}
}

// remove deletes the files of a machine: the description after all others, so that List shows a machine after an
// interrupted deletion, then the lock. The caller has the lock.
func (c *Cloud) remove(id string) error {
	dir := c.directoryOf(id)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); name != fileDescription && name != fileLock {
			if err := os.RemoveAll(c.file(id, name)); err != nil {
				return err
			}
		}
	}
	for _, name := range []string{fileDescription, fileLock} {
		if err := os.Remove(c.file(id, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(dir)
}

// tidy calls removeEmpty, unless another npctl adds a machine now.
func (c *Cloud) tidy() error {
	lock, err := tryLock(filepath.Join(c.dir, fileLock), 0, true)
	if errors.Is(err, fs.ErrNotExist) || lock == nil && err == nil {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(c.removeEmpty(), lock.Close())
}

// removeEmpty deletes directories without a description, which an interrupted call has left. The caller has the lock of the
// provider's directory.
func (c *Cloud) removeEmpty() error {
	entries, err := os.ReadDir(c.machines())
	if err != nil {
		return err
	}
	for _, entry := range entries {
		id := entry.Name()
		if _, err := os.Stat(c.file(id, fileDescription)); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		lock, err := c.lockMachine(id)
		if lock == nil {
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			continue
		}
		if err := errors.Join(c.remove(id), lock.Close()); err != nil {
			return err
		}
	}
	return nil
}
