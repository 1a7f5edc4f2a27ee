package zookeeper

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"
	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/resources"
)

// load reads the whole tree, level by level, while events arrive.
func (m *mirror) load(ctx context.Context) error {
	m.mu.Lock()
	m.cache.deletedDuringLoad = map[string]uint64{}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.cache.deletedDuringLoad = nil
		m.mu.Unlock()
	}()
	level := slices.Clone(watchedDirs)
	for len(level) > 0 {
		next, err := m.loadLevel(ctx, level)
		if err != nil {
			return err
		}
		level = next
	}
	return nil
}

// listing is the outcome of reading one znode and listing its children.
type listing struct {
	result
	names []string
	list  bool // names is complete
}

func (m *mirror) loadLevel(ctx context.Context, paths []string) (next []string, err error) {
	m.mu.Lock()
	since := m.cache.seq
	m.mu.Unlock()
	listings := make([]listing, len(paths))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for i, at := range paths {
		group.Go(func() (err error) {
			listings[i], err = m.list(groupCtx, at)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, at := range paths {
		next = append(next, m.takeListing(at, listings[i], since)...)
	}
	return next, nil
}

// list reads a znode and lists its children if the store uses them.
func (m *mirror) list(ctx context.Context, at string) (l listing, err error) {
	p := parsePath(at)
	if p.hasContent() {
		if l.result, err = m.read(ctx, at); err != nil || !l.there || p.role == roleComponent || p.kind == resources.KindRequest || p.kind == resources.KindTrial {
			return l, err
		}
	}
	if l.list = true; p.kind == resources.KindNode { // the only possible child is the lock directory
		if l.kids > 0 {
			l.names = []string{lockName}
		}
		return l, nil
	}
	names, err := m.session.children(ctx, at)
	if errors.Is(err, zk.ErrNoNode) {
		l.there = false
		return l, nil
	}
	l.names, l.there = names, true
	return l, err
}

// takeListing stores a listing in the cache and returns the paths to read next. mu is held.
func (m *mirror) takeListing(at string, l listing, since uint64) (next []string) {
	z := m.cache.node(at)
	switch {
	case !l.there && (z == nil || z.knownSince > since):
		return nil
	case !l.there:
		m.cache.remove(at)
		return nil
	case z == nil && m.cache.deletedAfter(at, since):
		return nil
	}
	z = m.cache.add(at)
	if z.ref.hasContent() && z.changedAt <= since && !m.inOwnWrite(at) {
		m.report(at, l.content)
		m.cache.put(at, l.content)
		delete(m.cache.dirty, at)
	}
	if !l.list {
		return nil
	}
	m.cache.children(at, l.names, since)
	for _, kid := range slices.Sorted(maps.Keys(z.children)) {
		if p := parsePath(at + "/" + kid); p.role != roleContender && p.role != roleFlag && p.role != roleOther {
			next = append(next, at+"/"+kid)
		}
	}
	return next
}
