package main

import (
	"context"
	"errors"
	"os"

	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// logEvent is a line of image log -json; see docs/json.md.
type logEvent struct {
	Type          string          `json:"type"`
	FormatVersion string          `json:"format_version,omitempty"`
	Image         string          `json:"image,omitempty"`
	Build         string          `json:"build,omitempty"`
	Path          string          `json:"path,omitempty"`
	State         resources.State `json:"state,omitempty"`
	Text          *string         `json:"text,omitempty"`
	Message       string          `json:"message,omitempty"`
	Hint          string          `json:"hint,omitempty"`
}

// buildWatch checks whether a build is still running.
type buildWatch struct {
	store      stateStore
	build      string
	idleChecks int // consecutive checks that found no running process
}

// maxIdleChecks is the number of consecutive checks without a running process after which a build counts as
// interrupted.
const maxIdleChecks = 2

// ended reports whether the build has ended: its record says so, or the process that ran it has exited.
func (b *buildWatch) ended(ctx context.Context) (bool, error) {
	entry, err := b.store.Get(ctx, resources.Key{Kind: resources.KindBuild, ID: b.build})
	switch {
	case errors.Is(err, state.ErrNotFound):
		return true, nil
	case err != nil:
		return false, err
	case entry.Record.(*resources.Build).State != resources.StateBuilding:
		return true, nil
	}
	holder, err := b.store.Holder(ctx, stateLock)
	if err != nil {
		return false, err
	}
	if b.idleChecks++; holder != nil && !isDead(*holder) {
		b.idleChecks = 0
	}
	return b.idleChecks >= maxIdleChecks, nil
}

// isDead reports whether the process that holds a lock is known to have exited. It reports false for a process on
// another host.
func isDead(h state.Holder) bool {
	name, err := os.Hostname()
	return err == nil && name == h.Host && h.PID > 0 && !host.IsRunning(h.PID)
}

// buildOutcome returns the state of a build and the error of a failed one. A failed build may have no record; its error
// is then in the record of the image.
func buildOutcome(ctx context.Context, store stateStore, l foundLog) (resources.State, string) {
	if entry, err := store.Get(ctx, resources.Key{Kind: resources.KindBuild, ID: l.build}); err == nil {
		b := entry.Record.(*resources.Build)
		return b.State, b.Error
	}
	if entry, err := store.Get(ctx, resources.Key{Kind: resources.KindImage, ID: l.image}); err == nil {
		if f := entry.Record.(*resources.ImageRecord).Failure; f != nil && f.Build == l.build {
			return resources.StateFailed, f.Error
		}
	}
	return "", ""
}
