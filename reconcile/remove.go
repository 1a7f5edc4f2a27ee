package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// deleteTimeout is the time limit for the deletion of an instance.
const deleteTimeout = 10 * time.Minute

// deleteNode removes a node as planned.
func (x *execution) deleteNode(ctx context.Context, s plan.Step) error {
	node, at := find[resources.Node](x.cache, s.Record)
	if node == nil {
		return nil // another process has removed it
	}
	if err := x.asPlanned(s, at); err != nil {
		return err
	}
	return x.removeNode(ctx, s, node, at)
}

// removeNode deletes a node's instance, waits until it is gone, and then removes the record, which was read at revision
// at.
func (x *execution) removeNode(ctx context.Context, s plan.Step, node *resources.Node, at state.Revision) error {
	if node.Static {
		return x.cache.drop(ctx, node.Key())
	}
	cloud, release, err := x.cloud(ctx, node.Provider, x.cache.provider(node.Provider))
	defer release()
	if err != nil {
		return err
	}
	if node.State == resources.StateReady && s.Reason.IsDisruption() {
		node.DeletedFor = string(s.Reason) // the plans of all processes count it until it is gone
	}
	node.State, node.StateTime = resources.StateDeleting, x.Now()
	node.ExternalID = cmp.Or(node.ExternalID, s.External)
	if err := x.cache.claim(ctx, s.ID, node, at); err != nil {
		return err
	}
	if err := x.instanceRemover(s, cloud).remove(ctx, x.machineOf(node)); err != nil {
		return err
	}
	hadServer := node.Attempt > 0 || node.ExternalID != ""
	if hooks := x.hooks(); hadServer && hooks.of(node.Provider, hookDeleted) != nil {
		hooks.notify(ctx, hookDeleted, node)
		if ctx.Err() != nil {
			return ErrInterrupted // the next deletion runs the hook again
		}
	}
	return x.cache.drop(ctx, node.Key())
}

// machineOf returns the deletion target of a node. A node without a hash was launched, or its record written, by another program.
func (x *execution) machineOf(n *resources.Node) deletionTarget {
	marks := resources.OwnerTags{Installation: x.seen.Installation, Kind: resources.KindNode, ID: n.ID}
	return deletionTarget{external: n.ExternalID, marks: marks, record: n.ID, unmarked: n.Hash == ""}
}

// deleteLeftover deletes an object of ours that has no record.
func (x *execution) deleteLeftover(ctx context.Context, s plan.Step) error {
	if s.Type == "file" {
		return x.files().removeImage(ctx, s.External)
	}
	cloud, release, err := x.cloud(ctx, s.Provider, x.cache.provider(s.Provider))
	defer release()
	if err != nil {
		return err
	}
	if err := x.cache.claims.awaitConnected(ctx, s.ID); err != nil {
		return err
	}
	sighting, ok := get[resources.Sighting](x.cache, (&resources.Sighting{Provider: s.Provider, Type: s.Type, External: s.External}).Key())
	if ok {
		sighting.Deleted = x.Now() // leak_limit applies over time
		if err := x.cache.put(ctx, sighting); err != nil {
			return err
		}
	}
	switch s.Type {
	case "server":
		for _, i := range x.seen.Providers[s.Provider].Instances {
			if i.ID == s.External {
				return x.instanceRemover(s, cloud).remove(ctx, deletionTarget{external: i.ID, marks: i.Marks})
			}
		}
	case "image":
		store, ok := drivers.ImagesOf(cloud)
		if !ok {
			return drivers.ErrNotSupported
		}
		for _, i := range x.seen.Providers[s.Provider].Images {
			if i.ID == s.External {
				return store.DeleteImage(ctx, i.ID, i.Marks)
			}
		}
	default:
		sweeper, ok := drivers.SweeperOf(cloud)
		if !ok {
			return drivers.ErrNotSupported
		}
		for _, l := range x.seen.Providers[s.Provider].Leftovers {
			if l.Type == s.Type && l.ID == s.External {
				return sweeper.DeleteLeftover(ctx, l) // with its ownership tags, which the driver compares
			}
		}
	}
	return fmt.Errorf("%s was not listed when the plan was computed", s.Address)
}

// deletesAtMost limits the delete calls for one instance when the cloud accepts a deletion and then fails to complete
// it.
const deletesAtMost = 5

// deletionTarget is the object of a deletion: one instance, or every instance with the ownership tags of one record.
type deletionTarget struct {
	external string              // the cloud's ID; may be empty if the tags are sufficient
	marks    resources.OwnerTags // required tags of the instance with this ID
	record   string              // ID in the tags of further instances to delete; empty: none
	unmarked bool                // the instance with the cloud's ID may have no tags: then only the record proves that it is npctl's
}

// instanceRemover deletes instances for one step.
type instanceRemover struct {
	cloud  drivers.Cloud
	poller *poller // of the cloud
	claims *claims // a deletion waits until the state is connected
	log    *slog.Logger
	step   plan.Step
	waits  func() // called when the step only waits: its first request was sent, or a batch will send it
}

func (x *execution) instanceRemover(s plan.Step, cloud drivers.Cloud) instanceRemover {
	return instanceRemover{cloud: cloud, poller: x.pollers.of(cloud, x.connections, x.seen.Installation), claims: x.cache.claims, log: x.Log, step: s, waits: sync.OnceFunc(func() {
		x.slots.releaseEarly(s.ID)
		x.progress(s)("waiting for the instance to be gone", 0, 0)
	})}
}

// remove deletes every instance of d, waits until none is listed and deletes what they leave. Listings may lag behind: an instance that
// no listing has shown counts as gone only after two listings without it. An instance without the expected ownership
// tags belongs to another owner; it is not deleted and counts as gone.
func (r instanceRemover) remove(ctx context.Context, d deletionTarget) error {
	ctx, cancel := context.WithTimeoutCause(ctx, deleteTimeout, fmt.Errorf("not gone after %s", deleteTimeout))
	defer cancel()
	asked, foreign := map[string]int{}, map[string]bool{}
	ask := func(id string, marks resources.OwnerTags) error {
		if err := r.claims.awaitConnected(ctx, r.step.ID); err != nil {
			return err
		}
		asked[id]++
		err := r.cloud.Delete(ctx, id, marks)
		if errors.Is(err, drivers.ErrNotOurs) && d.unmarked && id == d.external {
			err = r.cloud.Delete(ctx, id, resources.OwnerTags{})
		}
		if errors.Is(err, drivers.ErrNotOurs) {
			r.log.Warn("instance belongs to another owner; not deleted", "step", r.step.ID, "provider", r.step.Provider, "instance", id, "error", err)
			foreign[id] = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("delete instance %s: %w", id, err)
		}
		return nil
	}
	if drivers.DeletesInBatches(r.cloud) { // the queue of the cloud limits the requests
		r.waits()
	}
	if d.external != "" {
		if err := ask(d.external, d.marks); err != nil {
			return err
		}
	}
	r.waits()
	missing, shown, unfinished := 0, false, 0
	return r.poller.await(ctx, func(now listing) (bool, error) {
		left := now.left(d, foreign)
		if len(left) == 0 {
			missing++
			if !shown && missing == 1 {
				return false, nil
			}
			err := r.finish(ctx, asked, foreign)
			if unfinished++; err != nil && unfinished < deletesAtMost {
				return false, nil
			}
			if err != nil {
				r.log.Warn("a deleted instance leaves an object, which is a leak now", "step", r.step.ID, "provider", r.step.Provider, "error", err)
			}
			return true, nil
		}
		missing, shown = 0, true
		for _, i := range left {
			again := asked[i.ID] == 0 || i.Status == resources.StatusFailed || i.Status == resources.StatusReady && asked[i.ID] < deletesAtMost
			if asked[i.ID] >= deletesAtMost && i.Status == resources.StatusFailed {
				return false, fmt.Errorf("instance %s cannot be deleted after %d tries: %s", i.ID, deletesAtMost, i.Fault)
			}
			if !again {
				continue
			}
			marks := i.Marks
			if i.ID == d.external {
				marks = d.marks
			}
			if err := ask(i.ID, marks); err != nil {
				return false, err
			}
		}
		return false, nil
	})
}

// finish deletes what the deleted instances leave, if the driver has such objects.
func (r instanceRemover) finish(ctx context.Context, asked map[string]int, foreign map[string]bool) error {
	finisher, ok := drivers.FinisherOf(r.cloud)
	if !ok {
		return nil
	}
	var failed error
	for id := range asked {
		if foreign[id] {
			continue
		}
		if err := r.claims.awaitConnected(ctx, r.step.ID); err != nil {
			return err
		}
		failed = errors.Join(failed, finisher.FinishDeletion(ctx, id))
	}
	return failed
}

// left returns the instances of d that are in the listing.
func (l listing) left(d deletionTarget, foreign map[string]bool) []resources.Instance {
	var left []resources.Instance
	if d.record != "" {
		left = append(left, l.byNode[d.record]...)
	}
	if i, found := l.byID[d.external]; found && len(left) == 0 {
		left = append(left, i)
	}
	return slices.DeleteFunc(left, func(i resources.Instance) bool { return foreign[i.ID] })
}

// Undeleted is the instance of a failed launch attempt that was not deleted when the run ended.
type Undeleted struct {
	Node, Provider string
	Server         string // the cloud's ID; empty if it is unknown whether the instance exists
	Err            error  // of the newest attempt to delete it, if any
}

const (
	// cleanupGrace is how long Execute waits, after its steps, for the deletion of failed instances.
	cleanupGrace = 30 * time.Second
	// cleanupPause is the first pause of a clean-up after a refused deletion. It doubles with each further one.
	cleanupPause = 2 * time.Second
)

// cleaner deletes the instances of failed launch attempts while a plan that is executed once runs. A daemon has none:
// its next plan deletes them.
type cleaner struct {
	x    *execution // reports no events: deletions are not steps of the plan
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu   sync.Mutex // guards left
	left map[string]Undeleted
}

func newCleaner(ctx context.Context, x *execution) *cleaner {
	silent := *x.Engine
	silent.Report = nil
	c := &cleaner{x: &execution{Engine: &silent, sharedRun: x.sharedRun, seen: x.seen}, left: map[string]Undeleted{}}
	c.ctx, c.stop = context.WithCancel(ctx)
	return c
}

// cleanUp deletes the instance of a failed attempt and then its record, unless the record belongs to a request.
func (c *cleaner) cleanUp(n *resources.Node) {
	if c == nil {
		return
	}
	s := plan.Step{ID: "clean up node " + n.ID, Kind: plan.KindDeleteNode, Provider: n.Provider, Pool: n.Pool,
		Record: n.Key(), External: n.ExternalID}
	c.x.cache.clearRecordBusy(c.ctx, n.Key())
	c.note(Undeleted{Node: n.ID, Provider: n.Provider, Server: n.ExternalID}, false)
	c.work.Go(func() {
		for pause := cleanupPause; ; pause *= 2 {
			err := c.delete(s)
			c.note(Undeleted{Node: n.ID, Provider: n.Provider, Server: n.ExternalID, Err: err}, err == nil || errors.Is(err, errChanged))
			if err == nil || errors.Is(err, errChanged) {
				return
			}
			if waits.Sleep(c.ctx, pause) != nil {
				return
			}
		}
	})
}

func (c *cleaner) delete(s plan.Step) error {
	ctx := c.x.cache.claims.begin(c.ctx, s.ID)
	defer c.x.cache.claims.end(c.ctx, s.ID)
	if c.x.cache.claims.store != nil {
		entry, err := c.x.cache.claims.acquire(ctx, s.ID, s.Record)
		if err != nil {
			return err
		}
		c.x.cache.refreshEntry(ctx, entry)
	}
	node, at := find[resources.Node](c.x.cache, s.Record)
	switch {
	case node == nil:
		return nil
	case node.Request == "":
		return c.x.removeNode(ctx, s, node, at)
	}
	cloud, release, err := c.x.cloud(ctx, s.Provider, c.x.cache.provider(s.Provider))
	defer release()
	if err != nil {
		return err
	}
	return c.x.instanceRemover(s, cloud).remove(ctx, c.x.machineOf(node)) // the record shows the next plan which pool cannot serve the request
}

// note records that an instance is left, or removes it once it is deleted.
func (c *cleaner) note(l Undeleted, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone {
		delete(c.left, l.Node)
		return
	}
	if l.Err != nil && c.ctx.Err() != nil {
		l.Err = c.left[l.Node].Err // the end of the run is not the cause
	}
	c.left[l.Node] = l
}

// end waits up to cleanupGrace for the deletions, stops them, and returns the remaining instances in the order of their
// nodes.
func (c *cleaner) end() []Undeleted {
	done := make(chan struct{})
	go func() { c.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(cleanupGrace):
	case <-c.ctx.Done():
	}
	c.stop()
	<-done
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.left), func(a, b Undeleted) int { return cmp.Compare(a.Node, b.Node) })
}

// releaseObject removes the ownership tags of the server of a node or the image of an upload, and then the record. The
// record is the intent: if npctl stops in between, the next plan repeats both. An object without tags and with a record is
// never deleted, and one without a record has no tags.
func (x *execution) releaseObject(ctx context.Context, s plan.Step) error {
	adopter, done, err := x.adopter(ctx, s)
	defer done()
	if err != nil {
		return err
	}
	if err := x.cache.claims.awaitConnected(ctx, s.ID); err != nil {
		return err
	}
	marks := resources.OwnerTags{Installation: x.seen.Installation, Kind: s.Record.Kind, ID: s.Record.ID}
	if err := adopter.Release(ctx, s.External, marks); err != nil {
		return fmt.Errorf("release %s, which keeps its record: %w", s.External, err)
	}
	return x.cache.drop(ctx, s.Record)
}

// releaseBuild removes the record of a build whose files stay, after it has moved those of this host.
func (x *execution) releaseBuild(ctx context.Context, s plan.Step) error {
	if err := x.files().forgetBuild(s.Build); err != nil {
		return fmt.Errorf("keep the files of build %s: %w", s.Build, err)
	}
	return x.cache.drop(ctx, s.Record)
}
