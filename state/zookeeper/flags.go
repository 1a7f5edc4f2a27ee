package zookeeper

import (
	"context"
	"errors"
	"net/url"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// flag is a znode that is there or not, for all processes.
type flag struct {
	path string
	set  bool
}

func imageFlag(image, name string) string { return imagesDir + "/" + image + "/" + name }

func frozenFlag(provider string) string { return frozenDir + "/" + url.PathEscape(provider) }

// pauseFlags are those that follow from records of images.
func pauseFlags(changes []*change) []flag {
	var flags []flag
	for _, c := range changes {
		if c.key.Kind != resources.KindImage || checkNames(c.key.ID) != nil {
			continue
		}
		r, ok := c.op.Record.(*resources.ImageRecord)
		flags = append(flags, flag{imageFlag(c.key.ID, pauseName), ok && r.Paused})
	}
	return flags
}

// changedFlags are those that are not as they should be.
func (s *Store) changedFlags(flags []flag) []flag {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(flags, func(f flag) bool { return s.isSet(f.path) == f.set })
}

// isSet says whether a flag is there. s.mu is held.
func (s *Store) isSet(at string) bool { return s.cache.nodes[at] != nil }

// flag adds the change of a flag.
func (w *write) flag(f flag) {
	switch there := w.store.isSet(f.path); {
	case f.set && !there:
		w.way(parentOf(f.path))
		w.add(&zk.CreateRequest{Path: w.store.at(f.path), Acl: openACL}, forWay, f.path, nil)
	case !f.set && there:
		w.remove(f.path, -1, forWay)
	}
}

// BuildsWished implements state.Shared.
func (s *Store) BuildsWished() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var images []string
	for image := range kidsOf(s.cache.nodes[imagesDir]) {
		if s.isSet(imageFlag(image, wishName)) {
			images = append(images, image)
		}
	}
	slices.Sort(images)
	return images
}

// WishBuild implements state.Shared.
func (s *Store) WishBuild(ctx context.Context, image string, wish bool) error {
	if err := checkNames(image); err != nil {
		return err
	}
	return s.setFlag(ctx, flag{imageFlag(image, wishName), wish})
}

// PauseImage lets nobody build an image, or takes that back, whatever the private store remembers of it. A Commit of its
// record does both.
func (s *Store) PauseImage(ctx context.Context, image string, paused bool) error {
	if err := checkNames(image); err != nil {
		return err
	}
	return s.setFlag(ctx, flag{imageFlag(image, pauseName), paused})
}

// ProvidersFrozen implements state.Shared.
func (s *Store) ProvidersFrozen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var providers []string
	for name := range kidsOf(s.cache.nodes[frozenDir]) {
		if provider, err := url.PathUnescape(name); err == nil {
			providers = append(providers, provider)
		}
	}
	slices.Sort(providers)
	return providers
}

// maxProviderName is the length of a provider's name, in bytes, up to which it can be frozen.
const maxProviderName = 1024

// FreezeProvider implements state.Shared. What others have done a moment ago is known before it is decided that there is
// nothing to do.
func (s *Store) FreezeProvider(ctx context.Context, provider string, frozen bool) error {
	if provider == "" || len(provider) > maxProviderName || provider == "." || provider == ".." {
		return state.Refuse("provider %.40q cannot be frozen: a name of 1 to %d bytes is needed", provider, maxProviderName)
	}
	if !s.opts.ReadOnly {
		if err := s.Sync(ctx); err != nil {
			return err
		}
	}
	return s.setFlag(ctx, flag{frozenFlag(provider), frozen})
}

func (s *Store) setFlag(ctx context.Context, f flag) error {
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
	if errors.Is(err, errAgain) && len(s.changedFlags([]flag{f})) == 0 {
		return nil // somebody else has done it
	}
	return err
}
