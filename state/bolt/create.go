package bolt

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
)

// create makes the file complete under another name and links it to its own, so that nobody ever sees half of one and
// two processes that begin together end up with the same.
func (s *Store) create(ctx context.Context) error {
	dir := filepath.Dir(s.opts.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, "."+filepath.Base(s.opts.Path)+".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if err := temp.Close(); err != nil {
		return err
	}
	if err := s.fill(ctx, temp.Name()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), s.opts.Path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// fill writes an empty store of a new lineage.
func (s *Store) fill(ctx context.Context, path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: s.opts.Timeout, NoStatistics: true})
	if err != nil {
		return err
	}
	h := &head{Schema: s.schema(), WrittenBy: s.opts.Version, Lineage: uuid.NewString(), Role: s.opts.Role, HashKey: []byte(resources.NewHashKey()),
		Sequences: map[resources.Kind]uint64{}, Counts: map[resources.Kind]int{}}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{recordsBucket, locksBucket} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return errors.Join(ctx.Err(), h.save(tx))
	})
	return errors.Join(err, db.Close())
}

// syncDir makes a new name in the directory survive a loss of power.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
