package reconcile

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// historyLength is the number of durations kept for each subject.
const historyLength = 20

// bookkeeping keeps the records that are about no single object: of providers, images, durations and templates.
type bookkeeping struct {
	cache *recordCache
	slots *slots

	mu      sync.Mutex           // guards the fields below
	known   map[string]bool      // providers with an up-to-date record
	seconds map[string][]float64 // durations by subject, not yet in the history
}

// rememberProvider records how to connect to a provider before a step creates anything there.
func (k *bookkeeping) rememberProvider(ctx context.Context, e *Engine, name, location string) error {
	p, configured := e.Desired.Provider(name)
	if !configured {
		return nil
	}
	release, err := k.slots.acquire(ctx, "record of provider "+name, 1) // two steps must not write it at the same time
	if err != nil {
		return err
	}
	defer release()
	k.mu.Lock()
	known := k.known[name]
	k.mu.Unlock()
	if known {
		return nil
	}
	record, err := Remember(p, e.Drivers[p.Driver].Schema().Provider)
	if err != nil {
		return err
	}
	old, remembered := get[resources.ProviderRecord](k.cache, record.Key())
	if remembered {
		record.Location, record.Frozen, record.Imported = old.Location, old.Frozen, stillImported(e, name, old.Imported)
	}
	record.Location = cmp.Or(location, record.Location)
	if !remembered || !reflect.DeepEqual(old, record) {
		if err := k.cache.put(ctx, record); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.known[name] = true
	return nil
}

// freeze writes to the record of a provider whether the provider is frozen.
func (k *bookkeeping) freeze(ctx context.Context, e *Engine, p *resources.Provider, frozen bool) error {
	release, err := k.slots.acquire(ctx, "record of provider "+p.Name, 1)
	if err != nil {
		return err
	}
	defer release()
	record, known := get[resources.ProviderRecord](k.cache, resources.Key{Kind: resources.KindProvider, ID: p.Name})
	if !known {
		if record, err = Remember(p, e.Drivers[p.Driver].Schema().Provider); err != nil {
			return err
		}
	}
	record.Frozen = frozen
	return k.cache.put(ctx, record)
}

// rememberImages records the kind and prevent_destroy of each image that has a build or gets one by the steps.
func (k *bookkeeping) rememberImages(ctx context.Context, e *Engine, steps []plan.Step) error {
	made := map[string]bool{}
	for _, b := range all[resources.Build](k.cache) {
		made[b.Image] = true
	}
	for _, s := range steps {
		made[s.Image] = made[s.Image] || s.Kind == plan.KindBuild
	}
	for _, img := range e.Desired.Images {
		if !made[img.Name] {
			continue
		}
		err := k.cache.changeImage(ctx, img.Name, img.Kind, func(r *resources.ImageRecord) {
			r.Kind, r.PreventDestroy = img.Kind, img.PreventDestroy
			maps.DeleteFunc(r.Uploads, func(provider string, _ *resources.Failure) bool {
				_, configured := e.Desired.Provider(provider)
				return !configured
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// recordDuration collects the duration of a step; tidy stores it.
func (k *bookkeeping) recordDuration(subject string, seconds float64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seconds[subject] = append(k.seconds[subject], seconds)
}

// tidy writes the history and removes records that nothing refers to any more. installation may be empty.
func (k *bookkeeping) tidy(ctx context.Context, e *Engine, installation string) error {
	k.mu.Lock()
	took := k.seconds
	k.seconds = map[string][]float64{}
	k.mu.Unlock()
	for subject, seconds := range took {
		h, known := get[resources.History](k.cache, resources.Key{Kind: resources.KindHistory, ID: subject})
		if !known {
			h = &resources.History{Subject: subject}
		}
		h.Seconds = append(slices.Clone(h.Seconds), seconds...)
		h.Seconds = h.Seconds[max(0, len(h.Seconds)-historyLength):]
		if err := k.cache.put(ctx, h); err != nil {
			return err
		}
	}
	if err := k.fixFutureDates(ctx, e); err != nil {
		return err
	}
	if err := k.cache.drop(ctx, k.unused(e)...); err != nil {
		return err
	}
	return e.files().removeMarks(installation, func(build string) bool {
		_, known := get[resources.Build](k.cache, resources.Key{Kind: resources.KindBuild, ID: build})
		return known
	})
}

// futureSlack is how far in the future the date of a build may be before it is attributed to a clock that was set back.
const futureSlack = time.Minute

// fixFutureDates sets the date of ready builds that are dated in the future to the present, so that rebuild_age counts
// from now on. It skips a shared store, where dates may come from the clocks of other hosts.
func (k *bookkeeping) fixFutureDates(ctx context.Context, e *Engine) error {
	if k.cache.claims.store != nil {
		return nil
	}
	now := e.Now()
	for _, b := range all[resources.Build](k.cache) {
		if b.State != resources.StateReady || !b.StateTime.After(now.Add(futureSlack)) {
			continue
		}
		e.Log.Warn("a build is dated in the future; its date is set to now", "image", b.Image, "build", b.ID, "date", b.StateTime)
		b.StateTime = now
		if err := k.cache.put(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// unused lists the templates, sightings and image records that nothing refers to any more.
func (k *bookkeeping) unused(e *Engine) []resources.Key {
	hashes, images := map[resources.Hash]bool{}, map[string]bool{}
	for _, b := range all[resources.Build](k.cache) {
		hashes[b.Hash], images[b.Image] = true, true
	}
	for _, n := range all[resources.Node](k.cache) {
		hashes[n.Hash] = true
	}
	uploads := map[string]bool{}
	for _, u := range all[resources.Upload](k.cache) {
		hashes[u.Settings] = true
		for _, id := range append([]string{u.ID}, u.Former...) {
			uploads[id] = true
		}
	}
	var keys []resources.Key
	for _, t := range all[resources.Trial](k.cache) {
		if !uploads[t.Upload] {
			keys = append(keys, t.Key())
		}
	}
	for _, t := range all[resources.Template](k.cache) {
		if !hashes[t.Hash] {
			keys = append(keys, t.Key())
		}
	}
	for _, s := range all[resources.Sighting](k.cache) {
		if _, configured := e.Desired.Provider(s.Provider); !configured && s.Provider != "" && k.cache.provider(s.Provider) == nil {
			keys = append(keys, s.Key())
		}
	}
	for _, r := range all[resources.ImageRecord](k.cache) {
		failing := e.Desired.Image(r.Name) != nil && (r.Failure != nil || len(r.Uploads) > 0)
		if !images[r.Name] && !r.PreventDestroy && !r.Paused && !failing {
			keys = append(keys, r.Key())
		}
	}
	return keys
}

// Sight records leaks. It is called while the store is locked, after Observe.
func (e *Engine) Sight(ctx context.Context, seen plan.Observed) error {
	there, gone := plan.Sightings(seen, e.Desired.Settings.LeakSightings)
	if len(there)+len(gone) == 0 {
		return nil
	}
	cache, err := newRecordCache(ctx, e.Store)
	if err != nil {
		return err
	}
	return cache.sight(ctx, there, gone)
}

// ErrProviderUnreachable is the error of a postponed launch: the provider does not respond. A Runner does not log it as
// an error, because the daemon plans the retry and reports the outage once for all launches.
var ErrProviderUnreachable = errors.New("the provider does not answer")

// isUnreachable reports whether an error means that the provider does not respond now, and says nothing about the
// request.
func isUnreachable(err error) bool {
	return (errors.Is(err, drivers.ErrUnavailable) || errors.Is(err, drivers.ErrThrottled)) && drivers.IsTransient(err)
}

// IsUnavailable reports whether the error of a step shows that its provider, or a part of it, does not respond.
func IsUnavailable(err error) bool { return errors.Is(err, drivers.ErrUnavailable) }

// errorLength is the maximum length in bytes of an error text in a record.
const errorLength = 2000

// rejected reports whether a retry cannot succeed.
func rejected(err error) bool { return errors.Is(err, drivers.ErrRejected) }

// faultKind returns the kind of an error. It is empty for an error that may be transient.
func faultKind(err error) resources.FaultKind {
	switch {
	case errors.Is(err, drivers.ErrQuota):
		return resources.FaultQuota
	case errors.Is(err, drivers.ErrCapacity):
		return resources.FaultCapacity
	case errors.Is(err, drivers.ErrRejected):
		return resources.FaultRejected
	case errors.Is(err, ErrProviderUnreachable):
		return resources.FaultUnavailable
	default:
		return ""
	}
}

// uploadFailed records another failed upload of the image to a provider.
func uploadFailed(r *resources.ImageRecord, provider string, now time.Time, cause error, build string) {
	if r.Uploads == nil {
		r.Uploads = map[string]*resources.Failure{}
	}
	r.Uploads[provider] = failedAgain(r.Uploads[provider], now, cause, build)
}

// failedAgain returns the failure to record after another one.
func failedAgain(before *resources.Failure, now time.Time, cause error, build string) *resources.Failure {
	f := &resources.Failure{Count: 1, Time: now, Kind: faultKind(cause), Error: cause.Error(), Build: build}
	if before != nil {
		f.Count += before.Count
	}
	if len(f.Error) > errorLength {
		f.Error = f.Error[:errorLength] + " ..."
	}
	return f
}
