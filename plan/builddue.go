package plan

import (
	"slices"
	"time"

	"github.com/npctl/npctl/resources"
)

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
	if img.Kind == resources.ZuulImage {
		return ip.fetchDue(img, newest, users)
	}
	due := ip.stale(img, newest, users)
	if due.reason == "" && img.RebuildAge > 0 {
		if age := ip.world.seen.Now.Sub(newest.StateTime); age >= img.RebuildAge {
			due = dueBuild{reason: ReasonRebuildAge, evidence: []Fact{{"build", newest.ID},
				{"age", age.Truncate(time.Second).String()}, {"rebuild_age", img.RebuildAge.String()}}}
		}
	}
	return ip.failedBefore(img, due)
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
		return dueBuild{}
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
	if due.reason == "" && version.ID != newest.Version && version.Time.After(newest.VersionTime) {
		due = dueBuild{reason: ReasonNewVersion, evidence: []Fact{{"build", newest.ID}}}
	}
	if due.reason == "" {
		return due
	}
	due.version = version.ID
	due.evidence = append(due.evidence, Fact{"version", version.ID}, Fact{"made", clock(version.Time)})
	return ip.failedBefore(img, due)
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
