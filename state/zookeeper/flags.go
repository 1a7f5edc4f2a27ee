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

// flag is a znode that exists or not, for all processes.
type flag struct {
	path string
	set  bool
}

func imageFlag(image, name string) string { return imagesDir + "/" + image + "/" + name }

func frozenFlag(provider string) string { return frozenDir + "/" + url.PathEscape(provider) }

// pauseFlags returns the pause flags that follow from changes of image records.
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

// changedFlags returns the flags that differ from the cache.
func (s *Store) changedFlags(flags []flag) []flag {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(flags, func(f flag) bool { return s.isSet(f.path) == f.set })
}

// isSet reports whether a flag exists. s.mu is held.
func (s *Store) isSet(at string) bool { return s.cache.nodes[at] != nil }

// flag adds the operations that set or clear a flag.
func (w *write) flag(f flag) {
	switch there := w.store.isSet(f.path); {
	case f.set && !there:
		w.createParents(parentOf(f.path))
		w.add(&zk.CreateRequest{Path: w.store.serverPath(f.path), Acl: openACL}, forDir, f.path, nil)
	case !f.set && there:
		w.remove(f.path, -1, forDir)
	}
}

// RequestedBuilds implements state.Shared.
func (s *Store) RequestedBuilds() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var images []string
	for image := range kidsOf(s.cache.nodes[imagesDir]) {
		if s.isSet(imageFlag(image, buildRequestName)) {
			images = append(images, image)
		}
	}
	slices.Sort(images)
	return images
}

// RequestBuild implements state.Shared.
func (s *Store) RequestBuild(ctx context.Context, image string, wish bool) error {
	if err := checkNames(image); err != nil {
		return err
	}
	return s.setFlag(ctx, flag{imageFlag(image, buildRequestName), wish})
}

// PauseImage pauses or resumes builds of an image, whatever the private store says. A Commit of the image's record
// writes both the record and the flag.
func (s *Store) PauseImage(ctx context.Context, image string, paused bool) error {
	if err := checkNames(image); err != nil {
		return err
	}
	return s.setFlag(ctx, flag{imageFlag(image, pauseName), paused})
}

// FrozenProviders implements state.Shared.
func (s *Store) FrozenProviders() []string {
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

// maxProviderName is the maximum length of the name of a provider that can be frozen, in bytes.
const maxProviderName = 1024

// FreezeProvider implements state.Shared. It calls Sync first, so that a recent change by another process counts when
// it decides whether the flag must change.
func (s *Store) FreezeProvider(ctx context.Context, provider string, frozen bool) error {
	if provider == "" || len(provider) > maxProviderName || provider == "." || provider == ".." {
		return state.Invalidf("provider %.40q cannot be frozen: a name of 1 to %d bytes is needed", provider, maxProviderName)
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
	if errors.Is(err, errRetry) && len(s.changedFlags([]flag{f})) == 0 {
		return nil // another process has changed it
	}
	return err
}
