package zookeeper

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
)

// flag is a znode of an image that is there or not, for all processes.
type flag struct {
	image, name string
	set         bool
}

func (f flag) path() string { return imagesDir + "/" + f.image + "/" + f.name }

// pauseFlags are those that follow from records of images.
func pauseFlags(changes []*change) []flag {
	var flags []flag
	for _, c := range changes {
		if c.key.Kind != resources.KindImage || checkNames(c.key.ID) != nil {
			continue
		}
		r, ok := c.op.Record.(*resources.ImageRecord)
		flags = append(flags, flag{c.key.ID, pauseName, ok && r.Paused})
	}
	return flags
}

// changedFlags are those that are not as they should be.
func (s *Store) changedFlags(flags []flag) []flag {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(flags, func(f flag) bool { return s.isSet(f) == f.set })
}

// isSet says whether a flag is there. s.mu is held.
func (s *Store) isSet(f flag) bool { return s.cache.nodes[f.path()] != nil }

// flag adds the change of a flag.
func (w *write) flag(f flag) {
	at := f.path()
	switch there := w.store.isSet(f); {
	case f.set && !there:
		w.way(parentOf(at))
		w.add(&zk.CreateRequest{Path: w.store.at(at), Acl: openACL}, forWay, at, nil)
	case !f.set && there:
		w.remove(at, -1, forWay)
	}
}

// BuildsWished implements state.Shared.
func (s *Store) BuildsWished() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var images []string
	if dir := s.cache.nodes[imagesDir]; dir != nil {
		for image := range maps.Clone(dir.kids) {
			if s.isSet(flag{image: image, name: wishName}) {
				images = append(images, image)
			}
		}
	}
	slices.Sort(images)
	return images
}

// WishBuild implements state.Shared.
func (s *Store) WishBuild(ctx context.Context, image string, wish bool) error {
	return s.setFlag(ctx, flag{image, wishName, wish})
}

// PauseImage lets nobody build an image, or takes that back, whatever the private store remembers of it. A Commit of its
// record does both.
func (s *Store) PauseImage(ctx context.Context, image string, paused bool) error {
	return s.setFlag(ctx, flag{image, pauseName, paused})
}

func (s *Store) setFlag(ctx context.Context, f flag) error {
	if err := checkNames(f.image); err != nil {
		return err
	}
	if err := s.usable(ctx); err != nil {
		return err
	}
	if s.opts.ReadOnly {
		return errReadOnly
	}
	if err := s.heldLocks(); err != nil {
		return err
	}
	flags := s.changedFlags([]flag{f})
	if len(flags) == 0 {
		return nil
	}
	err := s.commitShared(ctx, nil, flags)
	if errors.Is(err, errAgain) {
		return nil // somebody else has done it
	}
	return err
}
