package state

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/user"
	"time"

	"github.com/google/uuid"
)

// Self returns the current process as a holder with a new ID. The host is the name of this machine.
func Self(host, version string) Holder {
	name := cmp.Or(os.Getenv("USER"), "unknown")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return Holder{ID: uuid.NewString(), UserHost: name + "@" + host, Host: host, PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second), Version: version}
}

// WithDefaults returns h with its empty fields, except Operation, taken from other. It takes the PID only from a holder
// on the same host, because a PID is valid only on its host.
func (h Holder) WithDefaults(other Holder) Holder {
	h.ID, h.UserHost, h.Host = cmp.Or(h.ID, other.ID), cmp.Or(h.UserHost, other.UserHost), cmp.Or(h.Host, other.Host)
	h.Since, h.Version = cmp.Or(h.Since, other.Since), cmp.Or(h.Version, other.Version)
	if h.PID == 0 && h.Host == other.Host {
		h.PID, h.Started = other.PID, cmp.Or(h.Started, other.Started)
	}
	return h
}

// LockInterval is the interval between attempts to take a lock that another process holds.
const LockInterval = 250 * time.Millisecond

// LockWithin takes a lock. It waits for another holder for at most wait, and calls waiting with the error before each
// wait.
func LockWithin(ctx context.Context, s Store, name string, holder Holder, wait time.Duration, waiting func(error)) (Lock, error) {
	for deadline := time.Now().Add(wait); ; {
		lock, err := s.Lock(ctx, name, holder)
		if err == nil || !errors.Is(err, ErrLocked) || !time.Now().Before(deadline) {
			return lock, err
		}
		waiting(err)
		select {
		case <-time.After(min(LockInterval, time.Until(deadline))):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
