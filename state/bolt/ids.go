package bolt

import (
	"fmt"
	"strconv"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
)

// idDigits is how long an id that the store gives is, as in Nodepool.
const idDigits = 10

// nextID returns an id that no record of the kind ever had.
func (h *head) nextID(kind resources.Kind, bucket *bbolt.Bucket) string {
	for {
		h.Sequences[kind]++
		id := fmt.Sprintf("%0*d", idDigits, h.Sequences[kind])
		if bucket.Get([]byte(id)) == nil {
			return id
		}
	}
}

// noteID keeps the sequence ahead of ids that came from elsewhere.
func (h *head) noteID(key resources.Key) {
	if !resources.GivenID(key.Kind) || len(key.ID) != idDigits {
		return
	}
	if n, err := strconv.ParseUint(key.ID, 10, 64); err == nil {
		h.Sequences[key.Kind] = max(h.Sequences[key.Kind], n)
	}
}

// noteSighting keeps the sequence ahead of an id that a cloud shows, and returns the sighting. When the file has never given
// an id as high it is older than the cloud: it was restored from a backup.
func (h *head) noteSighting(s *resources.Sighting) *resources.Sighting {
	given := h.Sequences[s.Of.Kind]
	h.noteID(s.Of)
	if h.Sequences[s.Of.Kind] == given {
		return s
	}
	c := *s
	c.Ahead = true
	return &c
}

// withID returns a shallow copy of the record that has the id.
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
