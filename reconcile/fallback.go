package reconcile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// launchFailures are the failures of the newest launches, by offer and by provider. The planner uses the next offer of a
// label while one of them delays the first (see plan.Observed).
type launchFailures map[plan.Address]*resources.Failure

// note adds the result of a launch that started at began.
func (f launchFailures) note(s plan.Step, began, now time.Time, err error) {
	for _, at := range []plan.Address{plan.OfferAddress(s.Provider, s.Pool, s.Label), plan.ProviderAddress(s.Provider)} {
		if err == nil {
			delete(f, at)
		} else {
			f[at] = launchFailed(f[at], began, now, err)
		}
	}
}

// launchFailed returns the failure to remember after another failed launch.
func launchFailed(before *resources.Failure, began, now time.Time, err error) *resources.Failure {
	f := &resources.Failure{Count: 1, Time: now, Kind: faultKind(err), Error: err.Error()}
	switch {
	case before == nil:
	case f.Kind == resources.FaultQuota || f.Kind == resources.FaultCapacity: // the cloud is full, not broken
	case f.Kind == resources.FaultUnavailable && began.Before(before.Time): // launches that ran at the same time met the same outage
		f.Count = before.Count
	default:
		f.Count += before.Count
	}
	return f
}

// fallBack runs the launches again that found no capacity, in the next pools of their labels, until each has a node or no
// pool is left. A daemon does so in its next pass. No step of the plan is repeated, and no pool without capacity is tried
// twice. The result has these launches in place of the failed ones.
func (x *execution) fallBack(ctx context.Context, opt plan.Options, result Result) Result {
	failures, failed, held := launchFailures{}, result.Failed, locksOf(result.steps())
	for ctx.Err() == nil {
		full := slices.DeleteFunc(slices.Clone(failed), func(f Failure) bool { return !isFull(f) })
		if len(full) == 0 {
			return result
		}
		for _, f := range full {
			failures.note(f.Step, x.Now(), x.Now(), f.Err)
		}
		steps, replaced := x.alternatives(opt, failures, full, result.Skipped)
		locks := slices.DeleteFunc(locksOf(steps), func(name string) bool { return slices.Contains(held, name) })
		under, release, err := x.underLocks(ctx, locks, x.seen.Shared)
		if err != nil { // another process launches nodes there
			x.Log.Info("no launches in further pools", "error", err)
			return result
		}
		defer release()
		held = append(held, locks...)
		next := x.runAll(under, steps)
		result, failed = result.without(replaced).plus(next), next.Failed
	}
	return result
}

// isFull reports whether a launch failed because its pool has no capacity now.
func isFull(f Failure) bool {
	return f.Step.Kind == plan.KindLaunch && (errors.Is(f.Err, drivers.ErrCapacity) || errors.Is(f.Err, drivers.ErrQuota))
}

// alternatives plans again with the failures of this run. It returns launches for the same labels and requests as the full
// launches, and at most as many, with the deletions of the nodes that they replace. replaced has the IDs of the earlier steps.
func (x *execution) alternatives(opt plan.Options, failures launchFailures, full, skipped []Failure) (steps []plan.Step, replaced map[string]bool) {
	seen := x.seen
	seen.Records, seen.Busy = x.cache.snapshot()
	if shared, ok := x.Store.(state.Shared); ok {
		x.addShared(&seen, shared)
	}
	seen.Now, seen.LaunchFailures, opt.HonorBackoff = x.Now(), failures, true
	for _, f := range failures {
		f.Time = seen.Now // also those of earlier rounds delay launches
	}
	replaced = map[string]bool{}
	renamed := map[string]string{} // the number in the ID of a launch is unique only in its plan
	next := plan.Compute(x.Desired, seen, opt).Steps
	for _, s := range next {
		at := slices.IndexFunc(full, func(f Failure) bool {
			return !replaced[f.Step.ID] && f.Step.Label == s.Label && f.Step.Request == s.Request
		})
		if s.Kind != plan.KindLaunch || at < 0 || len(s.Needs) > 0 {
			continue
		}
		instead := full[at].Step.ID
		replaced[instead], renamed[s.ID] = true, s.ID+" instead of "+instead
		s.ID = renamed[s.ID]
		steps = append(steps, s)
	}
	for _, s := range next {
		wasSkipped := slices.ContainsFunc(skipped, func(f Failure) bool { return f.Step.ID == s.ID })
		isOther := func(id string) bool { return renamed[id] == "" }
		if !s.Removes() || !wasSkipped || len(s.Needs) == 0 || slices.ContainsFunc(s.Needs, isOther) { // no deletion without a successor
			continue
		}
		for i, id := range s.Needs {
			s.Needs[i] = renamed[id]
		}
		replaced[s.ID] = true
		steps = append(steps, s)
	}
	return steps, replaced
}
