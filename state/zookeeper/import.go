package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// arrive makes the state one that is on its way here. One of another lineage gives way when npctl has never written a
// record under it.
func (s *Store) arrive(ctx context.Context, h *head, version int32) error {
	if h == nil {
		return fmt.Errorf("%s was removed while npctl started", s.at(ownDir))
	}
	if h.Lineage != s.opts.Lineage {
		_, stat, err := s.get(ctx, serialAt)
		if err != nil {
			return err
		}
		if stat.Version > 0 {
			return &LineageError{Where: s.opts.String(), Want: s.opts.Lineage, Have: h.Lineage}
		}
	}
	s.lineage = s.opts.Lineage
	if h.Lineage == s.opts.Lineage && h.Arriving {
		return nil
	}
	h.Lineage, h.Arriving, h.WrittenBy = s.opts.Lineage, true, s.opts.Version
	return s.writeHead(ctx, h, version)
}

func (s *Store) writeHead(ctx context.Context, h *head, version int32) error {
	_, _, err := s.multi(ctx, "write "+s.at(ownDir), []any{&zk.SetDataRequest{Path: s.at(ownDir), Data: asJSON(h), Version: version}})
	if errors.Is(err, zk.ErrBadVersion) {
		return fmt.Errorf("%s has changed meanwhile: %w", s.at(ownDir), state.ErrConflict)
	}
	return err
}

// Arrived lets everybody in: all records are here.
func (s *Store) Arrived(ctx context.Context) error {
	if s.opts.ReadOnly {
		return errReadOnly
	}
	h, version, err := s.readHead(ctx)
	if err != nil || h == nil || !h.Arriving {
		return err
	}
	h.Arriving = false
	return s.writeHead(ctx, h, version)
}

// Leave begins to take records away, and returns the id of the move: the same until Left, so that one that was cut short
// can be told from another.
func (s *Store) Leave(ctx context.Context) (id string, err error) {
	if s.opts.ReadOnly {
		return "", errReadOnly
	}
	h, version, err := s.readHead(ctx)
	switch {
	case err != nil:
		return "", err
	case h == nil:
		return "", fmt.Errorf("%s was removed while npctl ran", s.at(ownDir))
	case h.Leaving != "":
		return h.Leaving, nil
	}
	h.Leaving = uuid.NewString()
	return h.Leaving, s.writeHead(ctx, h, version)
}

// Left ends a move that Leave began.
func (s *Store) Left(ctx context.Context) error {
	if s.opts.ReadOnly {
		return errReadOnly
	}
	h, version, err := s.readHead(ctx)
	if err != nil || h == nil || h.Leaving == "" {
		return err
	}
	h.Leaving = ""
	return s.writeHead(ctx, h, version)
}

// Import puts records of another store here, of nodes, builds and uploads, in whatever state they are, instead of those
// with the same keys. It makes all changes or none.
func (s *Store) Import(ctx context.Context, records ...resources.Record) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	ops := make([]state.Op, len(records))
	for i, r := range records {
		if kind := r.Key().Kind; !shared(kind) || kind == resources.KindRequest {
			return state.Refuse("a %s cannot be brought from another store", kind)
		}
		ops[i] = state.Op{Record: r, Force: true}
	}
	if len(ops) == 0 {
		return nil
	}
	changes, err := prepare(ops)
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	for _, c := range changes {
		c.imported = true
	}
	if err := s.heldLocks(); err != nil {
		return err
	}
	if err := s.commit(ctx, changes); err != nil {
		return fmt.Errorf("import: %w", err)
	}
	return nil
}

// LastID is the last number that a node or an upload was given, or can have been given, here.
func (s *Store) LastID(ctx context.Context, kind resources.Kind) (uint64, error) {
	switch kind {
	case resources.KindNode:
		made, err := s.madeIn(ctx, nodesDir)
		if made > 0 {
			made-- // the first number is zero
		}
		return made, err
	case resources.KindUpload:
		last, _, err := s.lastUpload(ctx)
		return last, err
	default:
		return 0, state.Refuse("a %s has no number", kind)
	}
}

// Reserve lets no node or upload be given a number up to the one named: those that the records have, or that are in the
// marks of what is in clouds.
func (s *Store) Reserve(ctx context.Context, kind resources.Kind, upTo uint64) error {
	if s.opts.ReadOnly {
		return errReadOnly
	}
	switch kind {
	case resources.KindNode:
		return s.skipNodes(ctx, upTo)
	case resources.KindUpload:
		return s.skipUploads(ctx, upTo)
	default:
		return state.Refuse("a %s has no number", kind)
	}
}

func (s *Store) skipUploads(ctx context.Context, upTo uint64) error {
	last, version, err := s.lastUpload(ctx)
	if err != nil || last >= upTo {
		return err
	}
	_, _, err = s.multi(ctx, "number uploads", []any{&zk.SetDataRequest{Path: s.at(uploadsAt), Data: strconv.AppendUint(nil, upTo, 10), Version: version}})
	return err
}

// skipAtOnce is how many numbers are skipped with one multi. Its packet is far below what ZooKeeper takes.
const skipAtOnce = 2000

// mostSkipped bounds how long it may take: some minutes.
const mostSkipped = 10_000_000

// skipNodes makes and removes as many children as there are numbers to skip: ZooKeeper numbers by what was ever made in a
// directory. Nobody sees them, since each is made and removed in one multi.
func (s *Store) skipNodes(ctx context.Context, upTo uint64) error {
	for {
		made, err := s.madeIn(ctx, nodesDir)
		if err != nil || made > upTo {
			return err
		}
		missing := upTo + 1 - made
		if missing > mostSkipped {
			return state.Refuse("nodes are numbered from %d here and from %d there: the difference is too large", made, upTo+1)
		}
		skip := nodesDir + "/npctl-skip"
		pair := []any{&zk.CreateRequest{Path: s.at(skip), Acl: openACL}, &zk.DeleteRequest{Path: s.at(skip), Version: -1}}
		if _, _, err := s.multi(ctx, "number nodes", slices.Repeat(pair, int(min(missing, skipAtOnce)))); err != nil {
			return err
		}
	}
}

// madeIn is how many children a directory has ever had. ZooKeeper shows a number that counts both what was made and what
// was removed, and keeps the other.
func (s *Store) madeIn(ctx context.Context, dir string) (uint64, error) {
	_, stat, err := s.get(ctx, dir)
	if err != nil {
		return 0, err
	}
	return (uint64(uint32(stat.Cversion)) + uint64(uint32(stat.NumChildren))) / 2, nil
}
