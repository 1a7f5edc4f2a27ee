package zookeeper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// ownSchema is the schema version of npctl's own znodes.
const ownSchema = 1

// head is the content of npctl's own znode.
type head struct {
	Schema    int    `json:"schema"`
	WrittenBy string `json:"written_by"`
	Lineage   string `json:"lineage"`
	Importing bool   `json:"arriving,omitempty"` // an import is in progress, so that records may be missing
	ExportID  string `json:"leaving,omitempty"`  // ID of the export in progress
}

// checkLineage returns an error unless the head of the state at opts has the lineage. h is nil if there is no state, which has
// no lineage.
func (h *head) checkLineage(opts Options, want string) error {
	have := ""
	if h != nil {
		have = h.Lineage
	}
	if have != want {
		return &LineageError{Where: opts.String(), Want: want, Have: have}
	}
	return nil
}

// ErrImporting is returned while an import is in progress and records may be missing.
var ErrImporting = errors.New("an import is in progress, so records may be missing")

// LineageError is returned when ZooKeeper has a state of another lineage than expected, or none.
type LineageError struct {
	Where      string
	Want, Have string // Have is empty when there is none
}

func (e *LineageError) Error() string {
	if e.Have == "" {
		return fmt.Sprintf("there is no npctl state in ZooKeeper at %s, and lineage %s is expected", e.Where, e.Want)
	}
	return fmt.Sprintf("the state in ZooKeeper at %s belongs to another installation: its lineage is %s, and %s is expected", e.Where, e.Have, e.Want)
}

// installation is npctl's own part of the tree: the identity of the state, and the directories that all programs need.
type installation struct {
	session *session
	opts    Options
	lineage string // set by prepareInTime
}

// prepareInTime calls prepare, and repeats it if the connection was lost, as happens with a busy server. prepare may
// run twice, except during an import.
func (in *installation) prepareInTime(ctx context.Context) error {
	for {
		err := in.prepare(ctx)
		if !errors.Is(err, errOutcomeUnknown) || in.opts.Importing || ctx.Err() != nil {
			return err
		}
		in.opts.Log.Info("connection to ZooKeeper lost while opening the state; retrying", "error", err)
		if waits.Sleep(ctx, openPause) != nil {
			return err
		}
	}
}

// openPause is the delay between two attempts to open a state.
const openPause = 100 * time.Millisecond

// prepare checks the chroot and creates the shared directories and npctl's own znodes.
func (in *installation) prepare(ctx context.Context) error {
	if in.session.chroot != "" {
		if there, err := in.session.exists(ctx, ""); err != nil {
			return err
		} else if !there {
			return fmt.Errorf("the chroot %s does not exist: create it, or use the one of Zuul and Nodepool", in.session.chroot)
		}
	}
	if err := in.initialize(ctx); err != nil {
		return err
	}
	return in.ensureDirs(ctx)
}

// ensureDirs creates the directories that all programs need.
func (in *installation) ensureDirs(ctx context.Context) error {
	if !in.session.readOnly {
		for _, dir := range []string{rootDir, requestsDir, requestLocks, nodesDir, imagesDir, registryDir, poolsDir, launchersDir, buildersDir, trialsDir} {
			if err := in.session.ensure(ctx, dir, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// resume checks on a new connection that the servers still have this state. If their data was lost, it creates the state again
// with the same lineage, so that npctl still recognizes its objects in the clouds.
func (in *installation) resume(ctx context.Context) error {
	if in.lineage == "" {
		return nil // read-only, and there was no state
	}
	h, _, err := in.readHead(ctx)
	if err != nil {
		return err
	}
	if h == nil && !in.session.readOnly {
		in.opts.Log.Warn("ZooKeeper has no state of npctl any more; npctl creates an empty one with the same lineage", "lineage", in.lineage)
	} else if err := h.checkLineage(in.opts, in.lineage); err != nil {
		in.opts.Log.Error("npctl does not use the state in ZooKeeper", "error", err)
		return err
	}
	if in.session.readOnly {
		return nil
	}
	if err := in.ensureOwn(ctx, in.lineage); err != nil { // another process that creates the state again may still be at it
		return err
	}
	return in.ensureDirs(ctx)
}

// initialize creates npctl's own znodes and reads the lineage. The first process chooses the lineage.
func (in *installation) initialize(ctx context.Context) error {
	h, version, err := in.readHead(ctx)
	if err != nil {
		return err
	}
	if h == nil && in.opts.Lineage != "" && !in.opts.Importing {
		return &LineageError{Where: in.opts.String(), Want: in.opts.Lineage}
	}
	if h == nil && in.session.readOnly {
		return nil
	}
	if !in.session.readOnly {
		if err := in.ensureOwn(ctx, in.opts.Lineage); err != nil {
			return err
		}
		if h, version, err = in.readHead(ctx); err != nil {
			return err
		}
	}
	if in.opts.Importing {
		return in.beginImport(ctx, h, version)
	}
	return in.accept(h)
}

// accept rejects a state of another lineage and a state with an import in progress.
func (in *installation) accept(h *head) error {
	switch {
	case h == nil:
		return fmt.Errorf("%s was removed while npctl started", in.session.serverPath(ownDir))
	case in.opts.Lineage != "" && h.Lineage != in.opts.Lineage:
		return &LineageError{Where: in.opts.String(), Want: in.opts.Lineage, Have: h.Lineage}
	case h.Importing:
		return fmt.Errorf("%s: %w", in.opts.String(), ErrImporting)
	}
	in.lineage = h.Lineage
	return nil
}

// ensureOwn creates the missing znodes of npctl. It chooses a lineage if the given one is empty.
func (in *installation) ensureOwn(ctx context.Context, lineage string) error {
	if lineage == "" {
		lineage = uuid.NewString()
	}
	data := asJSON(head{Schema: ownSchema, WrittenBy: in.opts.Version, Lineage: lineage, Importing: in.opts.Importing})
	key := in.opts.HashKey
	if key == "" {
		key = resources.NewHashKey()
	}
	for _, own := range []struct {
		path string
		data []byte
	}{{ownDir, data}, {serialAt, nil}, {uploadsAt, nil}, {namedDir, nil}, {keyAt, []byte(key)}} {
		if err := in.session.ensure(ctx, own.path, own.data); err != nil {
			return err
		}
	}
	return nil
}

// readHead returns nil if npctl has never written here. It rejects the schema of a newer npctl.
func (in *installation) readHead(ctx context.Context) (h *head, version int32, err error) {
	data, stat, err := in.session.get(ctx, ownDir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	h = &head{}
	if err := json.Unmarshal(data, h); err != nil || h.Lineage == "" {
		return nil, 0, fmt.Errorf("%s was not written by npctl: remove it if it is not needed, or use another chroot", in.session.serverPath(ownDir))
	}
	if h.Schema > ownSchema {
		return nil, 0, fmt.Errorf("%s has schema %d, written by npctl %s, and this npctl knows %d: upgrade npctl", in.session.serverPath(ownDir), h.Schema, h.WrittenBy, ownSchema)
	}
	return h, stat.Version, nil
}

// identity returns the identity of the state. The serial is the zxid of the newest commit by any npctl process; writes of
// other programs do not count.
func (in *installation) identity(ctx context.Context) (state.Identity, error) {
	if err := in.session.usable(ctx); err != nil {
		return state.Identity{}, err
	}
	id := state.Identity{Lineage: in.lineage, Schema: ownSchema}
	key, _, err := in.session.get(ctx, keyAt)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return id, err
	}
	id.HashKey = resources.HashKey(key)
	_, stat, err := in.session.get(ctx, serialAt)
	if errors.Is(err, zk.ErrNoNode) && in.session.readOnly {
		return id, nil
	}
	if err != nil {
		return state.Identity{}, err
	}
	id.Serial = uint64(stat.Mzxid)
	return id, nil
}
