package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// numbers assigns the numbers of nodes and uploads.
type numbers struct {
	session *session
	mu      *sync.Mutex // guards cache; see Store
	cache   *cache
}

// numberUploads assigns npctl's IDs to new uploads: ten digits, unique in the whole state, as in every other store, so
// that records can move between stores while images in clouds carry the IDs. The commit writes the counter together
// with the uploads.
func (n *numbers) numberUploads(ctx context.Context, changes []*change) error {
	var fresh []*change
	for _, c := range changes {
		if c.counter = nil; c.number && c.Subject.Kind == resources.KindUpload {
			fresh = append(fresh, c)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	last, version, err := n.lastUpload(ctx)
	if err != nil {
		return err
	}
	highest := last
	for _, c := range fresh {
		if c.Unnamed {
			highest = n.nextUpload(highest)
			c.id = fmt.Sprintf("%010d", highest)
		} else if n, err := strconv.ParseUint(c.Subject.ID, 10, 64); err == nil {
			highest = max(highest, n)
		}
	}
	if highest != last {
		fresh[len(fresh)-1].counter = &zk.SetDataRequest{Path: n.session.serverPath(uploadsAt), Data: strconv.AppendUint(nil, highest, 10), Version: version}
	}
	return nil
}

// nextUpload returns the next number that no upload has.
func (n *numbers) nextUpload(last uint64) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		last++
		if n.cache.records[resources.KindUpload][fmt.Sprintf("%010d", last)] == "" {
			return last
		}
	}
}

func (n *numbers) lastUpload(ctx context.Context) (last uint64, version int32, err error) {
	data, stat, err := n.session.get(ctx, uploadsAt)
	if errors.Is(err, zk.ErrNoNode) {
		return 0, 0, fmt.Errorf("%s, which npctl created, no longer exists; restart npctl: %w", n.session.serverPath(uploadsAt), err)
	}
	if err != nil {
		return 0, 0, err
	}
	if len(data) > 0 {
		if last, err = strconv.ParseUint(string(data), 10, 64); err != nil {
			return 0, 0, fmt.Errorf("%s does not contain a number: %w", n.session.serverPath(uploadsAt), err)
		}
	}
	return last, stat.Version, nil
}

// last returns the highest number that a node or an upload has, or can have had, in this state.
func (n *numbers) last(ctx context.Context, kind resources.Kind) (uint64, error) {
	switch kind {
	case resources.KindNode:
		made, err := n.madeIn(ctx, nodesDir)
		if made > 0 {
			made-- // the first number is zero
		}
		return made, err
	case resources.KindUpload:
		last, _, err := n.lastUpload(ctx)
		return last, err
	default:
		return 0, state.Invalidf("a %s has no number", kind)
	}
}

// reserve keeps numbers up to upTo from being assigned to nodes or uploads, because imported records or ownership tags
// in clouds use them.
func (n *numbers) reserve(ctx context.Context, kind resources.Kind, upTo uint64) error {
	if n.session.readOnly {
		return state.ErrReadOnly
	}
	switch kind {
	case resources.KindNode:
		return n.skipNodes(ctx, upTo)
	case resources.KindUpload:
		return n.skipUploads(ctx, upTo)
	default:
		return state.Invalidf("a %s has no number", kind)
	}
}

func (n *numbers) skipUploads(ctx context.Context, upTo uint64) error {
	last, version, err := n.lastUpload(ctx)
	if err != nil || last >= upTo {
		return err
	}
	_, _, err = n.session.multi(ctx, "number uploads", []any{&zk.SetDataRequest{Path: n.session.serverPath(uploadsAt), Data: strconv.AppendUint(nil, upTo, 10), Version: version}})
	if errors.Is(err, zk.ErrBadVersion) { // another process has created an upload
		return n.skipUploads(ctx, upTo)
	}
	return err
}

// skipAtOnce is the number of IDs that one multi skips. Its packet is far below ZooKeeper's limit.
const skipAtOnce = 2000

// mostSkipped is the maximum number of IDs to skip. It limits the duration to a few minutes.
const mostSkipped = 10_000_000

// skipNodes creates and deletes as many children as there are numbers to skip, because ZooKeeper derives numbers from
// all children ever created in a directory. No process sees them, since one multi creates and deletes each.
func (n *numbers) skipNodes(ctx context.Context, upTo uint64) error {
	for {
		made, err := n.madeIn(ctx, nodesDir)
		if err != nil || made > upTo {
			return err
		}
		missing := upTo + 1 - made
		if missing > mostSkipped {
			return state.Invalidf("the next node number is %d here and %d in the other state: the difference is too large", made, upTo+1)
		}
		skip := nodesDir + "/npctl-skip"
		pair := []any{&zk.CreateRequest{Path: n.session.serverPath(skip), Acl: openACL}, &zk.DeleteRequest{Path: n.session.serverPath(skip), Version: -1}}
		if _, _, err := n.session.multi(ctx, "number nodes", slices.Repeat(pair, int(min(missing, skipAtOnce)))); err != nil {
			return err
		}
	}
}

// madeIn returns the number of children ever created in a directory. ZooKeeper does not report that number: Cversion
// counts both creations and deletions.
func (n *numbers) madeIn(ctx context.Context, dir string) (uint64, error) {
	_, stat, err := n.session.get(ctx, dir)
	if err != nil {
		return 0, err
	}
	return (uint64(uint32(stat.Cversion)) + uint64(uint32(stat.NumChildren))) / 2, nil
}
