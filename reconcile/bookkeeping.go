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

// historyLength is how many durations of a subject are kept.
const historyLength = 20

// rememberProvider records how to reach a provider before anything is made there.
func (x *execution) rememberProvider(ctx context.Context, name string) error {
	release, err := x.place(ctx, "record of provider "+name, 1) // two steps must not write it at once
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
	old, remembered := get[resources.ProviderRecord](x.ledger, record.Key())
	if remembered {
		record.Place, record.Frozen = old.Place, old.Frozen
	}
	if place := x.seen.Providers[name].Place; place != "" {
		record.Place = place
	}
	if !remembered || !reflect.DeepEqual(old, record) {
		if err := x.ledger.put(ctx, record); err != nil {
			return err
		}
	}
	x.guard.Lock()
	defer x.guard.Unlock()
	x.known[name] = true
	return nil
}

// rememberImages records what protects the images that exist or are about to.
func (x *execution) rememberImages(ctx context.Context, p plan.Plan) error {
	made := map[string]bool{}
	for _, b := range all[resources.Build](x.ledger) {
		made[b.Image] = true
	}
	for _, s := range p.Steps {
		made[s.Image] = made[s.Image] || s.Action == plan.ActionBuild
	}
	for _, img := range x.Desired.Images {
		if !made[img.Name] {
			continue
		}
		err := x.changeImage(ctx, img.Name, img.Kind, func(r *resources.ImageRecord) {
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

// template returns the record that explains a hash, or nothing when it is there already. Only images have files.
func (x *execution) template(hash resources.Hash, static, files map[string]string) []resources.Record {
	t := &resources.Template{Hash: hash, Static: static, Files: files}
	old, known := get[resources.Template](x.ledger, t.Key())
	if hash == "" || known && (old.Files != nil || files == nil) {
		return nil
	}
	return []resources.Record{t}
}

// took notes how long something took; tidy writes it down.
func (x *execution) took(subject string, seconds float64) {
	x.guard.Lock()
	defer x.guard.Unlock()
	x.seconds[subject] = append(x.seconds[subject], seconds)
}

// tidy writes the history, and drops what nothing refers to any more.
func (x *execution) tidy(ctx context.Context) error {
	x.guard.Lock()
	took := x.seconds
	x.seconds = map[string][]float64{}
	x.guard.Unlock()
	for subject, seconds := range took {
		h, known := get[resources.History](x.ledger, resources.Key{Kind: resources.KindHistory, ID: subject})
		if !known {
			h = &resources.History{Subject: subject}
		}
		h.Seconds = append(slices.Clone(h.Seconds), seconds...)
		h.Seconds = h.Seconds[max(0, len(h.Seconds)-historyLength):]
		if err := x.ledger.put(ctx, h); err != nil {
			return err
		}
	}
	if err := x.redate(ctx); err != nil {
		return err
	}
	if err := x.ledger.drop(ctx, x.unused()...); err != nil {
		return err
	}
	if len(all[resources.Build](x.ledger)) > 0 || x.seen.Installation == "" {
		return nil
	}
	return x.disclaim(x.seen.Installation)
}

// futureSlack is how far in the future the date of a build may be without being taken for one of a clock that was set back.
const futureSlack = time.Minute

// redate gives ready builds that are dated in the future the present date, so that rebuild_age counts from now on. In a
// shared store it changes nothing: dates there may be of other hosts' clocks.
func (x *execution) redate(ctx context.Context) error {
	if x.ledger.claims.store != nil {
		return nil
	}
	now := x.Now()
	for _, b := range all[resources.Build](x.ledger) {
		if b.State != resources.StateReady || !b.StateTime.After(now.Add(futureSlack)) {
			continue
		}
		x.Log.Warn("a build is dated in the future, so its date is set to the present", "image", b.Image, "build", b.ID, "date", b.StateTime)
		b.StateTime = now
		if err := x.ledger.put(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// unused lists templates, image and history records that belong to nothing any more.
func (x *execution) unused() []resources.Key {
	hashes, images := map[resources.Hash]bool{}, map[string]bool{}
	for _, b := range all[resources.Build](x.ledger) {
		hashes[b.Hash], images[b.Image] = true, true
	}
	for _, n := range all[resources.Node](x.ledger) {
		hashes[n.Hash] = true
	}
	var keys []resources.Key
	for _, t := range all[resources.Template](x.ledger) {
		if !hashes[t.Hash] {
			keys = append(keys, t.Key())
		}
	}
	for _, s := range all[resources.Sighting](x.ledger) {
		if _, configured := x.provider(s.Provider); !configured && s.Provider != "" && x.rememberedProvider(s.Provider) == nil {
			keys = append(keys, s.Key())
		}
	}
	for _, r := range all[resources.ImageRecord](x.ledger) {
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

// Sight records what carries our marks and has no record, so that the next plan knows it was seen before. It is called
// while the store is locked, after Observe.
func (e *Engine) Sight(ctx context.Context, seen plan.Observed) error {
	now, gone := plan.Sightings(seen, e.Desired.Settings.LeakSightings)
	if len(now) == 0 && len(gone) == 0 {
		return nil
	}
	l, err := openLedger(ctx, e.Store)
	if err != nil {
		return err
	}
	for _, s := range now {
		if err := l.put(ctx, s); err != nil {
			return err
		}
	}
	return l.drop(ctx, gone...)
}
