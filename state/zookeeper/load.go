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
func (s *Store) load(ctx context.Context) error {
	s.mu.Lock()
	s.cache.deletedDuringLoad = map[string]uint64{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.cache.deletedDuringLoad = nil
		s.mu.Unlock()
	}()
	level := []string{rootDir, namedDir, frozenDir}
	for len(level) > 0 {
		next, err := s.loadLevel(ctx, level)
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

func (s *Store) loadLevel(ctx context.Context, paths []string) (next []string, err error) {
	s.mu.Lock()
	since := s.cache.seq
	s.mu.Unlock()
	listings := make([]listing, len(paths))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(maxReads)
	for i, at := range paths {
		group.Go(func() (err error) {
			listings[i], err = s.list(groupCtx, at)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, at := range paths {
		next = append(next, s.takeListing(at, listings[i], since)...)
	}
	return next, nil
}

// list reads a znode and lists its children if the store uses them.
func (s *Store) list(ctx context.Context, at string) (l listing, err error) {
	p := parsePath(at)
	if p.hasContent() {
		if l.result, err = s.read(ctx, at); err != nil || !l.there || p.role == roleComponent || p.kind == resources.KindRequest {
			return l, err
		}
	}
	if l.list = true; p.kind == resources.KindNode { // the only possible child is the lock directory
		if l.kids > 0 {
			l.names = []string{lockName}
		}
		return l, nil
	}
	names, err := s.children(ctx, at)
	if errors.Is(err, zk.ErrNoNode) {
		l.there = false
		return l, nil
	}
	l.names, l.there = names, true
	return l, err
}

// takeListing stores a listing in the cache and returns the paths to read next. s.mu is held.
func (s *Store) takeListing(at string, l listing, since uint64) (next []string) {
	z := s.cache.nodes[at]
	switch {
	case !l.there && (z == nil || z.knownSince > since):
		return nil
	case !l.there:
		s.cache.remove(at)
		return nil
	case z == nil && s.cache.deletedDuringLoad[at] > since:
		return nil
	}
	z = s.cache.add(at)
	if z.ref.hasContent() && z.changedAt <= since && !s.inOwnWrite(at) {
		s.report(at, l.content)
		s.cache.put(at, l.content)
		delete(s.cache.dirty, at)
	}
	if !l.list {
		return nil
	}
	s.cache.children(at, l.names, since)
	for _, kid := range slices.Sorted(maps.Keys(z.children)) {
		if p := parsePath(at + "/" + kid); p.role != roleContender && p.role != roleFlag && p.role != roleOther {
			next = append(next, at+"/"+kid)
		}
	}
	return next
}
