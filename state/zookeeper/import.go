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

// beginImport marks the state as importing. It replaces a state of another lineage only if npctl has never committed to
// that state.
func (s *Store) beginImport(ctx context.Context, h *head, version int32) error {
	if h == nil {
		return fmt.Errorf("%s was removed while npctl started", s.serverPath(ownDir))
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
	if h.Lineage == s.opts.Lineage && h.Importing {
		return nil
	}
	h.Lineage, h.Importing, h.WrittenBy = s.opts.Lineage, true, s.opts.Version
	return s.writeHead(ctx, h, version)
}

func (s *Store) writeHead(ctx context.Context, h *head, version int32) error {
	_, _, err := s.multi(ctx, "write "+s.serverPath(ownDir), []any{&zk.SetDataRequest{Path: s.serverPath(ownDir), Data: asJSON(h), Version: version}})
	if errors.Is(err, zk.ErrBadVersion) {
		return fmt.Errorf("%s has changed: %w", s.serverPath(ownDir), state.ErrConflict)
	}
	return err
}

// EndImport declares the import complete, which lets other processes open the state.
func (s *Store) EndImport(ctx context.Context) error {
	if s.opts.ReadOnly {
		return errReadOnly
	}
	h, version, err := s.readHead(ctx)
	if err != nil || h == nil || !h.Importing {
		return err
	}
	h.Importing = false
	return s.writeHead(ctx, h, version)
}

// BeginExport starts an export and returns its ID. The ID stays the same until EndExport, so that a process can
// distinguish an interrupted export from another one.
func (s *Store) BeginExport(ctx context.Context) (id string, err error) {
	if s.opts.ReadOnly {
		return "", errReadOnly
	}
	h, version, err := s.readHead(ctx)
	switch {
	case err != nil:
		return "", err
	case h == nil:
		return "", fmt.Errorf("%s was removed while npctl ran", s.serverPath(ownDir))
	case h.ExportID != "":
		return h.ExportID, nil
	}
	h.ExportID = uuid.NewString()
	return h.ExportID, s.writeHead(ctx, h, version)
}

// EndExport ends an export that BeginExport started.
func (s *Store) EndExport(ctx context.Context) error {
	if s.opts.ReadOnly {
		return errReadOnly
	}
	h, version, err := s.readHead(ctx)
	if err != nil || h == nil || h.ExportID == "" {
		return err
	}
	h.ExportID = ""
	return s.writeHead(ctx, h, version)
}

// Import stores nodes, builds and uploads of another store, in any state, and replaces records with the same keys. It
// makes all changes or none.
func (s *Store) Import(ctx context.Context, records ...resources.Record) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	ops := make([]state.Op, len(records))
	for i, r := range records {
		if kind := r.Key().Kind; !shared(kind) || kind == resources.KindRequest {
			return state.Invalidf("a %s cannot be imported from another store", kind)
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

// LastID returns the highest number that a node or an upload has, or can have had, in this state.
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
		return 0, state.Invalidf("a %s has no number", kind)
	}
}

// Reserve keeps numbers up to upTo from being assigned to nodes or uploads, because imported records or ownership tags
// in clouds use them.
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
		return state.Invalidf("a %s has no number", kind)
	}
}

func (s *Store) skipUploads(ctx context.Context, upTo uint64) error {
	last, version, err := s.lastUpload(ctx)
	if err != nil || last >= upTo {
		return err
	}
	_, _, err = s.multi(ctx, "number uploads", []any{&zk.SetDataRequest{Path: s.serverPath(uploadsAt), Data: strconv.AppendUint(nil, upTo, 10), Version: version}})
	if errors.Is(err, zk.ErrBadVersion) { // another process has created an upload
		return s.skipUploads(ctx, upTo)
	}
	return err
}

// skipAtOnce is the number of IDs that one multi skips. Its packet is far below ZooKeeper's limit.
const skipAtOnce = 2000

// mostSkipped is the maximum number of IDs to skip. It limits the duration to a few minutes.
const mostSkipped = 10_000_000

// skipNodes creates and deletes as many children as there are numbers to skip, because ZooKeeper derives numbers from
// all children ever created in a directory. No process sees them, since one multi creates and deletes each.
func (s *Store) skipNodes(ctx context.Context, upTo uint64) error {
	for {
		made, err := s.madeIn(ctx, nodesDir)
		if err != nil || made > upTo {
			return err
		}
		missing := upTo + 1 - made
		if missing > mostSkipped {
			return state.Invalidf("the next node number is %d here and %d in the other state: the difference is too large", made, upTo+1)
		}
		skip := nodesDir + "/npctl-skip"
		pair := []any{&zk.CreateRequest{Path: s.serverPath(skip), Acl: openACL}, &zk.DeleteRequest{Path: s.serverPath(skip), Version: -1}}
		if _, _, err := s.multi(ctx, "number nodes", slices.Repeat(pair, int(min(missing, skipAtOnce)))); err != nil {
			return err
		}
	}
}

// madeIn returns the number of children ever created in a directory. ZooKeeper does not report that number: Cversion
// counts both creations and deletions.
func (s *Store) madeIn(ctx context.Context, dir string) (uint64, error) {
	_, stat, err := s.get(ctx, dir)
	if err != nil {
		return 0, err
	}
	return (uint64(uint32(stat.Cversion)) + uint64(uint32(stat.NumChildren))) / 2, nil
}
