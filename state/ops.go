package state

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/npctl/npctl/resources"
)

const maxID = 1024 // bytes

// InvalidError is a mistake of the caller. The store is intact, and a retry fails the same way.
type InvalidError string

func (r InvalidError) Error() string { return string(r) }

// Invalidf returns an InvalidError.
func Invalidf(format string, args ...any) error { return InvalidError(fmt.Sprintf(format, args...)) }

// CheckedOp is a valid op.
type CheckedOp struct {
	Op
	Subject resources.Key // the key of the record that it changes
	Unnamed bool          // the store assigns the ID
}

// Check rejects ops that are invalid regardless of the contents of the store. Every Commit starts with it.
func Check(ops []Op) ([]CheckedOp, error) {
	seen := make(map[resources.Key]bool, len(ops))
	checked := make([]CheckedOp, len(ops))
	for i, op := range ops {
		c := CheckedOp{Op: op, Subject: op.Key}
		if op.Record != nil {
			if reflect.ValueOf(op.Record).IsNil() {
				return nil, Invalidf("op %d: a nil %T cannot be written", i, op.Record)
			}
			c.Subject = op.Record.Key()
			c.Unnamed = c.Subject.ID == "" && resources.IsStoreNumbered(c.Subject.Kind)
		}
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("op %d: %w", i, err)
		}
		if seen[c.Subject] && !c.Unnamed {
			return nil, Invalidf("op %d: a second change of %s", i, c.Subject)
		}
		seen[c.Subject] = true
		checked[i] = c
	}
	return checked, nil
}

// CheckRevision returns ErrConflict unless the record is at the revision that the op expects. now is the revision of the
// record, zero if there is none.
func (c *CheckedOp) CheckRevision(now Revision) error {
	switch {
	case c.Force || now == c.Revision || c.Unnamed:
		return nil
	case now == 0:
		return fmt.Errorf("%s no longer exists, it was at revision %d: %w", c.Subject, c.Revision, ErrConflict)
	case c.Revision == 0:
		return fmt.Errorf("%s exists, at revision %d: %w", c.Subject, now, ErrConflict)
	default:
		return fmt.Errorf("%s is at revision %d, not %d: %w", c.Subject, now, c.Revision, ErrConflict)
	}
}

// CheckKinds rejects kinds that no record has.
func CheckKinds(kinds []resources.Kind) error {
	for _, kind := range kinds {
		if resources.NewRecord(kind) == nil {
			return Invalidf("list records: there is no kind of record called %q", kind)
		}
	}
	return nil
}

func (c *CheckedOp) check() error {
	empty := resources.NewRecord(c.Subject.Kind)
	switch {
	case empty == nil:
		return Invalidf("there is no kind of record called %q", c.Subject.Kind)
	case c.Record != nil && reflect.TypeOf(empty) != reflect.TypeOf(c.Record):
		return Invalidf("a %T is not a %s", c.Record, c.Subject.Kind)
	case c.Record != nil && c.Key != (resources.Key{}) && c.Key != c.Subject:
		return Invalidf("the key is %s but the record has the key %s", c.Key, c.Subject)
	case (c.Claim || c.Release) && c.Subject.Kind != resources.KindNode && c.Subject.Kind != resources.KindRequest:
		return Invalidf("a %s is not claimed or released by a commit", c.Subject.Kind)
	case c.Claim && (c.Record == nil || c.Release || c.Force || c.Revision == 0):
		return Invalidf("%s: a commit can claim only an existing record that it keeps, at a known revision", c.Subject)
	case c.Unnamed && c.Revision != 0:
		return Invalidf("a %s without an id cannot be at revision %d", c.Subject.Kind, c.Revision)
	case c.Unnamed:
		return nil
	case c.Subject.ID == "":
		return Invalidf("a %s without an id", c.Subject.Kind)
	case len(c.Subject.ID) > maxID || strings.ContainsRune(c.Subject.ID, 0) || !utf8.ValidString(c.Subject.ID):
		return Invalidf("%s has an id of %d bytes, at most %d of UTF-8 without NUL are allowed", c.Subject.Kind, len(c.Subject.ID), maxID)
	}
	return nil
}

// WithID returns a shallow copy of the record with the given ID.
func WithID(record resources.Record, id string) resources.Record {
	copied := reflect.New(reflect.TypeOf(record).Elem())
	copied.Elem().Set(reflect.ValueOf(record).Elem())
	named := copied.Interface().(resources.Record)
	resources.SetID(named, id)
	return named
}
