package gearman

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// offer registers the functions to upload and remove a build on this host. When it returns, the servers know them.
func (h *Host) offer(ctx context.Context, id string) {
	if err := checkName(id); err != nil {
		h.log.Warn("build cannot be offered by gearman", "build", id, "error", err)
		return
	}
	h.mu.Lock()
	h.offered[id] = true
	h.changes++
	h.mu.Unlock()
	err := errors.Join(h.uploads.Add(ctx, h.upload, uploadPrefix+id), h.uploads.Add(ctx, h.remove, deletePrefix+id))
	if err != nil {
		h.log.Warn("a build is not registered at all gearman servers", "build", id, "error", err)
	}
}

// errRemoved ends a build that a client removed while it was running.
var errRemoved = errors.New("the build was removed while it ran")

// begin registers the function to remove a running build, which stops it. The caller must call end when the build ends;
// further calls have no effect.
func (h *Host) begin(ctx context.Context, id string) (building context.Context, end func()) {
	building, cancel := context.WithCancelCause(ctx)
	h.mu.Lock()
	h.runningBuilds[id] = cancel
	h.mu.Unlock()
	if err := h.uploads.Add(ctx, h.remove, deletePrefix+id); err != nil {
		h.log.Warn("the stop function of a build is not registered at all gearman servers", "build", id, "error", err)
	}
	return building, sync.OnceFunc(func() {
		defer cancel(nil)
		h.mu.Lock()
		delete(h.runningBuilds, id)
		kept := h.offered[id]
		h.mu.Unlock()
		switch {
		case kept:
		case errors.Is(context.Cause(building), errRemoved):
			h.uploads.Remove(deletePrefix + id) // the remove job, which is still running, uses this function
		default:
			_ = h.uploads.Withdraw(context.WithoutCancel(ctx), deletePrefix+id) // a job that a server still sends fails
		}
	})
}

// stop stops a running build on this host.
func (h *Host) stop(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel := h.runningBuilds[id]; cancel != nil {
		cancel(errRemoved)
	}
}

// withdraw withdraws the functions of a build that is no longer on this host.
func (h *Host) withdraw(id string) {
	h.mu.Lock()
	delete(h.offered, id)
	h.changes++
	h.mu.Unlock()
	h.uploads.Remove(uploadPrefix+id, deletePrefix+id)
}

// refresh periodically follows builds that appear or disappear without gearman.
func (h *Host) refresh(ctx context.Context) {
	ticker := time.NewTicker(h.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			h.look(ctx)
		}
	}
}

// look compares the offered builds with the existing ones. If a build is offered or withdrawn during the listing, the
// listing may be outdated and is ignored; the next one replaces it.
func (h *Host) look(ctx context.Context) {
	before, changes := h.snapshot()
	kept, err := h.service.ListBuilds(ctx)
	if err != nil { // no listing, so no build counts as gone
		h.log.Warn("cannot list the builds of this host", "error", err)
		return
	}
	if _, now := h.snapshot(); now != changes {
		return
	}
	for _, id := range kept {
		if !before[id] {
			h.offer(ctx, id)
		}
		delete(before, id)
	}
	for _, id := range slices.Sorted(maps.Keys(before)) {
		h.log.Info("build is no longer on this host", "build", id)
		h.withdraw(id)
	}
}

func (h *Host) snapshot() (map[string]bool, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.offered), h.changes
}
