// Package inspect is the read model: views of images, labels, providers, nodes and requests for the command line, the
// HTTP API and the metrics.
package inspect

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// Image describes an image: its configuration, builds, uploads and failures, and the steps of the next plan. image
// list and image show print it; docs/schemas/images.json is its schema.
type Image struct {
	Name       string              `json:"name"`
	Kind       resources.ImageKind `json:"kind,omitempty"`
	Address    string              `json:"address"`
	Configured bool                `json:"configured"`
	Settings   *ImageSettings      `json:"configuration,omitempty"`
	Pause      *ImagePause         `json:"pause,omitempty"`
	Protected  bool                `json:"prevent_destroy,omitempty"`
	Counts     map[string]int      `json:"build_counts"` // by state
	Newest     *ImageBuild         `json:"newest_build,omitempty"`
	Providers  []ImageProvider     `json:"providers"`
	Failures   []ImageFailure      `json:"failures"`
	Due        *time.Time          `json:"rebuild_due,omitempty"`
	Retry      *time.Time          `json:"next_attempt,omitempty"` // of a planned build that failed
	Next       []ImageStep         `json:"next_steps"`
	Notes      []ImageNote         `json:"notes"`
	Builds     []ImageBuild        `json:"builds,omitempty"`
	Uploads    []ImageUpload       `json:"uploads,omitempty"`
}

// ImageSettings holds the configuration of an image.
type ImageSettings struct {
	Builder           string           `json:"builder"`
	Formats           []string         `json:"formats"` // asked for, and needed by providers
	Keep              int              `json:"keep"`
	RebuildAge        float64          `json:"rebuild_age_seconds,omitempty"`
	DeleteAfterUpload bool             `json:"delete_after_upload,omitempty"`
	Source            resources.Source `json:"source"`
}

// ImagePause states whether a command or the configuration paused an image.
type ImagePause struct {
	Command       bool   `json:"by_command"`
	Configuration bool   `json:"by_configuration"`
	Reason        string `json:"reason,omitempty"`
}

// ImageBuild is a build and its files.
type ImageBuild struct {
	ID      string          `json:"id"`
	State   resources.State `json:"state"`
	Created time.Time       `json:"created"`
	Since   time.Time       `json:"state_time"`
	Seconds float64         `json:"seconds,omitempty"`
	Builder string          `json:"builder,omitempty"`
	Host    string          `json:"host,omitempty"`
	Version string          `json:"version,omitempty"`
	Error   string          `json:"error,omitempty"`
	Log     string          `json:"log,omitempty"`
	Files   []ImageFile     `json:"files"`
}

func (b *ImageBuild) Formats() []string {
	formats := make([]string, len(b.Files))
	for i, f := range b.Files {
		formats[i] = f.Format
	}
	return formats
}

// ImageFile is a file of a build. OnDisk is nil if the file is missing or cannot be checked: it is on another host, or
// the configuration cannot be read.
type ImageFile struct {
	Name    string `json:"name"`
	Format  string `json:"format"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256,omitempty"`
	Missing bool   `json:"missing,omitempty"`
	OnDisk  *int64 `json:"size_on_disk,omitempty"`
}

// ImageUpload is an upload of a build.
type ImageUpload struct {
	ID         string          `json:"id"`
	Provider   string          `json:"provider"`
	Build      string          `json:"build"`
	State      resources.State `json:"state"`
	Current    bool            `json:"current,omitempty"`         // new nodes boot from it
	Untested   bool            `json:"untested,omitempty"`        // test nodes have to validate it before nodes boot from it
	Rollout    int             `json:"rollout_percent,omitempty"` // the share of the nodes that may boot from it during its rollout
	Created    time.Time       `json:"created"`
	Since      time.Time       `json:"state_time"`
	Seconds    float64         `json:"seconds,omitempty"`
	Format     string          `json:"format,omitempty"`
	Size       int64           `json:"size,omitempty"`
	Name       string          `json:"cloud_name,omitempty"`
	ExternalID string          `json:"cloud_id,omitempty"`
	Nodes      int             `json:"nodes"` // booted from it
	Error      string          `json:"error,omitempty"`
	Launches   *ImageLaunches  `json:"launches,omitempty"` // nil: none has been counted
}

// ImageLaunches is what the launches from an upload have shown.
type ImageLaunches struct {
	Succeeded time.Time `json:"last_success,omitzero"` // updated at most once per hour
	Passed    int       `json:"passed_tests,omitempty"`
	Completed time.Time `json:"rollout_completed,omitzero"` // or promoted by a person
	Validated time.Time `json:"validated,omitzero"`         // by test nodes, or promoted by a person
	Failures  int       `json:"failures"`                   // since then, in a row, that the image may have caused
	Failed    time.Time `json:"last_failure,omitzero"`
	Error     string    `json:"error,omitempty"` // of the last failure
	// Rejected is a decision of a person or of test nodes, Pinned one of a person.
	Rejected *resources.Decision `json:"rejected,omitempty"`
	Pinned   *resources.Decision `json:"pinned,omitempty"`
}

// ImageProvider is a provider that uses the image or still has an upload of it.
type ImageProvider struct {
	Name   string `json:"name"`
	Wanted bool   `json:"wanted"` // a label there boots from it, or the image block there has upload = true
	Paused bool   `json:"paused,omitempty"`
	Format string `json:"format,omitempty"`
	Upload string `json:"upload,omitempty"` // that new nodes boot from
	Build  string `json:"build,omitempty"`  // of that upload
	Newest bool   `json:"newest"`           // whether that is the newest ready build
}

// ImageFailure is a failure of a build or upload since the last success.
type ImageFailure struct {
	What     string              `json:"what"` // build or upload
	Provider string              `json:"provider,omitempty"`
	Time     time.Time           `json:"time"`
	Count    int                 `json:"count"`
	Kind     resources.FaultKind `json:"kind,omitempty"`
	Error    string              `json:"error"`
	Build    string              `json:"build,omitempty"`
	Log      string              `json:"log,omitempty"`
}

// ImageStep is a step of the next plan.
type ImageStep struct {
	Action  plan.Action  `json:"action"`
	Address plan.Address `json:"address"`
	Thing   plan.Thing   `json:"thing"`
	Reason  plan.Reason  `json:"action_reason"`
	Text    string       `json:"action_reason_text"`
}

// ImageNote is a note or problem of the next plan.
type ImageNote struct {
	Severity plan.Severity `json:"severity"`
	Code     string        `json:"code"`
	Text     string        `json:"text"`
}

// ImageInput is the input from which views of images are computed.
type ImageInput struct {
	Fleet
	Next   plan.Plan                        // computed without a refresh
	OnDisk func(file string) (int64, bool)  // returns the occupied disk space; nil if the images directory is not known
	Log    func(image, build string) string // returns the path of a build's log, or ""; may be nil
}

// Images describes all configured or recorded images, sorted by name.
func (w ImageInput) Images() []Image {
	var all []Image
	for _, ref := range w.Refs() {
		all = append(all, w.Image(ref))
	}
	return all
}

// Refs returns the configured and recorded images, sorted by name.
func (w *Fleet) Refs() []resources.ImageRef {
	kinds := map[string]resources.ImageKind{}
	for _, u := range w.Observed.Records.Uploads {
		kinds[u.Image] = cmp.Or(kinds[u.Image], "")
	}
	for _, r := range w.Observed.Records.Images {
		kinds[r.Name] = r.Kind
	}
	for _, b := range w.Observed.Records.Builds {
		kinds[b.Image] = b.Kind
	}
	for i := range w.Desired.Images {
		kinds[w.Desired.Images[i].Name] = w.Desired.Images[i].Kind
	}
	refs := make([]resources.ImageRef, 0, len(kinds))
	for name, kind := range kinds {
		refs = append(refs, resources.ImageRef{Kind: cmp.Or(kind, resources.DiskImage), Name: name})
	}
	slices.SortFunc(refs, func(a, b resources.ImageRef) int { return cmp.Compare(a.Name, b.Name) })
	return refs
}

// Image describes one image.
func (w ImageInput) Image(ref resources.ImageRef) Image {
	f := Image{Name: ref.Name, Kind: ref.Kind, Address: ref.String(), Counts: map[string]int{},
		Providers: []ImageProvider{}, Failures: []ImageFailure{}, Next: []ImageStep{}, Notes: []ImageNote{}}
	record := ImageRecord(w.Observed.Records, ref.Name)
	pause := ImagePause{Command: record.Paused, Reason: record.PauseReason}
	f.Protected = record.PreventDestroy
	img := w.Desired.Image(ref.Name)
	if img != nil {
		f.Configured, f.Protected, pause.Configuration = true, img.PreventDestroy, img.Pause
		f.Settings = w.settings(img)
	}
	if pause.Command || pause.Configuration {
		f.Pause = &pause
	}
	w.addBuilds(&f)
	w.addUploads(&f)
	w.addProviders(&f, img)
	w.addFailures(&f, record)
	w.addNext(&f)
	if img != nil {
		hashes := plan.ImageHashes(img.Hashes, w.Observed.Inputs[img.Name].Hash)
		if slices.ContainsFunc(f.Next, func(s ImageStep) bool {
			return s.Action == plan.ActionBuild && plan.DelaysBuild(record.Failure, hashes, s.Reason, w.Observed.Now)
		}) {
			next := plan.NextBuildAttempt(record.Failure)
			f.Retry = &next
		}
	}
	if img != nil && img.Kind == resources.DiskImage && img.RebuildAge > 0 && f.Newest != nil {
		due := f.Newest.Since.Add(img.RebuildAge)
		f.Due = &due
	}
	return f
}

func (w ImageInput) settings(img *resources.Image) *ImageSettings {
	formats := slices.Clone(img.Formats)
	for _, p := range ImageUsers(w.Desired, img) {
		if format := w.Observed.Formats[p.Name]; format != "" {
			formats = append(formats, format)
		}
	}
	slices.Sort(formats)
	return &ImageSettings{Builder: img.Builder, Formats: append([]string{}, slices.Compact(formats)...), Keep: img.Keep,
		RebuildAge: img.RebuildAge.Seconds(), DeleteAfterUpload: img.DeleteAfterUpload, Source: img.Source}
}

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
	for _, u := range UploadsOf(w.Observed.Records, f.Name) {
		told := ImageUpload{ID: u.ID, Provider: u.Provider, Build: u.Build, State: u.State, Created: u.Created, Since: u.StateTime,
			Seconds: u.Seconds, Format: u.Format, Size: u.Size, Name: u.Name, ExternalID: u.ExternalID, Nodes: nodes[u.ID], Error: u.Error}
		choice := w.BootChoice(f.Name, u.Provider)
		told.Current, told.Untested = choice.Upload == u, choice.Untested == u
		if choice.Rollout != nil && choice.Rollout.Upload == u {
			told.Rollout = choice.Rollout.Share
		}
		if t := plan.TrialsOf(w.Observed.Records, f.Name, u.Provider)[u.ID]; t != nil {
			told.Launches = &ImageLaunches{Succeeded: t.Launched, Passed: t.Passed, Completed: t.Completed, Validated: t.Validated, Failures: t.Failures, Failed: t.Failed, Error: t.Error, Rejected: t.Rejected, Pinned: t.Pinned}
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
