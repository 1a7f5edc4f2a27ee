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
	maxRecord = 1 << 20 // bytes of JSON; also the limit of ZooKeeper
	maxID     = 1024    // bytes
)

// Commit implements state.Store. A revision is the serial of the commit: all records of a commit get the same revision,
// and no revision is reused. It rejects changes of state that resources.LegalTransition forbids.
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

// finish sets the IDs of new records and returns the entries, which share no memory with the records passed in.
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

// change is an op of a commit in progress.
type change struct {
	op      state.Op
	key     resources.Key
	unnamed bool // the store assigns the ID

	result state.Entry // of a put, once applied
}

// prepare rejects ops that are invalid regardless of the contents of the store.
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

// before checks the revision and returns the content that the change replaces, nil if none exists.
func (c *change) before(bucket *bbolt.Bucket) ([]byte, error) {
	var revision state.Revision
	var content []byte
	if value := bucket.Get([]byte(c.key.ID)); value != nil {
		var err error
		if revision, content, err = verifyChecksum([]byte(c.key.Kind), []byte(c.key.ID), value); err != nil {
			return nil, err
		}
	}
	switch {
	case c.op.Force || revision == c.op.Revision:
		return content, nil
	case revision == 0:
		return nil, fmt.Errorf("%s no longer exists, it was at revision %d: %w", c.key, c.op.Revision, state.ErrConflict)
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
	if sighting, ok := record.(*resources.Sighting); ok && h.Role == RoleState { // in the other roles, another store assigns the IDs
		record = h.noteSighting(sighting)
	}
	content, err := json.Marshal(record)
	if err != nil {
		return state.Invalidf("%s: %v", c.key, err)
	}
	if err := c.checkMove(old, record); err != nil {
		return err
	}
	if content, err = preserveUnknownFields(old, content, record); err != nil {
		return err
	}
	if len(content) > maxRecord {
		return state.Invalidf("%s is %d bytes long, at most %d are allowed", c.key, len(content), maxRecord)
	}
	stored, err := decode(c.key.Kind, []byte(c.key.ID), content)
	if err != nil {
		return state.Invalidf("%s would read back differently: %v", c.key, err)
	}
	c.result = state.Entry{Record: stored, Revision: revision}
	return bucket.Put([]byte(c.key.ID), addChecksum([]byte(c.key.Kind), []byte(c.key.ID), revision, content))
}

// checkMove rejects a change of state that resources.LegalTransition forbids.
func (c *change) checkMove(old []byte, record resources.Record) error {
	var from struct{ State resources.State }
	if old != nil {
		if err := json.Unmarshal(old, &from); err != nil {
			return damage("%s: %v", c.key, err)
		}
	}
	if to := resources.StateOf(record); !resources.LegalTransition(c.key.Kind, from.State, to) {
		return state.Invalidf("%s may not go from state %q to %q: this is a bug in npctl", c.key, from.State, to)
	}
	return nil
}
