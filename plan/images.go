package plan

import (
	"regexp"
	"slices"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// imagePlanner plans builds, conversions, uploads and their removal, image by image.
type imagePlanner struct {
	world           *world
	draft           *draft
	plannedUploads  map[imageAt]string       // upload steps by image and provider
	loginUpdates    map[resources.Key]string // uploads with a changed login, and the step that records it
	replacedUploads map[resources.Key]bool   // uploads that -replace names, deleted after their successors are ready
}

type imageAt struct{ image, provider string }

func planImages(w *world, d *draft) *imagePlanner {
	ip := &imagePlanner{world: w, draft: d, plannedUploads: map[imageAt]string{}, loginUpdates: map[resources.Key]string{},
		replacedUploads: map[resources.Key]bool{}}
	ip.removals()
	for i := range ip.world.want.Images {
		ip.image(&ip.world.want.Images[i])
	}
	ip.borrowed()
	ip.removedImages()
	return ip
}

// borrowed makes builds that use an instance wait for the image that the instance boots from.
func (ip *imagePlanner) borrowed() {
	for i := range ip.draft.steps {
		s := &ip.draft.steps[i]
		if s.Kind != KindBuild {
			continue
		}
		image, ok := ip.imageOfOffer(ip.world.seen.InstanceOffers[s.Image])
		if !ok {
			continue
		}
		at := imageAt{image, ip.world.seen.InstanceOffers[s.Image].Provider}
		switch coming := ip.plannedUploads[at]; {
		case coming == "":
		case len(ip.draft.readyUploads(at.image, at.provider)) == 0:
			s.Needs = append(s.Needs, coming)
		default:
			s.After = append(s.After, coming)
		}
	}
}

// imageOfOffer returns the image that instances of an offer boot from, and whether npctl uploads it.
func (ip *imagePlanner) imageOfOffer(ref OfferRef) (string, bool) {
	for _, s := range ip.world.pools {
		if s.at.provider != ref.Provider || ref.Pool != "" && ref.Pool != s.at.pool {
			continue
		}
		if offer := s.pool.Offer(ref.Label); offer != nil {
			return offer.Image.Name, offer.Image.IsUploaded()
		}
	}
	return "", false
}

// image plans one configured image.
func (ip *imagePlanner) image(img *resources.Image) {
	if ip.world.workedOn(img.Name) || ip.leftToOtherBuilder(img) || ip.imports(img) {
		return
	}
	users := ip.users(img)
	unfinished := ip.unfinishedBuilds(img)
	for _, u := range ip.world.uploads[img.Name] {
		if ip.world.reachable(u.Provider) {
			ip.checkUpload(u)
		}
	}
	newest := ip.newestReady(img.Name)
	formats := slices.Clone(img.Formats) // of a new build
	for _, p := range users {
		if f := ip.world.seen.Formats[p.Name]; f != "" {
			formats = append(formats, f)
		}
	}
	slices.Sort(formats)
	formats = slices.Compact(formats)
	if len(formats) == 0 {
		ip.superseded(img, users, "")
		return // neither a provider nor the image itself needs a format
	}
	build := ""
	if newest == nil || !slices.Contains(ip.world.opt.Upload, newest.ID) {
		build = ip.planBuild(img, newest, unfinished, users, formats)
	}
	for _, p := range users {
		ip.planUpload(img, p, newest, build)
	}
	ip.superseded(img, users, build)
	ip.uploadedFiles(img, users, build)
	for _, p := range users {
		ip.logins(img, p)
		if count := ip.draft.readyOn(p.Name, ip.olderThan(ip.noteReturn(img, p))...); count > 0 {
			ip.draft.note(Info, "older-build", uploadAddress(p.Name, img.Name), img.Source,
				"%s of %s in %s: an older build; used nodes are replaced from a newer one", text.Count(count, "ready node", "ready nodes"), img.Name, p.Name)
		}
	}
}

// unfinishedBuilds plans the removal of failed and interrupted builds, and returns the newest resumable one.
func (ip *imagePlanner) unfinishedBuilds(img *resources.Image) (resumed *resources.Build) {
	for _, b := range ip.world.builds[img.Name] {
		switch {
		case b.State == resources.StateFailed:
			ip.deleteBuild(b, ReasonFailed)
		case b.State == resources.StateBuilding && b.Remote && resumed == nil && b.Builder == img.Builder && ip.hashes(img).Match(b.Hash):
			resumed = b
		case b.State != resources.StateReady:
			ip.deleteBuild(b, ReasonUnfinished)
		}
	}
	return resumed
}

// users returns the providers to which the image is uploaded, by name.
func (ip *imagePlanner) users(img *resources.Image) []*resources.Provider {
	var users []*resources.Provider
	for i := range ip.world.want.Providers {
		if p := &ip.world.want.Providers[i]; p.Uses(img.Ref()) {
			users = append(users, p)
		}
	}
	return users
}

// newestReady returns the newest build that can be uploaded, or the build that Options.Upload names.
func (ip *imagePlanner) newestReady(image string) *resources.Build {
	for _, id := range ip.world.opt.Upload {
		if b := ip.world.build[id]; b != nil && b.Image == image && b.State == resources.StateReady {
			return b
		}
	}
	for _, b := range ip.world.builds[image] {
		if b.State == resources.StateReady && ip.draft.deletedBy[b.Key()] == "" {
			return b
		}
	}
	return nil
}

// hashes returns the hashes of an image: of its block, combined with its local input files.
func (ip *imagePlanner) hashes(img *resources.Image) resources.Hashes {
	return ImageHashes(img.Hashes, ip.world.seen.Inputs[img.Name].Hash)
}

// ImageHashes combines the hashes of an image block with the digest of the local files that go into the image.
func ImageHashes(block resources.Hashes, inputs resources.Hash) resources.Hashes {
	if inputs == "" {
		return block
	}
	combined := make(resources.Hashes, len(block))
	for i, h := range block {
		combined[i] = h.MapDigests(func(part string) string { return digest(part, string(inputs)) + digest(string(inputs), part) })
	}
	return combined
}

// planBuild adds a build step if one is due and returns its ID.
func (ip *imagePlanner) planBuild(img *resources.Image, newest, unfinished *resources.Build, users []*resources.Provider, formats []string) string {
	at := imageAddress(img.Kind, img.Name)
	if why := ip.world.seen.InputErrors[img.Name]; why != "" {
		ip.draft.problems = append(ip.draft.problems, Problem{Address: at, Text: why, Source: img.Source})
		return ""
	}
	due := ip.buildDue(img, newest, users)
	if f := ip.world.imageRecord(img.Name).Failure; f != nil && due.reason != "" {
		due.evidence = append(due.evidence, failureFacts(f)...)
	}
	if unfinished != nil {
		due = dueBuild{reason: ReasonUnfinished, evidence: []Fact{{"build", unfinished.ID}}}
	}
	if due.reason == "" {
		if newest != nil {
			ip.draft.kept.addresses = append(ip.draft.kept.addresses, at)
		}
		return ""
	}
	if ip.buildBlocked(img, due, unfinished) {
		return ""
	}
	s := Step{Address: at, Kind: KindBuild, Reason: due.reason, Evidence: due.evidence,
		Changes: due.changes, Files: due.files, Image: img.Name, Formats: formats, Version: due.version, Replaces: newest != nil,
		Estimate: ip.world.estimate("build/" + img.Name), Source: img.Source, Preconditions: ip.touchBuild(img, newest)}
	if unfinished != nil {
		s.Record, s.Build = unfinished.Key(), unfinished.ID
	}
	return ip.draft.add(s)
}

// buildBlocked notes why a due build is not planned, and reports whether it is blocked.
func (ip *imagePlanner) buildBlocked(img *resources.Image, due dueBuild, unfinished *resources.Build) bool {
	at := imageAddress(img.Kind, img.Name)
	failure := ip.world.imageRecord(img.Name).Failure
	switch {
	case (img.Pause || ip.world.imageRecord(img.Name).Paused) && unfinished == nil:
		ip.draft.note(Info, "paused", at, img.Source, "%s is paused, so it is not built though %s", at, due.reason.Text())
	case ip.world.seen.Builders != nil && !slices.Contains(ip.world.seen.Builders, img.Builder):
		ip.draft.note(Warning, "no-builder", at, img.Source, "%s needs builder %q, which this npctl cannot run", at, img.Builder)
	case ip.world.opt.HonorBackoff && (due.reason != ReasonRequested || due.stored) && DelaysBuild(failure, ip.hashes(img), due.reason, ip.world.seen.Now):
		ip.draft.note(Warning, NoteFailing, at, img.Source, "%s has failed %s; it is tried again after %s: %s", at,
			times(failure.Count), clock(buildBackoff.next(failure)), FirstLine(failure.Error))
	default:
		return false
	}
	return true
}

// touchBuild returns the preconditions of a new build: the newest build is still the newest, and the local files are
// unchanged.
func (ip *imagePlanner) touchBuild(img *resources.Image, newest *resources.Build) []Fingerprint {
	touches := []Fingerprint{{Subject: "builds of " + img.Name, Digest: noRecord}}
	if newest != nil {
		touches[0] = ip.world.fingerprint(newest.Key())
	}
	if inputs := ip.world.seen.Inputs[img.Name].Hash; inputs != "" {
		touches = append(touches, Fingerprint{Subject: "files of " + img.Ref().String(), Digest: digest(string(inputs))})
	}
	return touches
}

var buildFile = regexp.MustCompile(`^.+-([0-9a-f]{32})(\.|$)`)

// BuildIDOfFile returns the build ID in the name of an image file of npctl, <image>-<32 hex digits>[.<ext>…], or "".
func BuildIDOfFile(name string) string {
	if m := buildFile.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}

// dueBuild is the reason why a build is due, or zero.
type dueBuild struct {
	reason   Reason
	evidence []Fact
	changes  []Change
	files    []FileChange
	version  string
	stored   bool // the request stays in the store until a build succeeds
}

func (ip *imagePlanner) buildDue(img *resources.Image, newest *resources.Build, users []*resources.Provider) dueBuild {
	view, external := ip.world.seen.Versions[img.Name]
	if img.Kind == resources.ZuulImage || newest != nil && newest.Version != "" || external && view.Err == "" {
		return ip.fetchDue(img, newest, users)
	}
	due := ip.stale(img, newest, users)
	if due.reason == "" && img.RebuildAge > 0 {
		if age := ip.world.seen.Now.Sub(newest.StateTime); age >= img.RebuildAge {
			due = dueBuild{reason: ReasonRebuildAge, evidence: []Fact{{"build", newest.ID},
				{"age", age.Truncate(time.Second).String()}, {"rebuild_age", img.RebuildAge.String()}}}
		}
	}
	return due
}

// stale returns why the newest build cannot be used, regardless of its age.
func (ip *imagePlanner) stale(img *resources.Image, newest *resources.Build, users []*resources.Provider) dueBuild {
	if ip.draft.isReplaceTarget(imageAddress(img.Kind, img.Name)) {
		return dueBuild{reason: ReasonRequested}
	}
	if slices.Contains(ip.world.seen.RequestedBuilds, img.Name) {
		return dueBuild{reason: ReasonRequested, stored: true}
	}
	if newest == nil {
		return dueBuild{reason: ReasonNoBuild}
	}
	facts := []Fact{{"build", newest.ID}}
	if !ip.hashes(img).Match(newest.Hash) {
		return dueBuild{reason: ReasonInputsChanged, evidence: facts, changes: ip.world.changes(newest.Hash, img.Static),
			files: ip.world.changedFiles(newest.Hash, ip.world.seen.Inputs[img.Name].Files)}
	}
	if missing := ip.lostFile(img, newest, users); missing != "" {
		return dueBuild{reason: ReasonFileMissing, evidence: append(facts, Fact{"format", missing})}
	}
	return dueBuild{}
}

// fetchDue returns why an image of an external source is to be fetched, and the version. If the source could not be
// queried, the existing build stays in use.
func (ip *imagePlanner) fetchDue(img *resources.Image, newest *resources.Build, users []*resources.Provider) dueBuild {
	at := imageAddress(img.Kind, img.Name)
	due := ip.stale(img, newest, users)
	view, looked := ip.world.seen.Versions[img.Name]
	if !looked {
		if img.Kind == resources.ZuulImage {
			return dueBuild{}
		}
		return due // the build host is down, or has another source for the image now
	}
	if view.Err != "" {
		ip.draft.note(Warning, "source", at, img.Source, "the source of %s could not be queried, so no new build is fetched: %s", at, view.Err)
		return dueBuild{}
	}
	gone := ip.world.imageRecord(img.Name).MissingVersions
	i := slices.IndexFunc(view.Versions, func(v resources.Version) bool { return !slices.Contains(gone, v.ID) })
	if i < 0 {
		if newest == nil {
			ip.draft.note(Warning, "source", at, img.Source, "the source of %s has no build yet", at)
		}
		return dueBuild{}
	}
	version := view.Versions[i]
	if due.reason == "" && version.ID != newest.Version && version.Time.After(versionTime(newest)) {
		due = dueBuild{reason: ReasonNewVersion, evidence: []Fact{{"build", newest.ID}}}
	}
	if due.reason == "" {
		return due
	}
	due.version = version.ID
	due.evidence = append(due.evidence, Fact{"version", version.ID}, Fact{"made", clock(version.Time)})
	return due
}

// versionTime returns the time of a build's version. Without a version, a build host built the newest one at that time.
func versionTime(b *resources.Build) time.Time {
	if b.Version == "" && b.Remote {
		return b.Created
	}
	return b.VersionTime
}

// lostFile returns a format that is still to be uploaded although the build has no file left to upload or convert.
func (ip *imagePlanner) lostFile(img *resources.Image, newest *resources.Build, users []*resources.Provider) string {
	if newest.Remote || slices.ContainsFunc(newest.Files, ip.present) {
		return ""
	}
	for _, p := range users {
		if ip.world.reachable(p.Name) && !ip.imagePaused(p, img) && ip.uploadOf(img.Name, p.Name, newest.ID) == nil {
			return ip.world.seen.Formats[p.Name]
		}
	}
	return ""
}

// present reports whether the file is in the images directory. It assumes so if the directory was not read.
func (ip *imagePlanner) present(f resources.ImageFile) bool {
	return ip.world.seen.Files == nil || ip.world.files[f.Name]
}
