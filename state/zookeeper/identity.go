package zookeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// ownSchema is the schema version of npctl's own znodes.
const ownSchema = 1

// head is the content of npctl's own znode.
type head struct {
	Schema    int    `json:"schema"`
	WrittenBy string `json:"written_by"`
	Lineage   string `json:"lineage"`
	Importing bool   `json:"arriving,omitempty"` // an import is in progress, so that records may be missing
	ExportID  string `json:"leaving,omitempty"`  // ID of the export in progress
}

// ErrImporting is returned while an import is in progress and records may be missing.
var ErrImporting = errors.New("an import is in progress, so records may be missing")

// LineageError is returned when ZooKeeper has a state of another lineage than expected, or none.
type LineageError struct {
	Where      string
	Want, Have string // Have is empty when there is none
}

func (e *LineageError) Error() string {
	if e.Have == "" {
		return fmt.Sprintf("there is no npctl state in ZooKeeper at %s, and lineage %s is expected", e.Where, e.Want)
	}
	return fmt.Sprintf("the state in ZooKeeper at %s belongs to another installation: its lineage is %s, and %s is expected", e.Where, e.Have, e.Want)
}

// initialize creates npctl's own znodes and reads the lineage. The first process chooses the lineage.
func (s *Store) initialize(ctx context.Context) error {
	h, version, err := s.readHead(ctx)
	if err != nil {
		return err
	}
	if h == nil && s.opts.Lineage != "" && !s.opts.Importing {
		return &LineageError{Where: s.opts.String(), Want: s.opts.Lineage}
	}
	if h == nil && s.opts.ReadOnly {
		return nil
	}
	if !s.opts.ReadOnly {
		if err := s.ensureOwn(ctx); err != nil {
			return err
		}
		if h, version, err = s.readHead(ctx); err != nil {
			return err
		}
	}
	if s.opts.Importing {
		return s.beginImport(ctx, h, version)
	}
	return s.accept(h)
}

// accept rejects a state of another lineage and a state with an import in progress.
func (s *Store) accept(h *head) error {
	switch {
	case h == nil:
		return fmt.Errorf("%s was removed while npctl started", s.serverPath(ownDir))
	case s.opts.Lineage != "" && h.Lineage != s.opts.Lineage:
		return &LineageError{Where: s.opts.String(), Want: s.opts.Lineage, Have: h.Lineage}
	case h.Importing:
		return fmt.Errorf("%s: %w", s.opts.String(), ErrImporting)
	}
	s.lineage = h.Lineage
	return nil
}

// ensureOwn creates the missing znodes of npctl.
func (s *Store) ensureOwn(ctx context.Context) error {
	lineage := s.opts.Lineage
	if lineage == "" {
		lineage = uuid.NewString()
	}
	data := asJSON(head{Schema: ownSchema, WrittenBy: s.opts.Version, Lineage: lineage, Importing: s.opts.Importing})
	key := s.opts.HashKey
	if key == "" {
		key = resources.NewHashKey()
	}
	for _, own := range []struct {
		path string
		data []byte
	}{{ownDir, data}, {serialAt, nil}, {uploadsAt, nil}, {namedDir, nil}, {keyAt, []byte(key)}} {
		if err := s.ensure(ctx, own.path, own.data); err != nil {
			return err
		}
	}
	return nil
}

// readHead returns nil if npctl has never written here. It rejects the schema of a newer npctl.
func (s *Store) readHead(ctx context.Context) (h *head, version int32, err error) {
	data, stat, err := s.get(ctx, ownDir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	h = &head{}
	if err := json.Unmarshal(data, h); err != nil || h.Lineage == "" {
		return nil, 0, fmt.Errorf("%s was not written by npctl: remove it if it is not needed, or use another chroot", s.serverPath(ownDir))
	}
	if h.Schema > ownSchema {
		return nil, 0, fmt.Errorf("%s has schema %d, written by npctl %s, and this npctl knows %d: upgrade npctl", s.serverPath(ownDir), h.Schema, h.WrittenBy, ownSchema)
	}
	return h, stat.Version, nil
}

// Identity implements state.Identified. The serial is the zxid of the newest commit by any npctl process; writes of
// other programs do not count.
func (s *Store) Identity(ctx context.Context) (state.Identity, error) {
	if err := s.usable(ctx); err != nil {
		return state.Identity{}, err
	}
	id := state.Identity{Lineage: s.lineage, Schema: ownSchema}
	key, _, err := s.get(ctx, keyAt)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return id, err
	}
	id.HashKey = resources.HashKey(key)
	_, stat, err := s.get(ctx, serialAt)
	if errors.Is(err, zk.ErrNoNode) && s.opts.ReadOnly {
		return id, nil
	}
	if err != nil {
		return state.Identity{}, err
	}
	id.Serial = uint64(stat.Mzxid)
	return id, nil
}
