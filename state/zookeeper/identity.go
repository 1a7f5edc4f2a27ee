package zookeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/npctl/npctl/state"
)

// schema is the version of what npctl itself keeps in ZooKeeper.
const schema = 1

// head is the content of npctl's own znode.
type head struct {
	Schema    int    `json:"schema"`
	WrittenBy string `json:"written_by"`
	Lineage   string `json:"lineage"`
}

// ensureOwn makes npctl's own znodes. The first process chooses the lineage of all.
func (s *Store) ensureOwn(ctx context.Context) error {
	data := asJSON(head{Schema: schema, WrittenBy: s.opts.Version, Lineage: uuid.NewString()})
	for _, own := range []struct {
		path string
		data []byte
	}{{ownDir, data}, {serialAt, nil}, {uploadsAt, nil}, {namedDir, nil}} {
		if err := s.ensure(ctx, own.path, own.data); err != nil {
			return err
		}
	}
	return nil
}

// readLineage refuses a tree that a newer npctl has made.
func (s *Store) readLineage(ctx context.Context) error {
	data, _, err := s.get(ctx, ownDir)
	if errors.Is(err, zk.ErrNoNode) && s.opts.ReadOnly {
		return nil
	}
	if err != nil {
		return err
	}
	var h head
	if err := json.Unmarshal(data, &h); err != nil || h.Lineage == "" {
		return fmt.Errorf("%s is not npctl's: remove it if nobody needs it, or use another chroot", s.at(ownDir))
	}
	if h.Schema > schema {
		return fmt.Errorf("%s has schema %d, written by npctl %s, and this npctl knows %d: upgrade npctl", s.at(ownDir), h.Schema, h.WrittenBy, schema)
	}
	s.lineage = h.Lineage
	return nil
}

// Identity implements state.Identified. The serial is the zxid of npctl's newest commit, by whichever process; what
// others write does not count.
func (s *Store) Identity(ctx context.Context) (state.Identity, error) {
	if err := s.usable(ctx); err != nil {
		return state.Identity{}, err
	}
	id := state.Identity{Lineage: s.lineage, Schema: schema}
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
