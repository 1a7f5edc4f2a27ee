package bolt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// maxImport is the size of the largest document that is read, in bytes. Ten thousand nodes are about 10 MB.
const maxImport = 256 << 20

// Import replaces all records by those of a document that Export wrote. It refuses a document of another lineage, or
// one that is older than the state, unless force is set or the state was never written to; the state then becomes that
// installation's. It is all or nothing. The serial moves on from the greater of the two, and locks stay.
func (s *Store) Import(ctx context.Context, r io.Reader, force bool) error {
	doc, err := parseDocument(r, maxImport)
	if err != nil {
		return fmt.Errorf("import state: %w", err)
	}
	return s.importDocument(ctx, doc, force, func(*head) {})
}

// Take replaces all records by those of the document, whatever installation the state was of, and makes the file what to
// says. It is all or nothing.
func (s *Store) Take(ctx context.Context, doc *Document, to Turn) error {
	return s.importDocument(ctx, doc, true, func(h *head) { h.Role, h.Elsewhere = to.Role, to.Elsewhere })
}

func (s *Store) importDocument(ctx context.Context, doc *Document, force bool, also func(*head)) error {
	if err := refuseNewer(doc.Schema, s.schema(), doc.WrittenBy); err != nil {
		return fmt.Errorf("import state: %w", err)
	}
	at, err := s.update(ctx, func(tx *bbolt.Tx, h *head) error {
		if err := s.checkHeld(tx); err != nil {
			return err
		}
		if err := h.refuse(doc); err != nil && !force {
			return err
		}
		tx.OnCommit(func() { s.lineage = doc.Lineage })
		return s.replace(tx, h, doc, also)
	})
	if err != nil {
		return err
	}
	s.hint(at)
	return nil
}

// parseDocument reads and checks what can be checked without knowing the state.
func parseDocument(r io.Reader, limit int64) (*Document, error) {
	limited := &io.LimitedReader{R: r, N: limit + 1}
	doc := &Document{}
	decoder := json.NewDecoder(limited)
	err := decoder.Decode(doc)
	if err == nil {
		_, err = decoder.Token()
		if err == nil {
			err = errors.New("there is something behind the end of the document")
		} else if errors.Is(err, io.EOF) {
			err = nil
		}
	}
	switch {
	case limited.N <= 0:
		return nil, fmt.Errorf("the document is longer than %d MiB", limit>>20)
	case err != nil:
		return nil, fmt.Errorf("not a document of `npctl state pull`: %w", err)
	case doc.FormatVersion > exportFormat:
		return nil, fmt.Errorf("document of format %d, written by npctl %s; this npctl knows up to %d: upgrade npctl", doc.FormatVersion, doc.WrittenBy, exportFormat)
	case doc.FormatVersion < 1 || doc.Lineage == "":
		return nil, errors.New("not a document of `npctl state pull`: it has no format_version or no lineage")
	}
	return doc, nil
}

// refuse says why the document must not replace the state.
func (h *head) refuse(doc *Document) error {
	switch {
	case h.Serial == 0:
		return nil
	case doc.Lineage != h.Lineage:
		return state.Refuse("import state: the document is of another installation (lineage %s, here it is %s): "+
			"everything in the clouds that carries this installation's marks would be forgotten; use -force if that is meant", doc.Lineage, h.Lineage)
	case doc.Serial < h.Serial:
		return state.Refuse("import state: the document is older than the state (serial %d, here it is %d): "+
			"pull again and repeat the change, or use -force to lose what happened since", doc.Serial, h.Serial)
	}
	return nil
}

// replace makes the document the state.
func (s *Store) replace(tx *bbolt.Tx, h *head, doc *Document, also func(*head)) error {
	if err := tx.DeleteBucket(recordsBucket); err != nil {
		return err
	}
	h.Schema, h.Lineage, h.Serial = doc.Schema, doc.Lineage, max(h.Serial, doc.Serial)
	for kind, last := range doc.Sequences {
		h.Sequences[kind] = max(h.Sequences[kind], last)
	}
	clear(h.Counts)
	h.Move = doc.Move
	if doc.HashKey != "" {
		h.HashKey = []byte(doc.HashKey)
	}
	s.nextHead(h)
	also(h)
	if err := restore(tx, h, doc); err != nil {
		return err
	}
	if err := s.step(tx, h); err != nil {
		return err
	}
	if err := checkRecords(tx); err != nil {
		return err
	}
	return h.save(tx)
}

// restore writes the document's records as they are, in whatever schema it has.
func restore(tx *bbolt.Tx, h *head, doc *Document) error {
	records, err := tx.CreateBucket(recordsBucket)
	if err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(doc.Records)) {
		bucket, err := records.CreateBucket([]byte(kind))
		if err != nil {
			return state.Refuse("import state: the kind %q cannot be stored: %v", kind, err)
		}
		bucket.FillPercent = 0.9 // written in order once
		byID := doc.Records[kind]
		for _, id := range slices.Sorted(maps.Keys(byID)) {
			if err := fillOne(bucket, h, resources.Key{Kind: kind, ID: id}, byID[id]); err != nil {
				return err
			}
		}
	}
	return nil
}

func fillOne(bucket *bbolt.Bucket, h *head, key resources.Key, raw json.RawMessage) error {
	if resources.NewRecord(key.Kind) != nil {
		if _, err := state.Check([]state.Op{{Key: key}}); err != nil {
			return state.Refuse("import state: %v", err)
		}
	}
	content, err := compact(raw)
	if err != nil || len(content) > maxRecord {
		return state.Refuse("import state: %s is no JSON object of at most %d bytes", key, maxRecord)
	}
	h.Counts[key.Kind]++
	h.noteID(key)
	return bucket.Put([]byte(key.ID), seal([]byte(key.Kind), []byte(key.ID), state.Revision(h.Serial), content))
}

// checkRecords makes sure that this npctl can read every record of a kind that it knows.
func checkRecords(tx *bbolt.Tx) error {
	for _, kind := range resources.Kinds() {
		bucket := kindBucket(tx, kind)
		if bucket == nil {
			continue
		}
		for _, v := range collect(nil, []byte(kind), bucket) {
			if _, err := v.entry(); err != nil {
				return state.Refuse("import state: %v", err)
			}
		}
	}
	return nil
}
