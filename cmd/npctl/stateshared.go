package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/location"
	"github.com/npctl/npctl/state/zookeeper"
)

// sharedStore is a state in ZooKeeper with the private file of this process. The lock that the commands on this machine
// share is in the file; claims on single records exclude processes on other machines.
type sharedStore struct {
	*zookeeper.Store
	private *bolt.Store
}

var (
	_ stateStore   = (*sharedStore)(nil)
	_ state.Shared = (*sharedStore)(nil)
)

// openTimeout is the time after which npctl reports that ZooKeeper is unreachable.
const openTimeout = 10 * time.Second

// openShared opens the private file first, because it contains the lineage of its state.
func (a *app) openShared(ctx context.Context, p location.Location, readOnly bool) (*sharedStore, error) {
	private, err := bolt.Open(bolt.Options{Path: p.File, Version: version(), ReadOnly: readOnly, Role: bolt.RolePrivate, Log: a.log})
	if err != nil {
		return nil, location.Explain(err, p)
	}
	shared, err := a.joinShared(ctx, p, private, readOnly)
	if err != nil {
		return nil, errors.Join(location.Explain(err, p), private.Close())
	}
	return &sharedStore{shared, private}, nil
}

// openShadow opens a shared state read-only, for a shadow that runs while other processes serve. Its notes go to a file
// that belongs to no state.
func (a *app) openShadow(ctx context.Context, p location.Location) (*sharedStore, error) {
	private, err := bolt.Open(bolt.Options{Path: p.File, Version: version(), Role: bolt.RoleShadow, Log: a.log})
	if err != nil {
		return nil, location.Explain(err, p)
	}
	opts := *p.Shared
	opts.Private, opts.ReadOnly, opts.Version, opts.Log, opts.OpenTimeout = private, true, version(), a.log, openTimeout
	shared, err := zookeeper.Open(ctx, opts)
	if err != nil {
		return nil, errors.Join(location.Explain(err, p), private.Close())
	}
	return &sharedStore{shared, private}, nil
}

func (a *app) joinShared(ctx context.Context, p location.Location, private *bolt.Store, readOnly bool) (*zookeeper.Store, error) {
	own, err := private.Identity(ctx)
	if err != nil {
		return nil, err
	}
	opts := *p.Shared
	opts.Private, opts.ReadOnly, opts.Version, opts.Log = private, readOnly, version(), a.log
	opts.OpenTimeout = openTimeout
	if own.Serial > 0 {
		opts.Lineage = own.Lineage
	}
	shared, err := zookeeper.Open(ctx, opts)
	if err != nil || own.Serial > 0 || readOnly {
		return shared, err
	}
	there, err := shared.Identity(ctx)
	if err == nil {
		err = private.ConvertRole(ctx, bolt.RoleChange{Role: bolt.RolePrivate, Location: p.String(), Lineage: there.Lineage})
	}
	if err != nil {
		return nil, errors.Join(err, shared.Close())
	}
	return shared, nil
}

// Lock implements state.Store.
func (s *sharedStore) Lock(ctx context.Context, name string, holder state.Holder) (state.Lock, error) {
	if name == stateLock {
		return s.private.Lock(ctx, name, holder)
	}
	return s.Store.Lock(ctx, name, holder)
}

// Worker implements stateStore. It covers this machine only; processes on other machines claim the records that they
// work on.
func (s *sharedStore) Worker(ctx context.Context, name string) (*state.Holder, error) {
	return s.private.Worker(ctx, name)
}

// Holder implements stateStore.
func (s *sharedStore) Holder(ctx context.Context, name string) (*state.Holder, error) {
	if name == stateLock {
		return s.private.Holder(ctx, name)
	}
	return s.Store.Holder(ctx, name)
}

// ForceUnlock implements stateStore. The lock may be in the file or in ZooKeeper.
func (s *sharedStore) ForceUnlock(ctx context.Context, id string) (state.Holder, error) {
	if own, err := s.private.Holder(ctx, stateLock); err != nil || own != nil && own.ID == id {
		return s.private.ForceUnlock(ctx, id)
	}
	return s.Store.ForceUnlock(ctx, id)
}

// Export implements stateStore.
func (s *sharedStore) Export(ctx context.Context, w io.Writer) error {
	doc, err := s.document(ctx)
	if err != nil {
		return err
	}
	return doc.Write(w)
}

// Close implements state.Store.
func (s *sharedStore) Close() error {
	return errors.Join(s.Store.Close(), s.private.Close())
}

// document returns the whole state in the form that npctl state pull prints.
func (s *sharedStore) document(ctx context.Context) (*bolt.Document, error) {
	doc := bolt.NewDocument(version())
	id, err := s.Identity(ctx)
	if err != nil {
		return nil, err
	}
	doc.Lineage, doc.Serial = id.Lineage, id.Serial
	entries, err := s.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := doc.Add(e.Record); err != nil {
			return nil, err
		}
	}
	return doc, s.addSequences(ctx, doc)
}

// addSequences sets the sequences of the document to the highest IDs ever assigned, even if their records no longer
// exist.
func (s *sharedStore) addSequences(ctx context.Context, doc *bolt.Document) error {
	about, err := s.private.FileInfo(ctx)
	if err != nil {
		return err
	}
	for kind, last := range about.Sequences {
		doc.Sequences[kind] = max(doc.Sequences[kind], last)
	}
	for _, kind := range []resources.Kind{resources.KindNode, resources.KindUpload} {
		last, err := s.LastID(ctx, kind)
		if err != nil {
			return err
		}
		doc.Sequences[kind] = max(doc.Sequences[kind], last)
	}
	return nil
}
