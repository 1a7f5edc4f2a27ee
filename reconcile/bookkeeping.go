package reconcile

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// historyLength is the number of durations kept for each subject.
const historyLength = 20

// rememberProvider records how to connect to a provider before a step creates anything there.
func (x *execution) rememberProvider(ctx context.Context, name string) error {
	release, err := x.acquire(ctx, "record of provider "+name, 1) // two steps must not write it at the same time
	if err != nil {
		return err
	}
	defer release()
	p, configured := x.provider(name)
	x.guard.Lock()
	known := x.known[name]
	x.guard.Unlock()
	if known || !configured {
		return nil
	}
	record, err := Remember(p, x.Drivers[p.Driver].Schema().Provider)
	if err != nil {
		return err
	}
	old, remembered := get[resources.ProviderRecord](x.cache, record.Key())
	if remembered {
		record.Location, record.Frozen = old.Location, old.Frozen
	}
	if place := x.seen.Providers[name].Location; place != "" {
		record.Location = place
	}
	if !remembered || !reflect.DeepEqual(old, record) {
		if err := x.cache.put(ctx, record); err != nil {
			return err
		}
	}
	x.guard.Lock()
	defer x.guard.Unlock()
	x.known[name] = true
	return nil
}

// rememberImages records the kind and prevent_destroy of each image that has a build or gets one by the plan.
func (x *execution) rememberImages(ctx context.Context, p plan.Plan) error {
	made := map[string]bool{}
	for _, b := range all[resources.Build](x.cache) {
		made[b.Image] = true
	}
	for _, s := range p.Steps {
		made[s.Image] = made[s.Image] || s.Action == plan.ActionBuild
	}
	for _, img := range x.Desired.Images {
		if !made[img.Name] {
			continue
		}
		err := x.imageRecords().change(ctx, img.Name, img.Kind, func(r *resources.ImageRecord) {
			r.Kind, r.PreventDestroy = img.Kind, img.PreventDestroy
			maps.DeleteFunc(r.Uploads, func(provider string, _ *resources.Failure) bool {
				_, configured := x.provider(provider)
				return !configured
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// template returns the record that explains a hash, or nil if it exists already. Only images have files.
func (x *execution) template(hash resources.Hash, static, files map[string]string) []resources.Record {
	t := &resources.Template{Hash: hash, Static: static, Files: files}
	old, known := get[resources.Template](x.cache, t.Key())
	if hash == "" || known && (old.Files != nil || files == nil) {
		return nil
	}
	return []resources.Record{t}
}

// recordDuration collects the duration of a step; tidy stores it.
func (x *execution) recordDuration(subject string, seconds float64) {
	x.guard.Lock()
	defer x.guard.Unlock()
	x.seconds[subject] = append(x.seconds[subject], seconds)
}

// tidy writes the history and removes records that nothing refers to any more.
func (x *execution) tidy(ctx context.Context) error {
	x.guard.Lock()
	took := x.seconds
	x.seconds = map[string][]float64{}
	x.guard.Unlock()
	for subject, seconds := range took {
		h, known := get[resources.History](x.cache, resources.Key{Kind: resources.KindHistory, ID: subject})
		if !known {
			h = &resources.History{Subject: subject}
		}
		h.Seconds = append(slices.Clone(h.Seconds), seconds...)
		h.Seconds = h.Seconds[max(0, len(h.Seconds)-historyLength):]
		if err := x.cache.put(ctx, h); err != nil {
			return err
		}
	}
	if err := x.fixFutureDates(ctx); err != nil {
		return err
	}
	if err := x.cache.drop(ctx, x.unused()...); err != nil {
		return err
	}
	if len(all[resources.Build](x.cache)) > 0 || x.seen.Installation == "" {
		return nil
	}
	return x.files().release(x.seen.Installation)
}

// futureSlack is how far in the future the date of a build may be before it is attributed to a clock that was set back.
const futureSlack = time.Minute

// fixFutureDates sets the date of ready builds that are dated in the future to the present, so that rebuild_age counts
// from now on. It skips a shared store, where dates may come from the clocks of other hosts.
func (x *execution) fixFutureDates(ctx context.Context) error {
	if x.cache.claims.store != nil {
		return nil
	}
	now := x.Now()
	for _, b := range all[resources.Build](x.cache) {
		if b.State != resources.StateReady || !b.StateTime.After(now.Add(futureSlack)) {
			continue
		}
		x.Log.Warn("a build is dated in the future; its date is set to now", "image", b.Image, "build", b.ID, "date", b.StateTime)
		b.StateTime = now
		if err := x.cache.put(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// unused lists the templates, sightings and image records that nothing refers to any more.
func (x *execution) unused() []resources.Key {
	hashes, images := map[resources.Hash]bool{}, map[string]bool{}
	for _, b := range all[resources.Build](x.cache) {
		hashes[b.Hash], images[b.Image] = true, true
	}
	for _, n := range all[resources.Node](x.cache) {
		hashes[n.Hash] = true
	}
	var keys []resources.Key
	for _, t := range all[resources.Template](x.cache) {
		if !hashes[t.Hash] {
			keys = append(keys, t.Key())
		}
	}
	for _, s := range all[resources.Sighting](x.cache) {
		if _, configured := x.provider(s.Provider); !configured && s.Provider != "" && x.rememberedProvider(s.Provider) == nil {
			keys = append(keys, s.Key())
		}
	}
	for _, r := range all[resources.ImageRecord](x.cache) {
		failing := x.configured(r.Name) && (r.Failure != nil || len(r.Uploads) > 0)
		if !images[r.Name] && !r.PreventDestroy && !r.Paused && !failing {
			keys = append(keys, r.Key())
		}
	}
	return keys
}

func (e *Engine) configured(image string) bool {
	return slices.ContainsFunc(e.Desired.Images, func(i resources.Image) bool { return i.Name == image })
}

// Sight records leaks. It is called while the store is locked, after Observe.
func (e *Engine) Sight(ctx context.Context, seen plan.Observed) error {
	there, gone := plan.Sightings(seen, e.Desired.Settings.LeakSightings)
	if len(there)+len(gone) == 0 {
		return nil
	}
	l, err := openLedger(ctx, e.Store)
	if err != nil {
		return err
	}
	return l.sight(ctx, there, gone)
}
