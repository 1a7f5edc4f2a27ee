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
		if c.Subject.Kind != resources.KindImage || checkNames(c.Subject.ID) != nil {
			continue
		}
		r, ok := c.Record.(*resources.ImageRecord)
		flags = append(flags, flag{imageFlag(c.Subject.ID, pauseName), ok && r.Paused})
	}
	return flags
}

// changedFlags returns the flags that differ from the cache.
func (m *mirror) changedFlags(flags []flag) []flag {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(flags, func(f flag) bool { return m.cache.isSet(f.path) == f.set })
}

// flag adds the operations that set or clear a flag.
func (w *write) flag(f flag) {
	switch there := w.cache.isSet(f.path); {
	case f.set && !there:
		w.createParents(parentOf(f.path))
		w.add(&zk.CreateRequest{Path: w.session.serverPath(f.path), Acl: openACL}, forDir, f.path, nil)
	case !f.set && there:
		w.remove(f.path, -1, forDir)
	}
}

// requestedBuilds lists the images with a build request.
func (m *mirror) requestedBuilds() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var images []string
	for image := range m.cache.kids(imagesDir) {
		if m.cache.isSet(imageFlag(image, buildRequestName)) {
			images = append(images, image)
		}
	}
	slices.Sort(images)
	return images
}

// setImageFlag sets or clears a flag of an image.
func (t *transactions) setImageFlag(ctx context.Context, image, name string, set bool) error {
	if err := checkNames(image); err != nil {
		return err
	}
	return t.setFlag(ctx, flag{imageFlag(image, name), set})
}

// frozenProviders lists the providers with a freeze flag.
func (m *mirror) frozenProviders() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cache.names(frozenDir)
}

// maxProviderName is the maximum length of the name of a provider that can be frozen, in bytes.
const maxProviderName = 1024

// freezeProvider sets or clears the freeze flag of a provider. It calls sync first, so that a recent change by another process counts when
// it decides whether the flag must change.
func (t *transactions) freezeProvider(ctx context.Context, provider string, frozen bool) error {
	if provider == "" || len(provider) > maxProviderName || provider == "." || provider == ".." {
		return state.Invalidf("provider %.40q cannot be frozen: a name of 1 to %d bytes is needed", provider, maxProviderName)
	}
	if !t.session.readOnly {
		if err := t.mirror.sync(ctx); err != nil {
			return err
		}
	}
	return t.setFlag(ctx, flag{frozenFlag(provider), frozen})
}

func (t *transactions) setFlag(ctx context.Context, f flag) error {
	if err := t.session.usable(ctx); err != nil {
		return err
	}
	if t.session.readOnly {
		return state.ErrReadOnly
	}
	if err := t.locks.heldLocks(); err != nil {
		return err
	}
	flags := t.mirror.changedFlags([]flag{f})
	if len(flags) == 0 {
		return nil
	}
	err := t.commitShared(ctx, nil, flags)
	if errors.Is(err, errRetry) && len(t.mirror.changedFlags([]flag{f})) == 0 {
		return nil // another process has changed it
	}
	return err
}
