package inspect

import (
	"cmp"
	"maps"
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// UploadAddress returns the address of the uploads of an image to a provider.
func UploadAddress(provider, image string) plan.Address {
	return plan.Address("provider." + provider + ".image." + image)
}

// ImageRecord returns the record of an image, or an empty one.
func ImageRecord(r plan.Records, name string) *resources.ImageRecord {
	for _, record := range r.Images {
		if record.Name == name {
			return record
		}
	}
	return &resources.ImageRecord{Name: name}
}

// ConfiguredImage returns an image of the configuration, or nil.
func ConfiguredImage(want resources.Desired, name string) *resources.Image {
	for i := range want.Images {
		if want.Images[i].Name == name {
			return &want.Images[i]
		}
	}
	return nil
}

// ImageUsers returns the providers with a label that boots from the image, sorted by name.
func ImageUsers(want resources.Desired, img *resources.Image) []*resources.Provider {
	var users []*resources.Provider
	for i := range want.Providers {
		p := &want.Providers[i]
		if len(LabelsOf(p, img.Ref())) > 0 {
			users = append(users, p)
		}
	}
	return users
}

// LabelsOf returns the labels that boot from the image in a provider.
func LabelsOf(p *resources.Provider, ref resources.ImageRef) []string {
	var labels []string
	for i := range p.Pools {
		for j := range p.Pools[i].Offers {
			if o := &p.Pools[i].Offers[j]; o.Image == ref {
				labels = append(labels, o.Label)
			}
		}
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// UploadsPaused reports whether the configuration pauses uploads of an image to a provider.
func UploadsPaused(p *resources.Provider, img *resources.Image) bool {
	return slices.ContainsFunc(p.Images, func(i resources.ProviderImage) bool { return i.Image == img.Ref() && i.Pause })
}

// BuildsOf returns the builds of an image, newest first, in the order of the planner.
func BuildsOf(r plan.Records, image string) []*resources.Build {
	var builds []*resources.Build
	for _, b := range r.Builds {
		if b.Image == image {
			builds = append(builds, b)
		}
	}
	slices.SortFunc(builds, resources.CompareBuilds)
	return builds
}

// NewestReadyBuild returns the first ready build of a list in the order of BuildsOf, or nil.
func NewestReadyBuild(builds []*resources.Build) *resources.Build {
	for _, b := range builds {
		if b.State == resources.StateReady {
			return b
		}
	}
	return nil
}

// UploadsOf returns the uploads of an image by provider, the newest build first. New nodes of a provider boot from its
// first ready upload.
func UploadsOf(r plan.Records, image string) []*resources.Upload {
	builds := BuildsByID(r)
	var uploads []*resources.Upload
	for _, u := range r.Uploads {
		if u.Image == image {
			uploads = append(uploads, u)
		}
	}
	slices.SortFunc(uploads, func(a, b *resources.Upload) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), resources.CompareUploads(a, b, byID(builds)))
	})
	return uploads
}

// CurrentUpload returns the upload from which new nodes in a provider boot, or nil.
func CurrentUpload(r plan.Records, image, provider string) *resources.Upload {
	for _, u := range UploadsOf(r, image) {
		if u.Provider == provider && u.State == resources.StateReady {
			return u
		}
	}
	return nil
}

// CurrentUploads returns the upload of each image from which new nodes in each provider boot.
func CurrentUploads(r plan.Records) []*resources.Upload {
	builds := BuildsByID(r)
	current := map[[2]string]*resources.Upload{}
	for _, u := range r.Uploads {
		at := [2]string{u.Image, u.Provider}
		if other := current[at]; u.State == resources.StateReady && (other == nil || resources.CompareUploads(u, other, byID(builds)) < 0) {
			current[at] = u
		}
	}
	return slices.Collect(maps.Values(current))
}

// BuildsByID returns the builds by their ID.
func BuildsByID(r plan.Records) map[string]*resources.Build {
	builds := make(map[string]*resources.Build, len(r.Builds))
	for _, b := range r.Builds {
		builds[b.ID] = b
	}
	return builds
}

func byID(builds map[string]*resources.Build) func(string) *resources.Build {
	return func(id string) *resources.Build { return builds[id] }
}

// NewestReadyBuilds returns the newest ready build of each image, by name.
func NewestReadyBuilds(r plan.Records) map[string]*resources.Build {
	newest := map[string]*resources.Build{}
	for _, b := range r.Builds {
		if other := newest[b.Image]; b.State == resources.StateReady && (other == nil || resources.CompareBuilds(b, other) < 0) {
			newest[b.Image] = b
		}
	}
	return newest
}
