package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// allowed returns an error if prevent_destroy forbids the removal. A rollback does not destroy the image, and neither
// does retention: prevent_destroy protects only the last ready build and the last ready upload in a provider.
func (r removal) allowed(want resources.Desired, records plan.Records) error {
	image := protectedImage(want, records, r.image)
	if r.build != nil && r.build.State == resources.StateReady && image {
		left := keepOf(inspect.BuildsOf(records, r.image), func(b *resources.Build) bool { return b.State == resources.StateReady && b.ID != r.build.ID })
		if len(left) == 0 {
			return protectedError(fmt.Sprintf("build %s is the last ready build, and image %s has prevent_destroy", r.build.ID, r.image))
		}
	}
	for _, u := range r.uploads {
		why := "image " + r.image
		if !image {
			why = "provider " + u.Provider
		}
		if u.State != resources.StateReady || !image && !protectedProvider(want, records, u.Provider) {
			continue
		}
		left := keepOf(inspect.UploadsOf(records, r.image), func(o *resources.Upload) bool {
			return o.Provider == u.Provider && o.State == resources.StateReady && !r.goes(o)
		})
		if len(left) == 0 {
			return protectedError(fmt.Sprintf("upload %s is the last of %s that is ready in %s, and %s has prevent_destroy", u.ID, r.image, u.Provider, why))
		}
	}
	return nil
}

func protectedError(text string) error {
	return hint(fmt.Errorf("%s", text), "upload or build another first, or set prevent_destroy = false and apply that")
}

func (r removal) goes(u *resources.Upload) bool {
	return slices.ContainsFunc(r.uploads, func(o *resources.Upload) bool { return o.ID == u.ID })
}

func protectedImage(want resources.Desired, records plan.Records, name string) bool {
	if img := inspect.ConfiguredImage(want, name); img != nil {
		return img.PreventDestroy
	}
	return inspect.ImageRecord(records, name).PreventDestroy
}

func protectedProvider(want resources.Desired, records plan.Records, name string) bool {
	for i := range want.Providers {
		if want.Providers[i].Name == name {
			return want.Providers[i].PreventDestroy
		}
	}
	return slices.ContainsFunc(records.Providers, func(p *resources.ProviderRecord) bool { return p.Name == name && p.PreventDestroy })
}

// nodesShown is the maximum number of nodes in an error.
const nodesShown = 5

// inUse returns an error if nodes that the plan keeps run from the uploads to delete.
func (r removal) inUse(records plan.Records, p plan.Plan) error {
	gone := map[resources.Key]bool{}
	for _, s := range p.Steps {
		gone[s.Record] = true
	}
	var names []string
	more := 0
	for _, n := range records.Nodes {
		if !slices.ContainsFunc(r.uploads, func(u *resources.Upload) bool { return u.ID == n.Upload && !gone[u.Key()] }) {
			continue
		}
		if len(names) == nodesShown {
			more++
			continue
		}
		names = append(names, fmt.Sprintf("%s (%s, %s)", recordAddress(n), n.Provider, n.State))
	}
	if len(names) == 0 {
		return nil
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return hint(fmt.Errorf("nodes run from the objects to delete: %s", text.And(names)),
		"-with-nodes replaces the ready ones; those in use stay, and so does their image until they are returned")
}

// afterRemoval returns notes about the effects of a removal: the build from which new nodes boot, and the steps of the
// next plan.
func afterRemoval(want resources.Desired, seen plan.Observed, r removal, p plan.Plan) []plan.Note {
	if slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Action == plan.ActionBuild }) {
		return nil // the new build replaces the removed one, and replaced nodes wait for it
	}
	after := r.without(seen)
	var notes []plan.Note
	add := func(severity plan.Severity, at plan.Address, format string, args ...any) {
		notes = append(notes, plan.Note{Severity: severity, Code: "afterwards", Address: at, Text: fmt.Sprintf(format, args...)})
	}
	img := inspect.ConfiguredImage(want, r.image)
	told := map[string]bool{}
	for _, u := range r.uploads {
		if !told[u.Provider] {
			told[u.Provider] = true
			r.bootsFrom(want, img, seen.Records, after.Records, u.Provider, add)
		}
	}
	next := plan.Compute(want, after, plan.Options{})
	for i := range next.Steps {
		r.comesBack(&next.Steps[i], img, add)
	}
	return notes
}

// bootsFrom adds a note if new nodes of a provider boot from another upload after the removal.
func (r removal) bootsFrom(want resources.Desired, img *resources.Image, before, after plan.Records, provider string, add func(plan.Severity, plan.Address, string, ...any)) {
	was, is := inspect.CurrentUpload(before, r.image, provider), inspect.CurrentUpload(after, r.image, provider)
	at := inspect.UploadAddress(provider, r.image)
	var labels []string
	for i := range want.Providers {
		if want.Providers[i].Name == provider && img != nil {
			labels = inspect.LabelsOf(&want.Providers[i], img.Ref())
		}
	}
	switch {
	case was == nil || is != nil && is.ID == was.ID || len(labels) == 0:
	case is == nil:
		add(plan.Warning, at, "provider %s will have no usable build of %s: no node of %s can be launched there before the next upload", provider, r.image, text.And(labels))
	default:
		add(plan.Info, at, "new nodes in %s boot from build %s (%s) again", provider, short(is.Build), is.Name)
	}
}

// comesBack adds a note for a step of the next plan that creates the removed build or upload again.
func (r removal) comesBack(s *plan.Step, img *resources.Image, add func(plan.Severity, plan.Address, string, ...any)) {
	if s.Image != r.image || img == nil {
		return
	}
	switch s.Action {
	case plan.ActionBuild:
		add(plan.Warning, s.Address, "the next plan builds %s again, because %s; -pause prevents that", r.image, s.Reason.Text())
	case plan.ActionUpload:
		if s.Build == "" {
			return // uploads of a new build follow from its build step
		}
		stop := "to keep it away, delete the build, or pause the image in that provider's block"
		add(plan.Warning, s.Address, "the next plan uploads build %s to %s, because %s; %s", short(s.Build), s.Provider, s.Reason.Text(), stop)
	}
}

// without returns the observed state after the removal.
func (r removal) without(seen plan.Observed) plan.Observed {
	seen.Records.Uploads = keepOf(seen.Records.Uploads, func(u *resources.Upload) bool { return !r.goes(u) })
	if r.build != nil {
		seen.Records.Builds = keepOf(seen.Records.Builds, func(b *resources.Build) bool { return b.ID != r.build.ID })
		seen.Files = keepOf(seen.Files, func(f plan.ImageFile) bool { return plan.BuildIDOfFile(f.Name) != r.build.ID })
		if seen.Files == nil {
			seen.Files = []plan.ImageFile{}
		}
	}
	seen.Providers = maps.Clone(seen.Providers)
	for name, view := range seen.Providers {
		view.Images = keepOf(view.Images, func(i resources.RemoteImage) bool {
			return !slices.ContainsFunc(r.uploads, func(u *resources.Upload) bool {
				return u.ID == i.Marks.ID || u.ExternalID != "" && u.ExternalID == i.ID
			})
		})
		seen.Providers[name] = view
	}
	return seen
}

// pausedRecord returns the records of the images, with one image paused.
func pausedRecord(r plan.Records, ref resources.ImageRef) []*resources.ImageRecord {
	paused := *inspect.ImageRecord(r, ref.Name)
	paused.Kind, paused.Paused = ref.Kind, true
	return append(keepOf(r.Images, func(i *resources.ImageRecord) bool { return i.Name != ref.Name }), &paused)
}
