package main

import (
	"context"
	"errors"
	"io"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
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
