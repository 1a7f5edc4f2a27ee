package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
)

// numberUploads assigns npctl's IDs to new uploads: ten digits, unique in the whole state, as in every other store, so
// that records can move between stores while images in clouds carry the IDs. The commit writes the counter together
// with the uploads.
func (s *Store) numberUploads(ctx context.Context, changes []*change) error {
	var fresh []*change
	for _, c := range changes {
		if c.counter = nil; c.number && c.key.Kind == resources.KindUpload {
			fresh = append(fresh, c)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	last, version, err := s.lastUpload(ctx)
	if err != nil {
		return err
	}
	highest := last
	for _, c := range fresh {
		if c.unnamed {
			highest = s.nextUpload(highest)
			c.id = fmt.Sprintf("%010d", highest)
		} else if n, err := strconv.ParseUint(c.key.ID, 10, 64); err == nil {
			highest = max(highest, n)
		}
	}
	if highest != last {
		fresh[len(fresh)-1].counter = &zk.SetDataRequest{Path: s.serverPath(uploadsAt), Data: strconv.AppendUint(nil, highest, 10), Version: version}
	}
	return nil
}

// nextUpload returns the next number that no upload has.
func (s *Store) nextUpload(last uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		last++
		if s.cache.records[resources.KindUpload][fmt.Sprintf("%010d", last)] == "" {
			return last
		}
	}
}

func (s *Store) lastUpload(ctx context.Context) (last uint64, version int32, err error) {
	data, stat, err := s.get(ctx, uploadsAt)
	if errors.Is(err, zk.ErrNoNode) {
		return 0, 0, fmt.Errorf("%s, which npctl created, no longer exists; restart npctl: %w", s.serverPath(uploadsAt), err)
	}
	if err != nil {
		return 0, 0, err
	}
	if len(data) > 0 {
		if last, err = strconv.ParseUint(string(data), 10, 64); err != nil {
			return 0, 0, fmt.Errorf("%s does not contain a number: %w", s.serverPath(uploadsAt), err)
		}
	}
	return last, stat.Version, nil
}
