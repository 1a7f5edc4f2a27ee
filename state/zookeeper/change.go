package zookeeper

import (
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const (
	// maxCommit bounds the data of one commit. ZooKeeper refuses packets of 1 MiB by closing the connection, which would
	// end whatever else is under way on it.
	maxCommit = 1<<20 - 32<<10
)

// change is an op on its way into ZooKeeper or the private store.
type change struct {
	op      state.Op
	key     resources.Key
	unnamed bool // the store gives the id
	// imported: it comes from another store, in whatever state it is
	imported bool

	// of the shared kinds, found out again with each try
	at     string // path; of an unnamed one its directory
	number bool   // ZooKeeper numbers the znode
	id     string // of a new upload, once it is given
	// counter counts the uploads, with the last of a commit.
	counter *zk.SetDataRequest
	place   place
	old     *znode
	data    []byte // of a put
	same    bool   // a put that changes nothing
	dir     string // of the lock that guards it; empty: nothing to claim
	barred  bool   // nobody can be in that directory when the change is made, so that it needs no contender; see bar
	claims  bool   // the commit makes a claim
	ends    *claim // the commit ends it
	result  state.Entry
}

// prepare refuses ops that are wrong whatever the store holds.
func prepare(ops []state.Op) ([]*change, error) {
	checked, err := state.Check(ops)
	if err != nil {
		return nil, err
	}
	changes := make([]*change, len(checked))
	for i, c := range checked {
		changes[i] = &change{op: c.Op, key: c.Subject, unnamed: c.Unnamed}
		if c.Record == nil || !shared(c.Subject.Kind) {
			continue
		}
		if err := changes[i].validateShared(); err != nil {
			return nil, fmt.Errorf("op %d: %w", i, err)
		}
	}
	return changes, nil
}

// validateShared refuses what has no place in the tree.
func (c *change) validateShared() error {
	switch r := c.op.Record.(type) {
	case *resources.Request:
		return checkRequest(r)
	case *resources.Node:
		if r.ID != "" && !sequence.MatchString(r.ID) {
			return state.Refuse("node id %q: it must have ten digits", r.ID)
		}
	case *resources.Build:
		if placeOf(buildPath(r.Image, r.ID)).id != r.ID {
			return state.Refuse("build id %q of image %q: it must have 32 hexadecimal digits", r.ID, r.Image)
		}
		return checkNames(r.Image, buildName(r.ID))
	case *resources.Upload:
		return checkUpload(r)
	}
	return nil
}

func checkUpload(u *resources.Upload) error {
	if err := checkNames(u.Image, buildName(u.Build), u.Provider); err != nil || u.ID == "" || sequence.MatchString(u.ID) {
		return err
	}
	if at, ok := uploadPath(u.ID); !ok || parentOf(at) != uploadsDir(u.Image, u.Build, u.Provider) {
		return state.Refuse("upload id %q: it must be %s/%s/%s/ and ten digits", u.ID, u.Image, buildName(u.Build), u.Provider)
	}
	return nil
}

// pathFor is where a record goes; one without a name yet is given one in the directory.
func (c *change) pathFor() (at string, ok bool) {
	switch r := c.op.Record.(type) {
	case *resources.Request:
		return requestsDir + "/" + r.ID, true
	case *resources.Node:
		return nodesDir + "/" + r.ID, true
	case *resources.Build:
		return buildPath(r.Image, r.ID), true
	case *resources.Upload:
		dir := uploadsDir(r.Image, r.Build, r.Provider) + "/"
		if sequence.MatchString(r.ID) { // npctl's own; the znode is numbered in its directory
			return dir, true
		}
		return dir + nameOf("/"+r.ID), true
	}
	return "", false
}

// prefix is what the name of a new record begins with, before its number.
func (c *change) prefix() string {
	if r, ok := c.op.Record.(*resources.Request); ok {
		return fmt.Sprintf("%03d-", r.Priority)
	}
	return ""
}

// locate finds what the change is about. Store.mu is held.
func (c *change) locate(known *cache) {
	c.data, c.same, c.dir, c.barred, c.claims, c.ends, c.number = nil, false, "", false, false, nil, false
	c.at, c.old = known.find(c.key)
	if c.old == nil && c.op.Record != nil {
		c.at, _ = c.pathFor()
	}
	c.place = placeOf(c.at)
	if c.number = strings.HasSuffix(c.at, "/"); c.number {
		c.place = placeOf(c.at + c.prefix() + "0000000000")
	}
}

// checkRevision holds the change to what its caller has seen.
func (c *change) checkRevision() error {
	var now state.Revision
	if c.old != nil {
		now = state.Revision(c.old.mzxid)
	}
	switch {
	case c.op.Force || now == c.op.Revision || c.unnamed:
		return nil
	case now == 0:
		return fmt.Errorf("%s is gone, it was at revision %d: %w", c.key, c.op.Revision, state.ErrConflict)
	case c.op.Revision == 0:
		return fmt.Errorf("%s exists, at revision %d: %w", c.key, now, state.ErrConflict)
	default:
		return fmt.Errorf("%s is at revision %d, not %d: %w", c.key, now, c.op.Revision, state.ErrConflict)
	}
}

// checkMove refuses a change of state that resources.LegalMove forbids. Out of a state that only others know, anything
// goes.
func (c *change) checkMove() error {
	if c.imported {
		return nil
	}
	var from resources.State
	if c.old != nil && c.old.record != nil {
		from = resources.StateOf(c.old.record)
	}
	to := resources.StateOf(c.op.Record)
	if from != "" && (from == to || !knownState(c.key.Kind, from)) || resources.LegalMove(c.key.Kind, from, to) {
		return nil
	}
	return state.Refuse("%s may not go from state %q to %q: this is a bug in npctl", c.key, from, to)
}
