package plan

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// images plans builds, conversions, uploads and their removal, image by image.
func (c *computation) images() {
	c.plannedUploads = map[imageAt]string{}
	c.replacedUploads = map[resources.Key]bool{}
	c.loginUpdates = map[resources.Key]string{}
	for i := range c.want.Images {
		c.image(&c.want.Images[i])
	}
	c.borrowed()
	c.removedImages()
}

// borrowed makes builds that use an instance wait for the image that the instance boots from.
func (c *computation) borrowed() {
	for i := range c.steps {
		s := &c.steps[i]
		if s.Action != ActionBuild {
			continue
		}
		image, ok := c.imageOfOffer(c.seen.InstanceOffers[s.Image])
		if !ok {
			continue
		}
		at := imageAt{image, c.seen.InstanceOffers[s.Image].Provider}
		switch coming := c.plannedUploads[at]; {
		case coming == "":
		case len(c.readyUploads(at.image, at.provider)) == 0:
			s.Needs = append(s.Needs, coming)
		default:
			s.After = append(s.After, coming)
		}
	}
}

// imageOfOffer returns the image that instances of an offer boot from, and whether npctl uploads it.
func (c *computation) imageOfOffer(ref OfferRef) (string, bool) {
	for _, s := range c.world.pools {
		if s.at.provider != ref.Provider || ref.Pool != "" && ref.Pool != s.at.pool {
			continue
		}
		if offer := s.pool.Offer(ref.Label); offer != nil {
			return offer.Image.Name, offer.Image.Kind != resources.CloudImage
		}
	}
	return "", false
}

// image plans one configured image.
func (c *computation) image(img *resources.Image) {
	if c.workedOn(img.Name) || c.leftToOtherBuilder(img) {
		return
	}
	users := c.users(img)
	unfinished := c.unfinishedBuilds(img)
	c.unfinishedUploads(img)
	newest := c.newestReady(img.Name)
	formats := c.formats(img, users)
	if len(formats) == 0 {
		c.superseded(img, users, "")
		return // neither a provider nor the image itself needs a format
	}
	build := ""
	if newest == nil || !slices.Contains(c.opt.Upload, newest.ID) {
		build = c.planBuild(img, newest, unfinished, users, formats)
	}
	for _, p := range users {
		c.planUpload(img, p, newest, build)
	}
	c.superseded(img, users, build)
	c.uploadedFiles(img, users, build)
	for _, p := range users {
		c.logins(img, p)
		c.olderBuilds(img, p)
	}
}

// olderBuilds notes the ready nodes that run from an older build of the image than new nodes will.
func (c *computation) olderBuilds(img *resources.Image, p *resources.Provider) {
	ready := c.readyUploads(img.Name, p.Name)
	older := slices.DeleteFunc(slices.Clone(ready), func(u *resources.Upload) bool { return u.Build == ready[0].Build })
	if count := c.readyOn(p.Name, older...); count > 0 {
		c.note(Info, "older-build", uploadAddress(p.Name, img.Name), img.Source,
			"%s of %s in %s: an older build; used nodes are replaced from the newest one", text.Count(count, "ready node", "ready nodes"), img.Name, p.Name)
	}
}

// unfinishedBuilds plans the removal of failed and interrupted builds, and returns the newest resumable one.
func (c *computation) unfinishedBuilds(img *resources.Image) (resumed *resources.Build) {
	for _, b := range c.world.builds[img.Name] {
		switch {
		case b.State == resources.StateFailed:
			c.deleteBuild(b, ReasonFailed)
		case b.State == resources.StateBuilding && b.Remote && resumed == nil && b.Builder == img.Builder && c.hashes(img).Match(b.Hash):
			resumed = b
		case b.State != resources.StateReady:
			c.deleteBuild(b, ReasonUnfinished)
		}
	}
	return resumed
}

// users returns the providers with an offer of the image, by name.
func (c *computation) users(img *resources.Image) []*resources.Provider {
	var users []*resources.Provider
	for i := range c.want.Providers {
		p := &c.want.Providers[i]
		uses := slices.ContainsFunc(p.Pools, func(pool resources.Pool) bool {
			return slices.ContainsFunc(pool.Offers, func(o resources.Offer) bool { return o.Image == img.Ref() })
		})
		if uses {
			users = append(users, p)
		}
	}
	return users
}

// formats returns all formats that a new build needs, sorted.
func (c *computation) formats(img *resources.Image, users []*resources.Provider) []string {
	formats := slices.Clone(img.Formats)
	for _, p := range users {
		if f := c.seen.Formats[p.Name]; f != "" {
			formats = append(formats, f)
		}
	}
	slices.Sort(formats)
	return slices.Compact(formats)
}

// newestReady returns the newest build that can be uploaded, or the build that Options.Upload names.
func (c *computation) newestReady(image string) *resources.Build {
	for _, id := range c.opt.Upload {
		if b := c.world.build[id]; b != nil && b.Image == image && b.State == resources.StateReady {
			return b
		}
	}
	for _, b := range c.world.builds[image] {
		if b.State == resources.StateReady && c.deletedBy[b.Key()] == "" {
			return b
		}
	}
	return nil
}

// hashes returns the hashes of an image: of its block, combined with its local input files.
func (c *computation) hashes(img *resources.Image) resources.Hashes {
	return ImageHashes(img.Hashes, c.seen.Inputs[img.Name].Hash)
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
func (c *computation) planBuild(img *resources.Image, newest, unfinished *resources.Build, users []*resources.Provider, formats []string) string {
	at := imageAddress(img.Kind, img.Name)
	if why := c.seen.InputErrors[img.Name]; why != "" {
		c.problems = append(c.problems, Problem{Address: at, Text: why, Source: img.Source})
		return ""
	}
	due := c.buildDue(img, newest, users)
	if unfinished != nil {
		due = dueBuild{reason: ReasonUnfinished, evidence: []Fact{{"build", unfinished.ID}}}
	}
	if due.reason == "" {
		if newest != nil {
			c.kept.addresses = append(c.kept.addresses, at)
		}
		return ""
	}
	if c.buildBlocked(img, due, unfinished) {
		return ""
	}
	s := Step{Address: at, Action: ActionBuild, Thing: ThingBuild, Reason: due.reason, Evidence: due.evidence,
		Changes: due.changes, Files: due.files, Image: img.Name, Formats: formats, Version: due.version, Replaces: newest != nil,
		Estimate: c.estimate("build/" + img.Name), Source: img.Source, Preconditions: c.touchBuild(img, newest)}
	if unfinished != nil {
		s.Record, s.Build = unfinished.Key(), unfinished.ID
	}
	return c.add(s)
}

// buildBlocked notes why a due build is not planned, and reports whether it is blocked.
func (c *computation) buildBlocked(img *resources.Image, due dueBuild, unfinished *resources.Build) bool {
	at := imageAddress(img.Kind, img.Name)
	failure := c.imageRecord(img.Name).Failure
	switch {
	case (img.Pause || c.imageRecord(img.Name).Paused) && unfinished == nil:
		c.note(Info, "paused", at, img.Source, "%s is paused, so it is not built though %s", at, due.reason.Text())
	case c.seen.Builders != nil && !slices.Contains(c.seen.Builders, img.Builder):
		c.note(Warning, "no-builder", at, img.Source, "%s needs builder %q, which this npctl cannot run", at, img.Builder)
	case (due.reason != ReasonRequested || due.stored && failure != nil && failure.Requested) && c.inBackoff(failure, buildBackoff) && !c.inputsChangedSince(img, failure):
		c.note(Warning, NoteFailing, at, img.Source, "%s has failed %s; it is tried again after %s: %s", at,
			times(failure.Count), clock(buildBackoff.next(failure)), firstLine(failure.Error))
	default:
		return false
	}
	return true
}

// inputsChangedSince reports whether the inputs of an image have changed since the failure, which may fix it.
func (c *computation) inputsChangedSince(img *resources.Image, f *resources.Failure) bool {
	return !c.hashes(img).Match(f.Hash)
}

// touchBuild returns the preconditions of a new build: the newest build is still the newest, and the local files are
// unchanged.
func (c *computation) touchBuild(img *resources.Image, newest *resources.Build) []Fingerprint {
	touches := []Fingerprint{{Subject: "builds of " + img.Name, Digest: noRecord}}
	if newest != nil {
		touches[0] = c.fingerprint(newest.Key())
	}
	if inputs := c.seen.Inputs[img.Name].Hash; inputs != "" {
		touches = append(touches, Fingerprint{Subject: "files of " + img.Ref().String(), Digest: digest(string(inputs))})
	}
	return touches
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

func (c *computation) buildDue(img *resources.Image, newest *resources.Build, users []*resources.Provider) dueBuild {
	if img.Kind == resources.ZuulImage {
		return c.fetchDue(img, newest, users)
	}
	due := c.stale(img, newest, users)
	if due.reason == "" && img.RebuildAge > 0 {
		if age := c.seen.Now.Sub(newest.StateTime); age >= img.RebuildAge {
			due = dueBuild{reason: ReasonRebuildAge, evidence: []Fact{{"build", newest.ID},
				{"age", age.Truncate(time.Second).String()}, {"rebuild_age", img.RebuildAge.String()}}}
		}
	}
	return c.failedBefore(img, due)
}

// stale returns why the newest build cannot be used, regardless of its age.
func (c *computation) stale(img *resources.Image, newest *resources.Build, users []*resources.Provider) dueBuild {
	if c.isReplaceTarget(imageAddress(img.Kind, img.Name)) {
		return dueBuild{reason: ReasonRequested}
	}
	if slices.Contains(c.seen.RequestedBuilds, img.Name) {
		return dueBuild{reason: ReasonRequested, stored: true}
	}
	if newest == nil {
		return dueBuild{reason: ReasonNoBuild}
	}
	facts := []Fact{{"build", newest.ID}}
	if !c.hashes(img).Match(newest.Hash) {
		return dueBuild{reason: ReasonInputsChanged, evidence: facts, changes: c.changes(newest.Hash, img.Static),
			files: c.changedFiles(newest.Hash, c.seen.Inputs[img.Name].Files)}
	}
	if missing := c.lostFile(img, newest, users); missing != "" {
		return dueBuild{reason: ReasonFileMissing, evidence: append(facts, Fact{"format", missing})}
	}
	return dueBuild{}
}

// fetchDue returns why an image of an external source is to be fetched, and the version. If the source could not be
// queried, the existing build stays in use.
func (c *computation) fetchDue(img *resources.Image, newest *resources.Build, users []*resources.Provider) dueBuild {
	at := imageAddress(img.Kind, img.Name)
	due := c.stale(img, newest, users)
	view, looked := c.seen.Versions[img.Name]
	if !looked {
		return dueBuild{}
	}
	if view.Err != "" {
		c.note(Warning, "source", at, img.Source, "the source of %s could not be queried, so no new build is fetched: %s", at, view.Err)
		return dueBuild{}
	}
	gone := c.imageRecord(img.Name).MissingVersions
	i := slices.IndexFunc(view.Versions, func(v resources.Version) bool { return !slices.Contains(gone, v.ID) })
	if i < 0 {
		if newest == nil {
			c.note(Warning, "source", at, img.Source, "the source of %s has no build yet", at)
		}
		return dueBuild{}
	}
	version := view.Versions[i]
	if due.reason == "" && version.ID != newest.Version && version.Time.After(newest.VersionTime) {
		due = dueBuild{reason: ReasonNewVersion, evidence: []Fact{{"build", newest.ID}}}
	}
	if due.reason == "" {
		return due
	}
	due.version = version.ID
	due.evidence = append(due.evidence, Fact{"version", version.ID}, Fact{"made", clock(version.Time)})
	return c.failedBefore(img, due)
}

// lostFile returns a format that is still to be uploaded although the build has no file left to upload or convert.
func (c *computation) lostFile(img *resources.Image, newest *resources.Build, users []*resources.Provider) string {
	if newest.Remote || slices.ContainsFunc(newest.Files, c.present) {
		return ""
	}
	for _, p := range users {
		if c.reachable(p.Name) && !c.imagePaused(p, img) && c.uploadOf(img.Name, p.Name, newest.ID) == nil {
			return c.seen.Formats[p.Name]
		}
	}
	return ""
}

// present reports whether the file is in the images directory. It assumes so if the directory was not read.
func (c *computation) present(f resources.ImageFile) bool {
	return c.seen.Files == nil || c.world.files[f.Name]
}

// changes returns the differences between replacing attributes and those behind a recorded hash.
func (c *computation) changes(recorded resources.Hash, now map[string]string) []Change {
	template := c.template(recorded)
	if template == nil {
		return nil
	}
	before := template.Static
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range now {
		names[name] = true
	}
	var changes []Change
	for name := range names {
		if before[name] != now[name] {
			changes = append(changes, Change{Attribute: name, Before: before[name], After: now[name], Forces: true})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Attribute, b.Attribute) })
	return changes
}

// template returns the template of a recorded hash, or nil.
func (c *computation) template(recorded resources.Hash) *resources.Template {
	i := slices.IndexFunc(c.seen.Records.Templates, func(t *resources.Template) bool { return t.Hash == recorded })
	if i < 0 {
		return nil
	}
	return c.seen.Records.Templates[i]
}

// changedFiles lists the input files that differ from those behind a recorded hash, by path. It returns nil if one
// side has no list.
func (c *computation) changedFiles(recorded resources.Hash, now map[string]string) (changes []FileChange) {
	template := c.template(recorded)
	if template == nil || template.Files == nil || now == nil {
		return nil
	}
	for path, digest := range now {
		switch before, known := template.Files[path]; {
		case !known:
			changes = append(changes, FileChange{path, FileAdded})
		case before != digest:
			changes = append(changes, FileChange{path, FileChanged})
		}
	}
	for path := range template.Files {
		if _, still := now[path]; !still {
			changes = append(changes, FileChange{path, FileRemoved})
		}
	}
	slices.SortFunc(changes, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

var buildFile = regexp.MustCompile(`^.+-([0-9a-f]{32})(\.|$)`)

// BuildIDOfFile returns the build ID in the name of an image file of npctl, <image>-<32 hex digits>[.<ext>…], or "".
func BuildIDOfFile(name string) string {
	if m := buildFile.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}
