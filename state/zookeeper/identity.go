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

// ownSchema is the version of what npctl itself keeps in ZooKeeper.
const ownSchema = 1

// head is the content of npctl's own znode.
type head struct {
	Schema    int    `json:"schema"`
	WrittenBy string `json:"written_by"`
	Lineage   string `json:"lineage"`
	Arriving  bool   `json:"arriving,omitempty"` // records are being brought here, and not all of them are
	Leaving   string `json:"leaving,omitempty"`  // the move by which some are taken away
}

// ErrArriving: a state is on its way to this place, and only a part of it is there.
var ErrArriving = errors.New("a state is being moved here, and not all of it is here yet")

// LineageError says that the state in ZooKeeper is not the one that was looked for.
type LineageError struct {
	Where      string
	Want, Have string // Have is empty when there is none
}

func (e *LineageError) Error() string {
	if e.Have == "" {
		return fmt.Sprintf("there is no state of npctl in ZooKeeper at %s, and there was one with lineage %s", e.Where, e.Want)
	}
	return fmt.Sprintf("the state in ZooKeeper at %s is of another installation: its lineage is %s, here it is %s", e.Where, e.Have, e.Want)
}

// found makes npctl's own znodes and learns the lineage. The first process chooses that of all.
func (s *Store) found(ctx context.Context) error {
	h, version, err := s.readHead(ctx)
	if err != nil {
		return err
	}
	if h == nil && s.opts.Lineage != "" && !s.opts.Arriving {
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
	if s.opts.Arriving {
		return s.arrive(ctx, h, version)
	}
	return s.accept(h)
}

// accept refuses a state that is another's, or not all there.
func (s *Store) accept(h *head) error {
	switch {
	case h == nil:
		return fmt.Errorf("%s was removed while npctl started", s.at(ownDir))
	case s.opts.Lineage != "" && h.Lineage != s.opts.Lineage:
		return &LineageError{Where: s.opts.String(), Want: s.opts.Lineage, Have: h.Lineage}
	case h.Arriving:
		return fmt.Errorf("%s: %w", s.opts.String(), ErrArriving)
	}
	s.lineage = h.Lineage
	return nil
}

// ensureOwn makes npctl's own znodes, but for those that are there.
func (s *Store) ensureOwn(ctx context.Context) error {
	lineage := s.opts.Lineage
	if lineage == "" {
		lineage = uuid.NewString()
	}
	data := asJSON(head{Schema: ownSchema, WrittenBy: s.opts.Version, Lineage: lineage, Arriving: s.opts.Arriving})
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

// readHead returns nil where npctl has never been, and refuses what a newer npctl has made.
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
		return nil, 0, fmt.Errorf("%s is not npctl's: remove it if nobody needs it, or use another chroot", s.at(ownDir))
	}
	if h.Schema > ownSchema {
		return nil, 0, fmt.Errorf("%s has schema %d, written by npctl %s, and this npctl knows %d: upgrade npctl", s.at(ownDir), h.Schema, h.WrittenBy, ownSchema)
	}
	return h, stat.Version, nil
}

// Identity implements state.Identified. The serial is the zxid of npctl's newest commit, by whichever process; what
// others write does not count.
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
