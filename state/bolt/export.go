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

// exportFormat is the version of the JSON document. It is raised only when an older npctl would misread it.
const exportFormat = 1

// Document is what `npctl state pull` prints. Records are as they lie in the file, with fields that this npctl does not
// know; revisions and locks are not part of it.
type Document struct {
	FormatVersion int                                           `json:"format_version"`
	WrittenBy     string                                        `json:"written_by"`
	Lineage       string                                        `json:"lineage"`
	Serial        uint64                                        `json:"serial"`
	Schema        int                                           `json:"schema"`
	Sequences     map[resources.Kind]uint64                     `json:"sequences"`
	Records       map[resources.Kind]map[string]json.RawMessage `json:"records"` // by kind and id
	// Move is the id of the move that brings the records from another store; it is not part of what is printed.
	Move string `json:"-"`
	// HashKey comes with such a move, too. A document that is printed has none: a copy of the state gets a key of its own.
	HashKey resources.HashKey `json:"-"`
}

// Export writes the whole state as one JSON document, as of one moment, sorted, the same bytes for the same state.
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
		return fmt.Errorf("export state %s: there is none yet", s.opts.Path)
	}
	if err := doc.Write(w); err != nil {
		return fmt.Errorf("export state %s: %w", s.opts.Path, err)
	}
	return nil
}

// NewDocument is an empty document, as this npctl writes it.
func NewDocument(version string) *Document {
	return &Document{FormatVersion: exportFormat, WrittenBy: version, Schema: firstSchema + len(migrations),
		Sequences: map[resources.Kind]uint64{}, Records: map[resources.Kind]map[string]json.RawMessage{}}
}

// Add puts a record into the document, and keeps the sequence of its kind ahead of it.
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

// Write prints the document, sorted, the same bytes for the same records.
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

func contents(values []sealed) (map[string]json.RawMessage, error) {
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

// compact takes the indentation out of an object.
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
