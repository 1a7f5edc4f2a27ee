package bolt

import (
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
)

// idDigits is the number of digits of an assigned ID, as in Nodepool.
const idDigits = 10

// nextID returns an ID that no record of the kind has ever had.
func (h *head) nextID(kind resources.Kind, bucket *bbolt.Bucket) string {
	for {
		h.Sequences[kind]++
		id := fmt.Sprintf("%0*d", idDigits, h.Sequences[kind])
		if bucket.Get([]byte(id)) == nil {
			return id
		}
	}
}

// noteID raises the sequence to an ID that another store or program assigned.
func (h *head) noteID(key resources.Key) {
	if !resources.IsStoreNumbered(key.Kind) || len(key.ID) != idDigits {
		return
	}
	if n, err := strconv.ParseUint(key.ID, 10, 64); err == nil {
		h.Sequences[key.Kind] = max(h.Sequences[key.Kind], n)
	}
}

// noteSighting raises the sequence to an ID found in a cloud, and returns the sighting. If the ID is greater than all
// IDs assigned by this file, the file is older than the cloud: it was restored from a backup. The returned copy then
// has NewerThanState set.
func (h *head) noteSighting(s *resources.Sighting) *resources.Sighting {
	given := h.Sequences[s.Record.Kind]
	h.noteID(s.Record)
	if h.Sequences[s.Record.Kind] == given {
		return s
	}
	c := *s
	c.NewerThanState = true
	return &c
}

// withID returns a shallow copy of the record with the given ID.
func withID(record resources.Record, id string) resources.Record {
	switch r := record.(type) {
	case *resources.Node:
		c := *r
		record = &c
	case *resources.Upload:
		c := *r
		record = &c
	case *resources.Request:
		c := *r
		record = &c
	case *resources.Journal:
		c := *r
		record = &c
	}
	resources.SetID(record, id)
	return record
}
