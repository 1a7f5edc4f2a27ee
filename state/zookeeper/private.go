package zookeeper

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// privateRecords is the store of the records that concern only this process. Some of them have flags that all processes
// share.
type privateRecords struct {
	store   state.Store
	writing sync.Mutex // held over a commit with records of both stores
	session *session
	numbers *numbers
	log     *slog.Logger
	mu      *sync.Mutex // guards cache; see Store
	cache   *cache
}

// lock excludes other commits with records of both stores until unlock is called.
func (p *privateRecords) lock() (unlock func()) {
	p.writing.Lock()
	return p.writing.Unlock
}

func (p *privateRecords) watch(ctx context.Context) (<-chan struct{}, error) {
	return p.store.Watch(ctx)
}

// check returns the error that the private store would return, before anything is written to ZooKeeper. No other
// process writes to the private store, so the result remains valid.
func (p *privateRecords) check(ctx context.Context, changes []*change) error {
	for _, c := range changes {
		if c.Force || c.Unnamed {
			continue
		}
		entry, err := p.store.Get(ctx, c.Subject)
		if err != nil && !errors.Is(err, state.ErrNotFound) {
			return err
		}
		if err := c.CheckRevision(entry.Revision); err != nil {
			return err
		}
	}
	return nil
}

// commit writes the records that concern only this process.
func (p *privateRecords) commit(ctx context.Context, changes []*change) error {
	ops := make([]state.Op, len(changes))
	for i, c := range changes {
		ops[i] = c.Op
	}
	entries, err := p.store.Commit(ctx, ops...)
	if err != nil {
		return err
	}
	for i, c := range changes {
		c.result = p.withFlags(entries[i])
	}
	return nil
}

// withFlags sets the pause of an image and the freeze of a provider from the shared flags.
func (p *privateRecords) withFlags(entry state.Entry) state.Entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r := entry.Record.(type) {
	case *resources.ImageRecord:
		if checkNames(r.Name) != nil {
			break
		}
		if r.Paused = p.cache.isSet(imageFlag(r.Name, pauseName)); !r.Paused {
			r.PauseReason = ""
		}
	case *resources.ProviderRecord:
		r.Frozen = p.cache.isSet(frozenFlag(r.Name))
	}
	return entry
}

// pausedElsewhere adds images that other processes paused and for which this process has no record.
func (p *privateRecords) pausedElsewhere(entries []state.Entry) []state.Entry {
	known := map[string]bool{}
	for _, entry := range entries {
		if r, ok := entry.Record.(*resources.ImageRecord); ok {
			known[r.Name] = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for image := range p.cache.kids(imagesDir) {
		if !known[image] && p.cache.isSet(imageFlag(image, pauseName)) {
			entries = append(entries, pausedImage(image))
		}
	}
	return entries
}

// get returns one private record.
func (p *privateRecords) get(ctx context.Context, key resources.Key) (state.Entry, error) {
	entry, err := p.store.Get(ctx, key)
	if err == nil {
		return p.withFlags(entry), nil
	}
	if errors.Is(err, state.ErrNotFound) && key.Kind == resources.KindImage && checkNames(key.ID) == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.cache.isSet(imageFlag(key.ID, pauseName)) {
			return pausedImage(key.ID), nil
		}
	}
	return state.Entry{}, err
}

func (p *privateRecords) list(ctx context.Context, kinds []resources.Kind) ([]state.Entry, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	entries, err := p.store.List(ctx, kinds...)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		entries[i] = p.withFlags(entries[i])
	}
	if slices.Contains(kinds, resources.KindImage) {
		before := len(entries)
		if entries = p.pausedElsewhere(entries); len(entries) > before {
			slices.SortStableFunc(entries, byKindAndID)
		}
	}
	return entries, nil
}

// pausedImage returns the entry of an image for which only the flag exists. Its revision is that of a missing record.
func pausedImage(name string) state.Entry {
	return state.Entry{Record: &resources.ImageRecord{Name: name, Kind: resources.DiskImage, Paused: true}}
}

func privateKinds(kinds []resources.Kind) []resources.Kind {
	return slices.DeleteFunc(slices.Clone(kinds), shared)
}
