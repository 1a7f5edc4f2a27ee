package bolt

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
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
