package zookeeper

import (
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Changes implements state.Shared. It tells of what is in ZooKeeper; what is private to this process nobody else changes.
func (s *Store) Changes() (changed []state.Entry, gone []resources.Key) {
	s.mu.Lock()
	news := s.cache.news
	s.cache.news = map[resources.Key]struct{}{}
	for key := range news {
		if _, z := s.cache.find(key); z != nil {
			changed = append(changed, state.Entry{Record: z.record, Revision: state.Revision(z.mzxid)})
		} else {
			gone = append(gone, key)
		}
	}
	s.mu.Unlock()
	for i := range changed {
		changed[i].Record = s.given(changed[i].Record)
	}
	return changed, gone
}
