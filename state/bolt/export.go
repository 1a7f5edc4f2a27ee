package bolt

import (
	"bufio"
	"bytes"
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

// exportFormat is the version of the JSON document. It increases only when an older npctl would misread the document.
const exportFormat = 1

// Document is the document that `npctl state pull` prints. It contains the records as stored, including unknown fields,
// without revisions and locks.
type Document struct {
	FormatVersion int                                           `json:"format_version"`
	WrittenBy     string                                        `json:"written_by"`
	Lineage       string                                        `json:"lineage"`
	Serial        uint64                                        `json:"serial"`
	Schema        int                                           `json:"schema"`
	Sequences     map[resources.Kind]uint64                     `json:"sequences"`
	Records       map[resources.Kind]map[string]json.RawMessage `json:"records"` // by kind and ID
	// MigrationID is the ID of the migration that brings the records from another store. It is not printed.
	MigrationID string `json:"-"`
	// HashKey is set by such a migration only. A printed document has none, so a copy of the state gets its own key.
	HashKey resources.HashKey `json:"-"`
}

// Export writes the whole state, as of one moment, as a sorted JSON document. The same state gives the same bytes.
func (s *Store) Export(ctx context.Context, w io.Writer) error {
	var doc *Document
	err := s.view(ctx, func(tx *bbolt.Tx, h *head) (err error) {
		doc, err = readDocument(tx, h)
		return err
	})
	if err != nil {
		return err
	}
	if doc == nil {
		return fmt.Errorf("export state %s: the state does not exist yet", s.opts.Path)
	}
	if err := doc.Write(w); err != nil {
		return fmt.Errorf("export state %s: %w", s.opts.Path, err)
	}
	return nil
}

// NewDocument returns an empty document of the current format and schema.
func NewDocument(version string) *Document {
	return &Document{FormatVersion: exportFormat, WrittenBy: version, Schema: schemaVersion,
		Sequences: map[resources.Kind]uint64{}, Records: map[resources.Kind]map[string]json.RawMessage{}}
}

// Add adds a record to the document and raises the sequence of its kind to the record's ID.
func (d *Document) Add(record resources.Record) error {
	key := record.Key()
	content, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	if d.Records[key.Kind] == nil {
		d.Records[key.Kind] = map[string]json.RawMessage{}
	}
	d.Records[key.Kind][key.ID] = content
	h := head{Sequences: d.Sequences}
	h.noteID(key)
	return nil
}

// Write writes the document, sorted. The same records give the same bytes.
func (d *Document) Write(w io.Writer) error {
	buffered := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffered)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(d); err != nil {
		return err
	}
	return buffered.Flush()
}

func readDocument(tx *bbolt.Tx, h *head) (*Document, error) {
	doc := &Document{FormatVersion: exportFormat, WrittenBy: h.WrittenBy, Lineage: h.Lineage, Serial: h.Serial,
		Schema: h.Schema, Sequences: h.Sequences, Records: map[resources.Kind]map[string]json.RawMessage{}}
	records := tx.Bucket(recordsBucket)
	if records == nil {
		return nil, damage("its records are missing")
	}
	err := records.ForEachBucket(func(name []byte) error {
		kind := resources.Kind(name)
		values := collect(nil, name, records.Bucket(name))
		if err := h.checkCount(kind, len(values)); err != nil {
			return err
		}
		byID, err := contents(values)
		if len(byID) > 0 {
			doc.Records[kind] = byID
		}
		return err
	})
	return doc, err
}

func contents(values []rawRecord) (map[string]json.RawMessage, error) {
	byID := make(map[string]json.RawMessage, len(values))
	for _, v := range values {
		_, content, err := v.open()
		if err != nil {
			return nil, err
		}
		byID[string(v.id)] = slices.Clone(content)
	}
	return byID, nil
}

// compact removes the whitespace from a JSON object. It returns an error for other values.
func compact(raw json.RawMessage) ([]byte, error) {
	var text bytes.Buffer
	if err := json.Compact(&text, raw); err != nil {
		return nil, err
	}
	if text.Len() == 0 || text.Bytes()[0] != '{' {
		return nil, errors.New("not an object")
	}
	return text.Bytes(), nil
}

// maxImport is the maximum size of a document in bytes. Ten thousand nodes take about 10 MB.
const maxImport = 256 << 20

// Import replaces all records with those of a document from Export, or changes nothing. It rejects a document of
// another lineage, or one older than the state, unless force is set or the state has no commits. The state takes the
// lineage of the document. The serial continues from the greater of the two, and locks stay.
func (s *Store) Import(ctx context.Context, r io.Reader, force bool) error {
	doc, err := parseDocument(r, maxImport)
	if err != nil {
		return fmt.Errorf("import state: %w", err)
	}
	return s.importDocument(ctx, doc, force, func(*head) {})
}

// ReplaceAll replaces all records with those of the document, whatever the lineage of the state, and sets the role and
// location of the file. It changes all or nothing.
func (s *Store) ReplaceAll(ctx context.Context, doc *Document, to RoleChange) error {
	return s.importDocument(ctx, doc, true, func(h *head) { h.Role, h.Location = to.Role, to.Location })
}

func (s *Store) importDocument(ctx context.Context, doc *Document, force bool, also func(*head)) error {
	if err := checkSchema(doc.Schema, doc.WrittenBy); err != nil {
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

// parseDocument decodes a document and runs the checks that need no state.
func parseDocument(r io.Reader, limit int64) (*Document, error) {
	limited := &io.LimitedReader{R: r, N: limit + 1}
	doc := &Document{}
	decoder := json.NewDecoder(limited)
	err := decoder.Decode(doc)
	if err == nil {
		_, err = decoder.Token()
		if err == nil {
			err = errors.New("unexpected data after the end of the document")
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

// refuse returns an error if the document must not replace the state without force.
func (h *head) refuse(doc *Document) error {
	switch {
	case h.Serial == 0:
		return nil
	case doc.Lineage != h.Lineage:
		return state.Invalidf("import state: the document belongs to another installation (lineage %s, here it is %s): "+
			"npctl would lose track of the resources in the clouds that have this installation's tags; use -force to import it anyway", doc.Lineage, h.Lineage)
	case doc.Serial < h.Serial:
		return state.Invalidf("import state: the document is older than the state (serial %d, here it is %d): "+
			"pull again and repeat the change, or use -force to discard the changes since then", doc.Serial, h.Serial)
	}
	return nil
}

// replace replaces the state with the document.
func (s *Store) replace(tx *bbolt.Tx, h *head, doc *Document, also func(*head)) error {
	if err := tx.DeleteBucket(recordsBucket); err != nil {
		return err
	}
	h.Schema, h.Lineage, h.Serial = doc.Schema, doc.Lineage, max(h.Serial, doc.Serial)
	for kind, last := range doc.Sequences {
		h.Sequences[kind] = max(h.Sequences[kind], last)
	}
	clear(h.Counts)
	h.MigrationID = doc.MigrationID
	if doc.HashKey != "" {
		h.HashKey = []byte(doc.HashKey)
	}
	s.nextHead(h)
	also(h)
	if err := restore(tx, h, doc); err != nil {
		return err
	}
	if err := checkRecords(tx); err != nil {
		return err
	}
	return h.save(tx)
}

// restore writes the records of the document unchanged.
func restore(tx *bbolt.Tx, h *head, doc *Document) error {
	records, err := tx.CreateBucket(recordsBucket)
	if err != nil {
		return err
	}
	for _, kind := range slices.Sorted(maps.Keys(doc.Records)) {
		bucket, err := records.CreateBucket([]byte(kind))
		if err != nil {
			return state.Invalidf("import state: the kind %q cannot be stored: %v", kind, err)
		}
		bucket.FillPercent = 0.9 // the records are written once and in order
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
			return state.Invalidf("import state: %v", err)
		}
	}
	content, err := compact(raw)
	if err != nil || len(content) > maxRecord {
		return state.Invalidf("import state: %s is not a JSON object of at most %d bytes", key, maxRecord)
	}
	h.Counts[key.Kind]++
	h.noteID(key)
	return bucket.Put([]byte(key.ID), addChecksum([]byte(key.Kind), []byte(key.ID), state.Revision(h.Serial), content))
}

// checkRecords checks that this npctl can decode all records of the kinds that it knows.
func checkRecords(tx *bbolt.Tx) error {
	for _, kind := range resources.Kinds() {
		bucket := kindBucket(tx, kind)
		if bucket == nil {
			continue
		}
		for _, v := range collect(nil, []byte(kind), bucket) {
			if _, err := v.entry(); err != nil {
				return state.Invalidf("import state: %v", err)
			}
		}
	}
	return nil
}
