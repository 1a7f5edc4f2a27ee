package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/npctl/npctl/resources"
)

// deleteBuild plans the removal of a build's files and record, after its uploads.
func (ip *imagePlanner) deleteBuild(b *resources.Build, reason Reason, needs ...string) {
	for _, u := range ip.world.uploads[b.Image] {
		if u.Build == b.ID {
			if id, gone := ip.draft.deletedBy[u.Key()]; gone {
				needs = append(needs, id)
			} else if !ip.world.reachable(u.Provider) {
				return
			} else if id := ip.deleteUpload(u, reason); id != "" {
				needs = append(needs, id)
			} else {
				return // an upload stays, and so does the build's record
			}
		}
	}
	evidence := []Fact{{"build", b.ID}}
	if b.Error != "" {
		evidence = append(evidence, Fact{"error", b.Error})
	}
	at := imageAddress(b.Kind, b.Image)
	s := Step{ID: "delete build " + b.ID, Address: at, Kind: KindDeleteBuild, Reason: reason,
		Evidence: evidence, Image: b.Image, Build: b.ID, Record: b.Key(), Needs: needs}
	s.releaseInstead(KindReleaseBuild)
	ip.draft.add(s)
}

// superseded plans the removal of builds and uploads beyond the number to keep. A planned build counts as kept, and
// the uploads that it replaces are deleted only after its own.
func (ip *imagePlanner) superseded(img *resources.Image, users []*resources.Provider, planned string) {
	for _, name := range ip.uploadingProviders(img.Name) {
		used := slices.ContainsFunc(users, func(p *resources.Provider) bool { return p.Name == name })
		if !used {
			ip.dropUploads(img.Name, name, ReasonImageRemoved)
			continue
		}
		keep, needs, planned := img.Keep, []string(nil), ""
		if id := ip.plannedUploads[imageAt{img.Name, name}]; id != "" {
			needs, planned = []string{id}, ip.draft.step(id).Build
			if img.Validate == nil { // else it may be rejected
				keep--
			}
		}
		kept, needed, trials := 0, ip.neededByLaunches(img, name), ip.world.trials[imageAt{img.Name, name}]
		for _, u := range ip.draft.readyUploads(img.Name, name) {
			switch {
			case ip.replacedUploads[u.Key()] && len(needs) > 0:
				ip.deleteUpload(u, ReasonRequested, needs...)
			case ip.world.isOutdated(u) && (planned == u.Build || ip.uploadOf(img.Name, name, u.Build) != nil):
				if id := ip.deleteUpload(u, ReasonConfigChanged, needs...); id != "" {
					ip.draft.step(id).Replaces = true
				}
			case img.Validate != nil && !IsValidated(u, trials[u.ID]):
				ip.untested(u, trials[u.ID], needs)
			case kept >= keep && u != needed:
				ip.deleteUpload(u, ReasonSuperseded, needs...)
			default:
				kept++
			}
		}
	}
	ip.supersededBuilds(img, planned)
}

// untested plans the removal of an upload that is not validated, unless it is the newest: that one is tested or, if it is
// rejected, keeps its build, so that the same inputs are not built again at once.
func (ip *imagePlanner) untested(u *resources.Upload, t *resources.Trial, needs []string) {
	switch {
	case len(needs) == 0 && u == ip.draft.readyUploads(u.Image, u.Provider)[0], t != nil && t.Pinned != nil:
	case t != nil && t.Rejected != nil:
		ip.deleteUpload(u, ReasonRejected, needs...)
	default:
		ip.deleteUpload(u, ReasonSuperseded, needs...)
	}
}

// supersededBuilds plans the removal of builds beyond the number to keep. Builds with uploads count first, so that an
// older build that was never uploaded is removed. The newest build always stays, unless a new one is planned, because
// it is uploaded next.
func (ip *imagePlanner) supersededBuilds(img *resources.Image, planned string) {
	keep, needs := img.Keep, []string(nil)
	if planned != "" {
		keep, needs = keep-1, []string{planned}
	}
	newest := ip.newestReady(img.Name)
	var idle []*resources.Build
	for _, b := range ip.world.builds[img.Name] {
		switch {
		case b.State != resources.StateReady || ip.draft.deletedBy[b.Key()] != "":
		case ip.uploadsRemain(b) || ip.uploads(b) || b == newest && planned == "":
			keep--
		default:
			idle = append(idle, b)
		}
	}
	for _, b := range idle[min(max(keep, 0), len(idle)):] {
		ip.deleteBuild(b, ReasonSuperseded, slices.Clone(needs)...)
	}
}

// uploadsRemain reports whether a provider keeps an upload of the build, which still needs the build's record.
func (ip *imagePlanner) uploadsRemain(b *resources.Build) bool {
	return slices.ContainsFunc(ip.world.uploads[b.Image], func(u *resources.Upload) bool {
		return u.Build == b.ID && ip.draft.deletedBy[u.Key()] == ""
	})
}

// uploads reports whether this plan uploads the build.
func (ip *imagePlanner) uploads(b *resources.Build) bool {
	return slices.ContainsFunc(ip.draft.steps, func(s Step) bool { return s.Kind == KindUpload && s.Build == b.ID })
}

// removedImages plans the removal of images that are no longer configured.
func (ip *imagePlanner) removedImages() {
	names := slices.AppendSeq(slices.Collect(maps.Keys(ip.world.builds)), maps.Keys(ip.world.uploads))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if ip.world.images[name] != nil {
			continue
		}
		for _, provider := range ip.uploadingProviders(name) {
			ip.dropUploads(name, provider, ReasonImageRemoved)
		}
		for _, b := range ip.world.builds[name] {
			if b.Remote && ip.world.seen.Shared || ip.ownedByOtherBuilder(b) {
				continue // another process may own the image
			}
			reason := ip.world.because(ReasonImageRemoved)
			if b.State == resources.StateReady && ip.world.declared.Removed.HasBuild(b) {
				reason = ReasonRemoved
			}
			if !ip.uploadsRemain(b) {
				ip.deleteBuild(b, reason)
			}
		}
	}
}

// uploadedFiles plans the removal of the local files of an image with delete_after_upload after every provider has
// the newest build, or the build that this plan creates: the files of that build, and of older builds, which are not
// uploaded any more.
func (ip *imagePlanner) uploadedFiles(img *resources.Image, users []*resources.Provider, planned string) {
	newest := ip.newestReady(img.Name)
	if !img.DeleteAfterUpload || len(users) == 0 || planned == "" && newest == nil {
		return
	}
	var needs []string
	for _, p := range users {
		id := ip.plannedUploads[imageAt{img.Name, p.Name}]
		if id == "" && (planned != "" || ip.uploadOf(img.Name, p.Name, newest.ID) == nil) {
			return
		}
		if id != "" {
			needs = append(needs, id)
		}
	}
	s := Step{Address: imageAddress(img.Kind, img.Name), Kind: KindDeleteFile, Reason: ReasonUploaded,
		Image: img.Name, Needs: needs, Source: img.Source}
	if planned != "" {
		for _, format := range ip.draft.step(planned).Formats {
			s.ID, s.Format = fmt.Sprintf("delete %s file of the next build of %s", format, img.Name), format
			ip.addFile(img, s)
		}
	}
	for _, b := range ip.world.builds[img.Name] {
		if b.State != resources.StateReady || ip.draft.deletedBy[b.Key()] != "" || b.Remote {
			continue // deleted with the build, or kept by the other host
		}
		for _, f := range b.Files {
			s.ID, s.Format, s.Build, s.External = "delete file "+f.Name, f.Format, b.ID, f.Name
			s.Evidence = []Fact{{"file", f.Name}}
			ip.addFile(img, s)
		}
	}
}

func (ip *imagePlanner) addFile(img *resources.Image, s Step) {
	if !slices.Contains(img.KeepFormats, s.Format) {
		ip.draft.add(s)
	}
}

// removals plans the removal of the builds and uploads that Options.Remove names. The plan contains nothing else; the
// next plan shows the consequences.
func (ip *imagePlanner) removals() {
	for _, key := range ip.world.opt.Remove {
		switch key.Kind {
		case resources.KindBuild:
			ip.removeBuild(key)
		case resources.KindUpload:
			ip.removeUpload(key)
		default:
			ip.draft.unremovable = append(ip.draft.unremovable, Problem{Address: Address(key.String()), Text: "only builds and uploads can be removed by name"})
		}
	}
}

func (ip *imagePlanner) removeBuild(key resources.Key) {
	b := ip.world.build[key.ID]
	if b == nil {
		ip.noSuchRecord(key)
		return
	}
	at := imageAddress(b.Kind, b.Image)
	for _, u := range ip.world.uploads[b.Image] {
		if u.Build == b.ID && ip.draft.deletedBy[u.Key()] == "" {
			ip.removeUpload(u.Key())
		}
	}
	if !ip.uploadsRemain(b) {
		ip.deleteBuild(b, ReasonRequested)
	} else {
		ip.draft.unremovable = append(ip.draft.unremovable, Problem{Address: at, Text: fmt.Sprintf("build %s stays because one of its uploads stays", b.ID)})
	}
}

func (ip *imagePlanner) removeUpload(key resources.Key) {
	u := ip.world.upload[key.ID]
	if u == nil {
		ip.noSuchRecord(key)
		return
	}
	at := uploadAddress(u.Provider, u.Image)
	switch {
	case !ip.world.reachable(u.Provider):
		ip.draft.unremovable = append(ip.draft.unremovable, Problem{Address: at, Provider: u.Provider,
			Text: fmt.Sprintf("provider %s could not be listed, so upload %s cannot be removed", u.Provider, u.ID)})
	case ip.deleteUpload(u, ReasonRequested) == "":
		ip.draft.unremovable = append(ip.draft.unremovable, Problem{Address: at, Provider: u.Provider,
			Text: fmt.Sprintf("nodes use image %s", u.Name), Hint: "it can be removed once they are gone; see npctl state list"})
	}
}

func (ip *imagePlanner) noSuchRecord(key resources.Key) {
	ip.draft.unremovable = append(ip.draft.unremovable, Problem{Address: Address(key.String()), Text: "there is no such " + string(key.Kind),
		Hint: "npctl image show lists builds and uploads"})
}
