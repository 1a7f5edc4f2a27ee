package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// addBuilds adds the builds, newest first.
func (w ImageInput) addBuilds(f *Image) {
	builds := BuildsOf(w.Observed.Records, f.Name)
	f.Builds = make([]ImageBuild, 0, len(builds))
	for _, b := range builds {
		f.Counts[string(b.State)]++
		f.Builds = append(f.Builds, w.build(b))
	}
	if newest := NewestReadyBuild(builds); newest != nil {
		told := w.build(newest)
		f.Newest = &told
	}
}

func (w ImageInput) build(b *resources.Build) ImageBuild {
	told := ImageBuild{ID: b.ID, State: b.State, Created: b.Created, Since: b.StateTime, Seconds: b.Seconds, Builder: b.Builder,
		Host: b.Host, Version: b.Version, Error: b.Error, Log: w.logOf(b.Image, b.ID), Files: []ImageFile{}}
	for _, file := range b.Files {
		one := ImageFile{Name: file.Name, Format: file.Format, Size: file.Size, SHA256: file.SHA256}
		if w.OnDisk != nil && !b.Remote {
			size, there := w.OnDisk(file.Name)
			if one.Missing = !there; there {
				one.OnDisk = &size
			}
		}
		told.Files = append(told.Files, one)
	}
	return told
}

func (w ImageInput) logOf(image, build string) string {
	if w.Log == nil || build == "" {
		return ""
	}
	return w.Log(image, build)
}

// addUploads adds the uploads by provider, the newest build first.
func (w ImageInput) addUploads(f *Image) {
	nodes := map[string]int{}
	for _, n := range w.Observed.Records.Nodes {
		if n.Upload != "" {
			nodes[n.Upload]++
		}
	}
	f.Uploads = []ImageUpload{}
	current := map[string]bool{} // by provider
	for _, u := range UploadsOf(w.Observed.Records, f.Name) {
		told := ImageUpload{ID: u.ID, Provider: u.Provider, Build: u.Build, State: u.State, Created: u.Created, Since: u.StateTime,
			Seconds: u.Seconds, Format: u.Format, Size: u.Size, Name: u.Name, ExternalID: u.ExternalID, Nodes: nodes[u.ID], Error: u.Error}
		if u.State == resources.StateReady && !current[u.Provider] {
			told.Current, current[u.Provider] = true, true
		}
		f.Uploads = append(f.Uploads, told)
	}
}

// addProviders adds the providers that use the image or still have an upload of it.
func (w ImageInput) addProviders(f *Image, img *resources.Image) {
	byName := map[string]*ImageProvider{}
	of := func(name string) *ImageProvider {
		if byName[name] == nil {
			byName[name] = &ImageProvider{Name: name}
		}
		return byName[name]
	}
	if img != nil {
		for _, p := range ImageUsers(w.Desired, img) {
			told := of(p.Name)
			told.Wanted, told.Format, told.Paused = true, w.Observed.Formats[p.Name], UploadsPaused(p, img)
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
	slices.SortFunc(f.Providers, func(a, b ImageProvider) int { return cmp.Compare(a.Name, b.Name) })
}

// addFailures adds the failures of builds and uploads that have not succeeded since, newest first.
func (w ImageInput) addFailures(f *Image, record *resources.ImageRecord) {
	add := func(what, provider string, failure *resources.Failure) {
		if failure != nil {
			f.Failures = append(f.Failures, ImageFailure{What: what, Provider: provider, Time: failure.Time, Count: failure.Count,
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
	slices.SortFunc(f.Failures, func(a, b ImageFailure) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.What, b.What), cmp.Compare(a.Provider, b.Provider))
	})
}

// addNext adds the steps, notes and problems of the next plan for the image.
func (w ImageInput) addNext(f *Image) {
	for i := range w.Next.Steps {
		s := &w.Next.Steps[i]
		if s.Image == f.Name && s.Thing != plan.ThingNode {
			f.Next = append(f.Next, ImageStep{s.Action, s.Address, s.Thing, s.Reason, s.Reason.Text()})
		}
	}
	for _, n := range w.Next.Notes {
		if aboutImage(n.Address, *f) {
			f.Notes = append(f.Notes, ImageNote{n.Severity, n.Code, n.Text})
		}
	}
	for _, p := range w.Next.Problems {
		if aboutImage(p.Address, *f) {
			f.Notes = append(f.Notes, ImageNote{plan.Warning, "problem", p.Text})
		}
	}
}

// aboutImage reports whether an address is that of the image or of its uploads.
func aboutImage(at plan.Address, f Image) bool {
	return string(at) == f.Address || isUploadAddress(at, f.Name)
}

func isUploadAddress(at plan.Address, image string) bool {
	return strings.HasPrefix(string(at), "provider.") && strings.HasSuffix(string(at), ".image."+image)
}
