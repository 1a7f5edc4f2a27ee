package inspect

import (
	"fmt"
	"maps"
	"slices"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// Removal is the part of an image to delete: a build with its uploads, or one upload.
type Removal struct {
	Image   string
	Build   *resources.Build
	Uploads []*resources.Upload
}

// Keys returns the records to remove, for plan.Options.
func (r Removal) Keys() []resources.Key {
	if r.Build != nil {
		return []resources.Key{r.Build.Key()}
	}
	return []resources.Key{r.Uploads[0].Key()}
}

// Has reports whether an upload is removed.
func (r Removal) Has(upload string) bool {
	return slices.ContainsFunc(r.Uploads, func(u *resources.Upload) bool { return u.ID == upload })
}

// Forbidden returns why prevent_destroy forbids the removal, or "". A rollback does not destroy the image, and neither
// does retention: prevent_destroy protects only the last ready build and the last ready upload in a provider.
func (r Removal) Forbidden(want resources.Desired, records plan.Records) string {
	image := plan.ProtectedImage(r.Image, want, records)
	if r.Build != nil && r.Build.State == resources.StateReady && image &&
		!slices.ContainsFunc(BuildsOf(records, r.Image), func(b *resources.Build) bool { return b.State == resources.StateReady && b.ID != r.Build.ID }) {
		return fmt.Sprintf("build %s is the last ready build, and image %s has prevent_destroy", r.Build.ID, r.Image)
	}
	for _, u := range r.Uploads {
		why := "image " + r.Image
		if !image {
			why = "provider " + u.Provider
		}
		if u.State == resources.StateReady && (image || plan.ProtectedProvider(u.Provider, want, records)) &&
			!slices.ContainsFunc(UploadsOf(records, r.Image), func(o *resources.Upload) bool {
				return o.Provider == u.Provider && o.State == resources.StateReady && !r.Has(o.ID)
			}) {
			return fmt.Sprintf("upload %s is the last of %s that is ready in %s, and %s has prevent_destroy", u.ID, r.Image, u.Provider, why)
		}
	}
	return ""
}

// Users returns the nodes that run from the uploads to delete and that a plan keeps.
func (r Removal) Users(records plan.Records, p plan.Plan) (users []*resources.Node) {
	gone := map[resources.Key]bool{}
	for _, s := range p.Steps {
		gone[s.Record] = true
	}
	for _, n := range records.Nodes {
		if r.Has(n.Upload) && !gone[resources.Key{Kind: resources.KindUpload, ID: n.Upload}] {
			users = append(users, n)
		}
	}
	return users
}

// Consequences returns notes about the effects of the removal that a plan executes: the build from which new nodes
// boot, and the steps of the next plan.
func (r Removal) Consequences(want resources.Desired, seen plan.Observed, p plan.Plan) (notes []plan.Note) {
	if slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Action == plan.ActionBuild }) {
		return nil // the new build replaces the removed one, and replaced nodes wait for it
	}
	img := ConfiguredImage(want, r.Image)
	if img == nil {
		return nil
	}
	add := func(severity plan.Severity, at plan.Address, format string, args ...any) {
		notes = append(notes, plan.Note{Severity: severity, Code: "afterwards", Address: at, Text: fmt.Sprintf(format, args...)})
	}
	after := r.without(seen)
	told := map[string]bool{}
	for _, u := range r.Uploads {
		if told[u.Provider] {
			continue
		}
		told[u.Provider] = true
		was, is := CurrentUpload(seen.Records, r.Image, u.Provider), CurrentUpload(after.Records, r.Image, u.Provider)
		labels := []string{}
		for _, p := range ImageUsers(want, img) {
			if p.Name == u.Provider {
				labels = LabelsOf(p, img.Ref())
			}
		}
		at := UploadAddress(u.Provider, r.Image)
		switch {
		case was == nil || is != nil && is.ID == was.ID || len(labels) == 0:
		case is == nil:
			add(plan.Warning, at, "provider %s will have no usable build of %s: no node of %s can be launched there before the next upload", u.Provider, r.Image, text.And(labels))
		default:
			add(plan.Info, at, "new nodes in %s boot from build %s (%s) again", u.Provider, is.Build[:min(8, len(is.Build))], is.Name)
		}
	}
	for _, s := range plan.Compute(want, after, plan.Options{}).Steps {
		switch {
		case s.Image != r.Image:
		case s.Action == plan.ActionBuild:
			add(plan.Warning, s.Address, "the next plan builds %s again, because %s; -pause prevents that", r.Image, s.Reason.Text())
		case s.Action == plan.ActionUpload && s.Build != "": // uploads of a new build follow from its build step
			add(plan.Warning, s.Address, "the next plan uploads build %s to %s, because %s; to keep it away, delete the build, or pause the image in that provider's block",
				s.Build[:min(8, len(s.Build))], s.Provider, s.Reason.Text())
		}
	}
	return notes
}

// without returns the observed state after the removal.
func (r Removal) without(seen plan.Observed) plan.Observed {
	seen.Records.Uploads = slices.DeleteFunc(slices.Clone(seen.Records.Uploads), func(u *resources.Upload) bool { return r.Has(u.ID) })
	if r.Build != nil {
		seen.Records.Builds = slices.DeleteFunc(slices.Clone(seen.Records.Builds), func(b *resources.Build) bool { return b.ID == r.Build.ID })
		seen.Files = slices.DeleteFunc(append([]plan.ImageFile{}, seen.Files...), func(f plan.ImageFile) bool { return plan.BuildIDOfFile(f.Name) == r.Build.ID })
	}
	seen.Providers = maps.Clone(seen.Providers)
	for name, view := range seen.Providers {
		view.Images = slices.DeleteFunc(slices.Clone(view.Images), func(i resources.RemoteImage) bool {
			return slices.ContainsFunc(r.Uploads, func(u *resources.Upload) bool {
				return u.ID == i.Marks.ID || u.ExternalID != "" && u.ExternalID == i.ID
			})
		})
		seen.Providers[name] = view
	}
	return seen
}
