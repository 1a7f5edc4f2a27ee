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
		if c.Unnamed {
			resources.SetID(c.Record, c.Subject.ID)
		}
	}
	return entries
}

// change is an op of a commit in progress.
type change struct {
	state.CheckedOp
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
		changes[i] = &change{CheckedOp: c}
	}
	return changes, nil
}

func (c *change) apply(tx *bbolt.Tx, h *head) error {
	records, err := tx.CreateBucketIfNotExists(recordsBucket)
	if err != nil {
		return err
	}
	bucket, err := records.CreateBucketIfNotExists([]byte(c.Subject.Kind))
	if err != nil {
		return err
	}
	if c.Unnamed {
		c.Subject.ID = h.nextID(c.Subject.Kind, bucket)
	}
	old, err := c.before(bucket)
	if err != nil {
		return err
	}
	if c.Record == nil {
		if old != nil {
			h.Counts[c.Subject.Kind]--
		}
		return bucket.Delete([]byte(c.Subject.ID))
	}
	if old == nil {
		h.Counts[c.Subject.Kind]++
		h.noteID(c.Subject)
	}
	return c.put(h, bucket, old, state.Revision(h.Serial))
}

// before checks the revision and returns the content that the change replaces, nil if none exists.
func (c *change) before(bucket *bbolt.Bucket) ([]byte, error) {
	var revision state.Revision
	var content []byte
	if value := bucket.Get([]byte(c.Subject.ID)); value != nil {
		var err error
		if revision, content, err = verifyChecksum([]byte(c.Subject.Kind), []byte(c.Subject.ID), value); err != nil {
			return nil, err
		}
	}
	return content, c.CheckRevision(revision)
}

func (c *change) put(h *head, bucket *bbolt.Bucket, old []byte, revision state.Revision) error {
	record := c.Record
	if c.Unnamed {
		record = state.WithID(record, c.Subject.ID)
	}
	if sighting, ok := record.(*resources.Sighting); ok && h.Role == RoleState { // in the other roles, another store assigns the IDs
		record = h.noteSighting(sighting)
	}
	content, err := json.Marshal(record)
	if err != nil {
		return state.Invalidf("%s: %v", c.Subject, err)
	}
	if err := c.checkMove(old, record); err != nil {
		return err
	}
	if content, err = preserveUnknownFields(old, content, record); err != nil {
		return err
	}
	if len(content) > maxRecord {
		return state.Invalidf("%s is %d bytes long, at most %d are allowed", c.Subject, len(content), maxRecord)
	}
	stored, err := decode(c.Subject.Kind, []byte(c.Subject.ID), content)
	if err != nil {
		return state.Invalidf("%s would read back differently: %v", c.Subject, err)
	}
	c.result = state.Entry{Record: stored, Revision: revision}
	return bucket.Put([]byte(c.Subject.ID), addChecksum([]byte(c.Subject.Kind), []byte(c.Subject.ID), revision, content))
}

// checkMove rejects a change of state that resources.LegalTransition forbids.
func (c *change) checkMove(old []byte, record resources.Record) error {
	var from struct{ State resources.State }
	if old != nil {
		if err := json.Unmarshal(old, &from); err != nil {
			return damage("%s: %v", c.Subject, err)
		}
	}
	if to := resources.StateOf(record); !resources.LegalTransition(c.Subject.Kind, from.State, to) {
		return state.Invalidf("%s may not go from state %q to %q: this is a bug in npctl", c.Subject, from.State, to)
	}
	return nil
}
