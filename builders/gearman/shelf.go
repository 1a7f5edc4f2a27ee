package gearman

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// offer lets others upload and remove a build that is kept here. When it returns, the servers know.
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
		h.log.Warn("gearman servers may not know of a build yet", "build", id, "error", err)
	}
}

// errRemoved ends a build that somebody has removed meanwhile.
var errRemoved = errors.New("somebody removed the build while it was made")

// begin lets others remove a build that is being made here, which stops it. Call end when it is made, or not; more often
// does no harm.
func (h *Host) begin(ctx context.Context, id string) (building context.Context, end func()) {
	building, cancel := context.WithCancelCause(ctx)
	h.mu.Lock()
	h.making[id] = cancel
	h.mu.Unlock()
	if err := h.uploads.Add(ctx, h.remove, deletePrefix+id); err != nil {
		h.log.Warn("gearman servers may not know yet how to stop a build", "build", id, "error", err)
	}
	return building, sync.OnceFunc(func() {
		defer cancel(nil)
		h.mu.Lock()
		delete(h.making, id)
		kept := h.offered[id]
		h.mu.Unlock()
		switch {
		case kept:
		case errors.Is(context.Cause(building), errRemoved):
			h.uploads.Remove(deletePrefix + id) // whoever removes it has the function in hand
		default:
			_ = h.uploads.Withdraw(context.WithoutCancel(ctx), deletePrefix+id) // and what is not confirmed fails by itself
		}
	})
}

// stop stops a build that is being made here.
func (h *Host) stop(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if cancel := h.making[id]; cancel != nil {
		cancel(errRemoved)
	}
}

// withdraw takes a build back that is not here any more.
func (h *Host) withdraw(id string) {
	h.mu.Lock()
	delete(h.offered, id)
	h.changes++
	h.mu.Unlock()
	h.uploads.Remove(uploadPrefix+id, deletePrefix+id)
}

// refresh follows what comes and goes without gearman.
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

// look compares what is offered with what is there. When something is offered or withdrawn meanwhile, the listing may be
// older than that, and counts for nothing; the next one will do.
func (h *Host) look(ctx context.Context) {
	before, changes := h.snapshot()
	kept, err := h.workshop.Kept(ctx)
	if err != nil { // nobody could look, so nothing is gone
		h.log.Warn("cannot list the builds that are kept here", "error", err)
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
		h.log.Info("build is not here any more", "build", id)
		h.withdraw(id)
	}
}

func (h *Host) snapshot() (map[string]bool, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.offered), h.changes
}
