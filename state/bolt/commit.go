package bolt

import (
	"context"
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const (
	maxRecord = 1 << 20 // bytes of JSON; what ZooKeeper takes at the most, too
	maxID     = 1024    // bytes
)

// Commit implements state.Store. Revisions are serials: all records of a commit get the same one, and none is ever
// used again. Moves that resources.LegalMove forbids are refused.
func (s *Store) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if len(ops) == 0 {
		return nil, nil
	}
	changes, err := prepare(ops)
	if err != nil {
		return nil, fmt.Errorf("commit: %w", err)
	}
	at, err := s.writeChanges(ctx, changes)
	if err != nil {
		return nil, err
	}
	s.hint(at)
	return finish(changes), nil
}

// apply makes the changes and moves the serial on.
func (s *Store) apply(tx *bbolt.Tx, h *head, changes []*change) error {
	s.nextHead(h)
	for _, c := range changes {
		if err := c.apply(tx, h); err != nil {
			return err
		}
	}
	return h.save(tx)
}

// finish gives new records their ids and returns the entries, which share nothing with the records passed in.
func finish(changes []*change) []state.Entry {
	entries := make([]state.Entry, len(changes))
	for i, c := range changes {
		entries[i] = c.result
		if c.unnamed {
			resources.SetID(c.op.Record, c.key.ID)
		}
	}
	return entries
}

// change is an op on its way into the file.
type change struct {
	op      state.Op
	key     resources.Key
	unnamed bool // the store gives the id

	result state.Entry // of a put, once applied
}

// prepare refuses ops that are wrong whatever the store holds.
func prepare(ops []state.Op) ([]*change, error) {
	checked, err := state.Check(ops)
	if err != nil {
		return nil, err
	}
	changes := make([]*change, len(checked))
	for i, c := range checked {
		changes[i] = &change{op: c.Op, key: c.Subject, unnamed: c.Unnamed}
	}
	return changes, nil
}

func (c *change) apply(tx *bbolt.Tx, h *head) error {
	records, err := tx.CreateBucketIfNotExists(recordsBucket)
	if err != nil {
		return err
	}
	bucket, err := records.CreateBucketIfNotExists([]byte(c.key.Kind))
	if err != nil {
		return err
	}
	if c.unnamed {
		c.key.ID = h.nextID(c.key.Kind, bucket)
	}
	old, err := c.before(bucket)
	if err != nil {
		return err
	}
	if c.op.Record == nil {
		if old != nil {
			h.Counts[c.key.Kind]--
		}
		return bucket.Delete([]byte(c.key.ID))
	}
	if old == nil {
		h.Counts[c.key.Kind]++
		h.noteID(c.key)
	}
	return c.put(h, bucket, old, state.Revision(h.Serial))
}

// before returns the content that the change replaces, nil when there is none, after checking its revision.
func (c *change) before(bucket *bbolt.Bucket) ([]byte, error) {
	var revision state.Revision
	var content []byte
	if value := bucket.Get([]byte(c.key.ID)); value != nil {
		var err error
		if revision, content, err = unseal([]byte(c.key.Kind), []byte(c.key.ID), value); err != nil {
			return nil, err
		}
	}
	switch {
	case c.op.Force || revision == c.op.Revision:
		return content, nil
	case revision == 0:
		return nil, fmt.Errorf("%s is gone, it was at revision %d: %w", c.key, c.op.Revision, state.ErrConflict)
	case c.op.Revision == 0:
		return nil, fmt.Errorf("%s exists, at revision %d: %w", c.key, revision, state.ErrConflict)
	default:
		return nil, fmt.Errorf("%s is at revision %d, not %d: %w", c.key, revision, c.op.Revision, state.ErrConflict)
	}
}

func (c *change) put(h *head, bucket *bbolt.Bucket, old []byte, revision state.Revision) error {
	record := c.op.Record
	if c.unnamed {
		record = withID(record, c.key.ID)
	}
	if sighting, ok := record.(*resources.Sighting); ok {
		record = h.noteSighting(sighting)
	}
	content, err := json.Marshal(record)
	if err != nil {
		return state.Refuse("%s: %v", c.key, err)
	}
	if err := c.checkMove(old, record); err != nil {
		return err
	}
	if content, err = carry(old, content, record); err != nil {
		return err
	}
	if len(content) > maxRecord {
		return state.Refuse("%s is %d bytes long, at most %d are allowed", c.key, len(content), maxRecord)
	}
	stored, err := decode(c.key.Kind, []byte(c.key.ID), content)
	if err != nil {
		return state.Refuse("%s would not read back as it was written: %v", c.key, err)
	}
	c.result = state.Entry{Record: stored, Revision: revision}
	return bucket.Put([]byte(c.key.ID), seal([]byte(c.key.Kind), []byte(c.key.ID), revision, content))
}

// checkMove refuses a change of state that resources.LegalMove forbids.
func (c *change) checkMove(old []byte, record resources.Record) error {
	var from struct{ State resources.State }
	if old != nil {
		if err := json.Unmarshal(old, &from); err != nil {
			return damage("%s: %v", c.key, err)
		}
	}
	if to := resources.StateOf(record); !resources.LegalMove(c.key.Kind, from.State, to) {
		return state.Refuse("%s may not go from state %q to %q: this is a bug in npctl", c.key, from.State, to)
	}
	return nil
}
