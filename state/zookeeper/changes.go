package zookeeper

import (
	"errors"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Changes implements state.Shared. It returns changes of the records in ZooKeeper, and the records of images with a
// changed pause flag. No other process changes the other records of the private store.
func (s *Store) Changes() (changed []state.Entry, gone []resources.Key) {
	changed, gone, images := s.mirror.changes()
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

// changes returns the changes of shared records since its previous call, and the keys of the images whose pause flag
// has changed.
func (m *mirror) changes() (changed []state.Entry, gone, images []resources.Key) {
	m.mu.Lock()
	for key := range m.cache.takeChanges() {
		if key.Kind == resources.KindImage {
			images = append(images, key)
		} else if _, z := m.cache.find(key); z != nil {
			changed = append(changed, state.Entry{Record: z.record, Revision: state.Revision(z.mzxid)})
		} else {
			gone = append(gone, key)
		}
	}
	m.mu.Unlock()
	for i := range changed {
		changed[i].Record = m.outgoing(changed[i].Record)
	}
	return changed, gone, images
}
