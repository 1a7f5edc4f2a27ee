package zookeeper

import (
	"errors"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Changes implements state.Shared. It returns changes of the records in ZooKeeper, and the records of images with a
// changed pause flag. No other process changes the other records of the private store.
func (s *Store) Changes() (changed []state.Entry, gone []resources.Key) {
	s.mu.Lock()
	news := s.cache.changedRecords
	s.cache.changedRecords = map[resources.Key]struct{}{}
	var images []resources.Key
	for key := range news {
		if key.Kind == resources.KindImage {
			images = append(images, key)
		} else if _, z := s.cache.find(key); z != nil {
			changed = append(changed, state.Entry{Record: z.record, Revision: state.Revision(z.mzxid)})
		} else {
			gone = append(gone, key)
		}
	}
	s.mu.Unlock()
	for i := range changed {
		changed[i].Record = s.outgoing(changed[i].Record)
	}
	for _, key := range images {
		entry, err := s.Get(s.ctx, key)
		switch {
		case err == nil:
			changed = append(changed, entry)
		case errors.Is(err, state.ErrNotFound):
			gone = append(gone, key)
		default:
			s.log.Debug("cannot read the record of an image", "image", key.ID, "error", err)
		}
	}
	return changed, gone
}
