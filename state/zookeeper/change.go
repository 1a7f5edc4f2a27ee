package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const (
	// maxCommit limits the data of one commit, in bytes. ZooKeeper rejects packets of more than 1 MiB by closing the
	// connection, which would fail all other calls in progress.
	maxCommit = 1<<20 - 32<<10
)

// change is one operation of a commit to ZooKeeper or to the private store.
type change struct {
	state.CheckedOp
	// imported marks a record from another store or a renumbered upload, which may have any state.
	imported bool

	// The fields below apply to shared kinds and are recomputed in each attempt.
	at     string // path; the directory if ZooKeeper names the znode
	from   string // present path of a build or upload that the change renames, which moves it to another directory
	number bool   // ZooKeeper numbers the znode
	id     string // of a new upload, once assigned
	// counter writes the upload counter; the last new upload of a commit has it.
	counter *zk.SetDataRequest
	ref     znodeRef
	old     *znode
	data    []byte // of a put
	same    bool   // a put that changes nothing
	dir     string // lock directory in which the commit must hold or fence the lock; empty if it needs none
	fenced  bool   // the multi keeps others out of dir without a contender; see write.fence
	claims  bool   // the commit claims the record
	ends    *claim // the claim that the commit releases
	result  state.Entry
}

// key returns the key of the record, with the ID that npctl has assigned to a new upload.
func (c *change) key() resources.Key {
	return resources.Key{Kind: c.Subject.Kind, ID: cmp.Or(c.Subject.ID, c.id)}
}

// prepare rejects operations that are invalid whatever the store contains.
func prepare(ops []state.Op) ([]*change, error) {
	checked, err := state.Check(ops)
	if err != nil {
		return nil, err
	}
	changes := make([]*change, len(checked))
	for i, c := range checked {
		changes[i] = &change{CheckedOp: c}
		if c.Record == nil || !shared(c.Subject.Kind) {
			continue
		}
		if err := changes[i].validateShared(); err != nil {
			return nil, fmt.Errorf("op %d: %w", i, err)
		}
	}
	return changes, nil
}

// validateShared rejects a record that has no valid path or document in ZooKeeper.
func (c *change) validateShared() error {
	switch r := c.Record.(type) {
	case *resources.Request:
		return checkRequest(r)
	case *resources.Node:
		if r.ID != "" && !sequence.MatchString(r.ID) {
			return state.Invalidf("node id %q: it must have ten digits", r.ID)
		}
	case *resources.Build:
		if parsePath(buildPath(r.Image, r.ID)).id != r.ID {
			return state.Invalidf("build id %q of image %q: it must have 32 hexadecimal digits", r.ID, r.Image)
		}
		return checkNames(r.Image, buildName(r.ID))
	case *resources.Upload:
		c.imported = r.ID == "" && len(r.Former) > 0
		return checkUpload(r)
	}
	return nil
}

func checkUpload(u *resources.Upload) error {
	if err := checkNames(u.Image, buildName(u.Build), u.Provider); err != nil || u.ID == "" || sequence.MatchString(u.ID) {
		return err
	}
	if at, ok := uploadPath(u.ID); !ok || parentOf(at) != uploadsDir(u.Image, u.Build, u.Provider) {
		return state.Invalidf("upload id %q: it must be %s/%s/%s/ and ten digits", u.ID, u.Image, buildName(u.Build), u.Provider)
	}
	return nil
}

// pathFor returns the path of the record. It ends with a slash if ZooKeeper is to name the znode in that directory.
func (c *change) pathFor() (at string, ok bool) {
	switch r := c.Record.(type) {
	case *resources.Request:
		return requestsDir + "/" + r.ID, true
	case *resources.Node:
		return nodesDir + "/" + r.ID, true
	case *resources.Build:
		return buildPath(r.Image, r.ID), true
	case *resources.Trial:
		return trialsDir + "/" + url.PathEscape(r.Upload), true // the ID of an upload of Nodepool is a path
	case *resources.Upload:
		dir := uploadsDir(r.Image, r.Build, r.Provider) + "/"
		if sequence.MatchString(r.ID) { // npctl's own; the znode is numbered in its directory
			return dir, true
		}
		return dir + nameOf("/"+r.ID), true
	}
	return "", false
}

// prefix returns the part of a new record's name that precedes its number.
func (c *change) prefix() string {
	if r, ok := c.Record.(*resources.Request); ok {
		return fmt.Sprintf("%03d-", r.Priority)
	}
	return ""
}

// locate looks up the path and the record of the change in the cache. mu is held.
func (c *change) locate(known *cache) {
	c.data, c.same, c.dir, c.fenced, c.claims, c.ends, c.number = nil, false, "", false, false, nil, false
	c.at, c.old = known.find(c.Subject)
	c.from = ""
	if c.Record != nil {
		switch to, _ := c.pathFor(); {
		case c.old == nil:
			c.at = to
		case c.leaves(to):
			c.from, c.at = c.at, to
		}
	}
	c.ref = parsePath(c.at)
	if c.number = strings.HasSuffix(c.at, "/"); c.number {
		c.ref = parsePath(c.at + c.prefix() + "0000000000")
	}
}

// leaves reports whether a change renames the image or the provider of a build or upload, which are parts of its path.
func (c *change) leaves(to string) bool {
	switch c.Subject.Kind {
	case resources.KindBuild:
		return to != c.at
	case resources.KindUpload:
		return parentOf(to) != parentOf(c.at)
	default:
		return false
	}
}

// present returns the path at which the record is before the change.
func (c *change) present() string { return cmp.Or(c.from, c.at) }

// revision returns the revision of the record, zero if there is none.
func (c *change) revision() state.Revision {
	if c.old == nil {
		return 0
	}
	return state.Revision(c.old.mzxid)
}

// checkMove rejects a state transition that resources.LegalTransition forbids. From a state that only other programs
// know, every transition is valid.
func (c *change) checkMove() error {
	if c.imported || c.Subject.Kind == resources.KindTrial { // a trial has no state
		return nil
	}
	var from resources.State
	if c.old != nil && c.old.record != nil {
		from = resources.StateOf(c.old.record)
	}
	to := resources.StateOf(c.Record)
	if from != "" && (from == to || !knownState(c.Subject.Kind, from)) || resources.LegalTransition(c.Subject.Kind, from, to) {
		return nil
	}
	return state.Invalidf("%s may not go from state %q to %q: this is a bug in npctl", c.Subject, from, to)
}

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
