package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// stateLock is the name of the lock that every process takes before it changes the state.
const stateLock = "state"

// dataDir returns the directory for files of the drivers, in .npctl beside the state.
func dataDir(statePath string) string {
	dir := filepath.Dir(statePath)
	if filepath.Base(dir) != ".npctl" {
		dir = filepath.Join(dir, ".npctl")
	}
	return filepath.Join(dir, "providers")
}

// lostLock returns why the lock of the state is lost: another process took it, or the state is gone.
func lostLock(ctx context.Context, store state.Store) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	if _, err := store.List(ctx, resources.KindNode); err != nil {
		return hint(fmt.Errorf("stopped: the state was deleted or replaced during the operation: %w", err),
			"restore the state from a backup before the next apply (docs/operations.md, Backup and restore)")
	}
	return fmt.Errorf("stopped: the lock of the state was taken away: %w", state.ErrLost)
}

// lock takes the lock of the state for an operation. It waits for another holder for at most wait.
func (a *app) lock(ctx context.Context, store state.Store, operation string, wait time.Duration) (state.Lock, error) {
	told := false
	return state.LockWithin(ctx, store, stateLock, state.Holder{Operation: operation}, wait, func(err error) {
		if other, ok := errors.AsType[*state.LockedError](err); ok && !told {
			a.ui.Message("Waiting for the lock of the state: %s.", visible(strings.TrimPrefix(other.Error(), "lock state is ")))
			told = true
		}
	})
}

// awaitLockHolder waits until no other process works on the state, for at most wait.
func (s *session) awaitLockHolder(ctx context.Context, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	for waiting := false; time.Now().Before(deadline); waiting = true {
		worker, err := s.lockHolder(ctx)
		if err != nil || worker == nil {
			return err
		}
		if !waiting {
			s.app.ui.Message("Waiting for %s (process %d on %s), which has the lock of the state for %s.",
				visibleLine(worker.Who), worker.PID, visibleLine(worker.Host), worker.Operation)
		}
		if err := waits.Sleep(ctx, min(state.LockInterval, time.Until(deadline))); err != nil {
			return err
		}
	}
	return nil
}

// unlockTimeout limits the time to release locks.
const unlockTimeout = 10 * time.Second

// locked runs work under the lock of the state. It cancels the context of work if the lock is lost.
func (a *app) locked(ctx context.Context, store state.Store, operation string, wait time.Duration, work func(context.Context) error) error {
	lock, err := a.lock(ctx, store, operation, wait)
	if err != nil {
		return err
	}
	a.lockID = lock.ID()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-lock.Lost():
			stop(state.ErrLost)
		case <-ctx.Done():
		}
	}()
	err = work(ctx)
	if errors.Is(context.Cause(ctx), state.ErrLost) {
		return lostLock(ctx, store)
	}
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	if unlockErr := lock.Unlock(release); unlockErr != nil && !errors.Is(unlockErr, state.ErrLost) {
		err = errors.Join(err, fmt.Errorf("unlock the state: %w", unlockErr))
	}
	return err
}
