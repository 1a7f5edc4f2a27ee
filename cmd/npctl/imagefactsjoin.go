package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// addBuilds adds the builds, newest first.
func (w imageState) addBuilds(f *imageFacts) {
	builds := buildsOf(w.observed.Records, f.Name)
	f.Builds = make([]imageBuild, 0, len(builds))
	for _, b := range builds {
		f.Counts[string(b.State)]++
		f.Builds = append(f.Builds, w.build(b))
	}
	if newest := newestReadyBuild(builds); newest != nil {
		told := w.build(newest)
		f.Newest = &told
	}
}

func (w imageState) build(b *resources.Build) imageBuild {
	told := imageBuild{ID: b.ID, State: b.State, Created: b.Created, Since: b.StateTime, Seconds: b.Seconds, Builder: b.Builder,
		Host: b.Host, Version: b.Version, Error: b.Error, Log: w.logOf(b.Image, b.ID), Files: []imageFile{}}
	for _, file := range b.Files {
		one := imageFile{Name: file.Name, Format: file.Format, Size: file.Size, SHA256: file.SHA256}
		if w.onDisk != nil && !b.Remote {
			size, there := w.onDisk(file.Name)
			if one.Missing = !there; there {
				one.OnDisk = &size
			}
		}
		told.Files = append(told.Files, one)
	}
	return told
}

func (w imageState) logOf(image, build string) string {
	if w.log == nil || build == "" {
		return ""
	}
	return w.log(image, build)
}

// addUploads adds the uploads by provider, the newest build first.
func (w imageState) addUploads(f *imageFacts) {
	nodes := map[string]int{}
	for _, n := range w.observed.Records.Nodes {
		if n.Upload != "" {
			nodes[n.Upload]++
		}
	}
	f.Uploads = []imageUpload{}
	current := map[string]bool{} // by provider
	for _, u := range uploadsOf(w.observed.Records, f.Name) {
		told := imageUpload{ID: u.ID, Provider: u.Provider, Build: u.Build, State: u.State, Created: u.Created, Since: u.StateTime,
			Seconds: u.Seconds, Format: u.Format, Size: u.Size, Name: u.Name, ExternalID: u.ExternalID, Nodes: nodes[u.ID], Error: u.Error}
		if u.State == resources.StateReady && !current[u.Provider] {
			told.Current, current[u.Provider] = true, true
		}
		f.Uploads = append(f.Uploads, told)
	}
}

// addProviders adds the providers that use the image or still have an upload of it.
func (w imageState) addProviders(f *imageFacts, img *resources.Image) {
	byName := map[string]*imageProvider{}
	of := func(name string) *imageProvider {
		if byName[name] == nil {
			byName[name] = &imageProvider{Name: name}
		}
		return byName[name]
	}
	if img != nil {
		for _, p := range imageUsers(w.want, img) {
			told := of(p.Name)
			told.Wanted, told.Format, told.Paused = true, w.observed.Formats[p.Name], uploadsPaused(p, img)
		}
	}
	for i := range f.Uploads {
		u := &f.Uploads[i]
		if told := of(u.Provider); u.Current {
			told.Upload, told.Build, told.Newest = u.ID, u.Build, f.Newest != nil && f.Newest.ID == u.Build
		}
	}
	for _, told := range byName {
		f.Providers = append(f.Providers, *told)
	}
	slices.SortFunc(f.Providers, func(a, b imageProvider) int { return cmp.Compare(a.Name, b.Name) })
}

// addFailures adds the failures of builds and uploads that have not succeeded since, newest first.
func (w imageState) addFailures(f *imageFacts, record *resources.ImageRecord) {
	add := func(what, provider string, failure *resources.Failure) {
		if failure != nil {
			f.Failures = append(f.Failures, imageFailure{What: what, Provider: provider, Time: failure.Time, Count: failure.Count,
				Kind: failure.Kind, Error: failure.Error, Build: failure.Build, Log: w.logOf(f.Name, failure.Build)})
		}
	}
	add("build", "", record.Failure)
	for provider, failure := range record.Uploads {
		add("upload", provider, failure)
	}
	for i := range f.Builds {
		if b := &f.Builds[i]; b.State == resources.StateFailed && (record.Failure == nil || record.Failure.Build != b.ID) {
			add("build", "", &resources.Failure{Count: 1, Time: b.Since, Error: b.Error, Build: b.ID})
		}
	}
	for i := range f.Uploads {
		if u := &f.Uploads[i]; u.State == resources.StateFailed && record.Uploads[u.Provider] == nil {
			add("upload", u.Provider, &resources.Failure{Count: 1, Time: u.Since, Error: u.Error, Build: u.Build})
		}
	}
	slices.SortFunc(f.Failures, func(a, b imageFailure) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.What, b.What), cmp.Compare(a.Provider, b.Provider))
	})
}

// addNext adds the steps, notes and problems of the next plan for the image.
func (w imageState) addNext(f *imageFacts) {
	for i := range w.next.Steps {
		s := &w.next.Steps[i]
		if s.Image == f.Name && s.Thing != plan.ThingNode {
			f.Next = append(f.Next, imageStep{s.Action, s.Address, s.Thing, s.Reason, s.Reason.Text()})
		}
	}
	for _, n := range w.next.Notes {
		if aboutImage(n.Address, *f) {
			f.Notes = append(f.Notes, imageNote{n.Severity, n.Code, n.Text})
		}
	}
	for _, p := range w.next.Problems {
		if aboutImage(p.Address, *f) {
			f.Notes = append(f.Notes, imageNote{plan.Warning, "problem", p.Text})
		}
	}
}

// aboutImage reports whether an address is that of the image or of its uploads.
func aboutImage(at plan.Address, f imageFacts) bool {
	return string(at) == f.Address || isUploadAddress(at, f.Name)
}

func isUploadAddress(at plan.Address, image string) bool {
	return strings.HasPrefix(string(at), "provider.") && strings.HasSuffix(string(at), ".image."+image)
}

func uploadAddress(provider, image string) plan.Address {
	return plan.Address("provider." + provider + ".image." + image)
}

func imageRecordOf(r plan.Records, name string) *resources.ImageRecord {
	for _, record := range r.Images {
		if record.Name == name {
			return record
		}
	}
	return &resources.ImageRecord{Name: name}
}

func configuredImage(want resources.Desired, name string) *resources.Image {
	for i := range want.Images {
		if want.Images[i].Name == name {
			return &want.Images[i]
		}
	}
	return nil
}

// imageUsers returns the providers with a label that boots from the image, sorted by name.
func imageUsers(want resources.Desired, img *resources.Image) []*resources.Provider {
	var users []*resources.Provider
	for i := range want.Providers {
		p := &want.Providers[i]
		if len(labelsOf(p, img.Ref())) > 0 {
			users = append(users, p)
		}
	}
	return users
}

// labelsOf returns the labels that boot from the image in a provider.
func labelsOf(p *resources.Provider, ref resources.ImageRef) []string {
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

func uploadsPaused(p *resources.Provider, img *resources.Image) bool {
	return slices.ContainsFunc(p.Images, func(i resources.ProviderImage) bool { return i.Image == img.Ref() && i.Pause })
}

// buildsOf returns the builds of an image, newest first, in the order of the planner.
func buildsOf(r plan.Records, image string) []*resources.Build {
	var builds []*resources.Build
	for _, b := range r.Builds {
		if b.Image == image {
			builds = append(builds, b)
		}
	}
	slices.SortFunc(builds, newerBuild)
	return builds
}

func newerBuild(a, b *resources.Build) int {
	return cmp.Or(b.StateTime.Compare(a.StateTime), cmp.Compare(a.ID, b.ID))
}

func newestReadyBuild(builds []*resources.Build) *resources.Build {
	for _, b := range builds {
		if b.State == resources.StateReady {
			return b
		}
	}
	return nil
}

// uploadsOf returns the uploads of an image by provider, the newest build first. New nodes of a provider boot from its
// first ready upload.
func uploadsOf(r plan.Records, image string) []*resources.Upload {
	builds := map[string]*resources.Build{}
	for _, b := range buildsOf(r, image) {
		builds[b.ID] = b
	}
	var uploads []*resources.Upload
	for _, u := range r.Uploads {
		if u.Image == image {
			uploads = append(uploads, u)
		}
	}
	slices.SortFunc(uploads, func(a, b *resources.Upload) int {
		if by := cmp.Compare(a.Provider, b.Provider); by != 0 {
			return by
		}
		if x, y := builds[a.Build], builds[b.Build]; x != nil && y != nil && x != y {
			return newerBuild(x, y)
		}
		return cmp.Or(b.StateTime.Compare(a.StateTime), cmp.Compare(b.ID, a.ID))
	})
	return uploads
}
