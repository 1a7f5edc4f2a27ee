package bolt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/renameio/v2"
	"go.etcd.io/bbolt"
)

// migration converts a file from one schema to the next. It may change all buckets except the head's, and the sequences
// and counts in h.
type migration func(tx *bbolt.Tx, h *head) error

// migrations lists the migrations from schema 1 to the current one: the first converts 1 to 2, and so on. A change of
// the format needs one if an older npctl would misread it. A new field of a record needs none, because both versions
// preserve unknown fields.
var migrations = []migration{}

const firstSchema = 1

// schema returns the newest schema that this store supports.
func (s *Store) schema() int { return firstSchema + len(s.migrations) }

func refuseNewer(schema, known int, writtenBy string) error {
	switch {
	case schema > known:
		return fmt.Errorf("state written by npctl %s, schema %d; this npctl knows up to %d: upgrade npctl: %w",
			writtenBy, schema, known, errNewer)
	case schema < firstSchema:
		return damage("there is no schema %d", schema)
	}
	return nil
}

// migrate migrates an old file in one transaction, after a backup.
func (s *Store) migrate(ctx context.Context) error {
	old := false
	err := s.file.view(ctx, func(tx *bbolt.Tx) error {
		h, err := s.readHead(tx)
		if err != nil {
			return err
		}
		if old = h.Schema < s.schema(); !old {
			return nil
		}
		return s.backUp(h.Schema)
	})
	if err == nil && old {
		_, err = s.file.update(ctx, s.upgrade)
	}
	return s.wrap("open", err)
}

// upgrade is the write transaction of migrate. It does nothing if another process has migrated the file first.
func (s *Store) upgrade(tx *bbolt.Tx) error {
	h, err := s.readHead(tx)
	if err != nil || h.Schema == s.schema() {
		return err
	}
	from := h.Schema
	if err := s.step(tx, h); err != nil {
		return err
	}
	s.log.Info("state migrated", "path", s.opts.Path, "from", from, "to", h.Schema)
	s.nextHead(h)
	return h.save(tx)
}

func (s *Store) step(tx *bbolt.Tx, h *head) error {
	for ; h.Schema < s.schema(); h.Schema++ {
		if err := s.migrations[h.Schema-firstSchema](tx, h); err != nil {
			return fmt.Errorf("migrate schema %d to %d: %w", h.Schema, h.Schema+1, err)
		}
	}
	return nil
}

// backUp copies the file to PATH.schema-N.backup. It runs within a transaction, which prevents writes.
func (s *Store) backUp(schema int) error {
	path := fmt.Sprintf("%s.schema-%d.backup", s.opts.Path, schema)
	if err := copyFile(path, s.opts.Path); err != nil {
		return fmt.Errorf("back up to %s: %w", path, err)
	}
	return nil
}

func copyFile(to, from string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := renameio.NewPendingFile(to, renameio.WithStaticPermissions(0o600))
	if err != nil {
		return err
	}
	defer func() { _ = target.Cleanup() }()
	if _, err := io.Copy(target, source); err != nil {
		return err
	}
	return target.CloseAtomicallyReplace()
}

var errRolledBack = errors.New("rolled back")

// viewMigrated runs fn on an old file as it would be after the migration, for a read-only store. It rolls the
// transaction back.
func (s *Store) viewMigrated(ctx context.Context, fn func(*bbolt.Tx, *head) error) error {
	_, err := s.file.update(ctx, func(tx *bbolt.Tx) error {
		h, err := s.readHead(tx)
		if err != nil {
			return err
		}
		if err := s.step(tx, h); err != nil {
			return err
		}
		if err := fn(tx, h); err != nil {
			return err
		}
		return errRolledBack
	})
	if errors.Is(err, errRolledBack) {
		return nil
	}
	if errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("its schema is old: run any command with write permission, such as `npctl state list`, to migrate it: %w", err)
	}
	return s.wrap("read", err)
}
