package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// nodeError is an error of an active instance that does not become a usable node. Its image may be the cause. Errors of the
// cloud say nothing about the image.
type nodeError struct{ error }

func (e nodeError) Unwrap() error { return e.error }

// lookTimeout limits the time until a listing shows whether an instance is still active.
const lookTimeout = 30 * time.Second

// nodeError returns the error of an instance that is not usable: as a nodeError if the next listing shows that the instance is
// still active. The cloud may have stopped it, for example a spot instance.
func (l *nodeLaunch) nodeError(ctx context.Context, id string, cause error) error {
	if l.node.Upload == "" || rejected(cause) {
		return cause
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	active := false
	err := l.x.pollers.of(l.cloud, l.x.connections, l.x.seen.Installation).await(ctx, func(now listing) (bool, error) {
		active = now.byID[id].Status == resources.StatusReady
		return true, nil
	})
	if err != nil || !active {
		return cause
	}
	return nodeError{cause}
}

// trialCount is the result of a launch from an upload, with the records to commit together with the record of the node.
type trialCount struct {
	changed []resources.Record
	boot    plan.BootChoice // of the next launch
	release func()          // to be called after the commit
}

// countLaunch counts the result of a launch attempt: nil for a success. Launches from the uploads of an image in a provider are
// counted one after the other.
func (l *nodeLaunch) countLaunch(ctx context.Context, cause error) trialCount {
	none := trialCount{release: func() {}}
	u, ok := get[resources.Upload](l.x.cache, resources.Key{Kind: resources.KindUpload, ID: l.node.Upload})
	if !ok || saysNothing(cause) {
		return none
	}
	img := l.x.Desired.Image(u.Image)
	if t, _ := get[resources.Trial](l.x.cache, resources.Key{Kind: resources.KindTrial, ID: u.ID}); !plan.Counts(img, t, l.x.Now(), cause) {
		return none
	}
	records, release, err := l.lockTrials(ctx, u)
	if err != nil {
		return none // the process ends: the launch counts next time
	}
	trials, ready := plan.TrialsOf(records, u.Image, u.Provider), plan.ReadyUploads(records, u.Image, u.Provider)
	result := trialCount{release: release}
	for _, t := range trials.CountLaunch(img, l.provider, ready, plan.LaunchResult{Upload: u, Now: l.x.Now(), Cause: cause}) {
		trials[t.Upload] = t
		result.changed = append(result.changed, t)
	}
	result.boot = trials.BootChoice(img, l.provider, ready)
	return result
}

// saysNothing reports whether the image cannot have caused the error of a launch.
func saysNothing(cause error) bool {
	_, broken := errors.AsType[nodeError](cause)
	return cause != nil && !broken
}

// lockTrials returns the records while no other launch from the uploads of the image in the provider counts, until release is called.
func (l *nodeLaunch) lockTrials(ctx context.Context, u *resources.Upload) (records plan.Records, release func(), err error) {
	release, err = l.x.slots.acquire(ctx, "trials of "+u.Image+" in "+u.Provider, 1)
	if err == nil {
		records, _ = l.x.cache.snapshot()
	}
	return records, release, err
}

// isPinned reports whether a person has pinned an upload.
func (l *nodeLaunch) isPinned(upload string) bool {
	t, ok := get[resources.Trial](l.x.cache, resources.Key{Kind: resources.KindTrial, ID: upload})
	return ok && t.Pinned != nil
}

// bootFrom sets the image of a node.
func bootFrom(n *resources.Node, u *resources.Upload) {
	n.ImageID, n.Upload, n.Login = u.ExternalID, u.ID, u.Login
}
