package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// deletesAtMost limits the delete calls for one instance when the cloud accepts a deletion and then fails to complete
// it.
const deletesAtMost = 5

// deletionTarget is the object of a deletion: one instance, or every instance with the ownership tags of one record.
type deletionTarget struct {
	external string              // the cloud's ID; may be empty if the tags are sufficient
	marks    resources.OwnerTags // required tags of the instance with this ID
	record   string              // ID in the tags of further instances to delete; empty: none
}

// instanceRemover deletes instances for one step.
type instanceRemover struct {
	cloud  drivers.Cloud
	poller *poller // of the cloud
	claims *claims // a deletion waits until the state is connected
	log    *slog.Logger
	step   plan.Step
	waits  func() // called when the step has sent its first request and only waits
}

func (x *execution) instanceRemover(s plan.Step, cloud drivers.Cloud) instanceRemover {
	return instanceRemover{cloud: cloud, poller: x.pollers.of(cloud, x.connections, x.seen.Installation), claims: x.cache.claims, log: x.Log, step: s, waits: func() {
		x.slots.releaseEarly(s.ID)
		x.progress(s)("waiting for the instance to be gone", 0, 0)
	}}
}

// remove deletes every instance of d and waits until none is listed. Listings may lag behind: an instance that
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
	if d.external != "" {
		if err := ask(d.external, d.marks); err != nil {
			return err
		}
	}
	r.waits()
	missing, shown := 0, false
	return r.poller.await(ctx, func(now listing) (bool, error) {
		left := now.left(d, foreign)
		if len(left) == 0 {
			missing++
			return shown || missing > 1, nil
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
