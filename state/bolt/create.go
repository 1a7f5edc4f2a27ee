package bolt

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/resources"
)

// create writes a complete file under a temporary name and links it to its path. No process sees a partial file, and
// two processes that create it at the same time use the same one.
func (s *Store) create() error {
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
	if err := s.initialize(temp.Name()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), s.opts.Path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(dir)
}

// initialize writes an empty store with a new lineage.
func (s *Store) initialize(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: s.opts.Timeout, NoStatistics: true})
	if err != nil {
		return err
	}
	h := &head{Schema: schemaVersion, WrittenBy: s.opts.Version, Lineage: uuid.NewString(), Role: s.opts.Role, HashKey: []byte(resources.NewHashKey()),
		Sequences: map[resources.Kind]uint64{}, Counts: map[resources.Kind]int{}}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{recordsBucket, locksBucket} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return h.save(tx)
	})
	return errors.Join(err, db.Close())
}

// syncDir makes a new directory entry survive a power failure.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
