package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// checkUpload plans the removal of an upload that failed, was interrupted, or no longer exists in the cloud.
func (ip *imagePlanner) checkUpload(u *resources.Upload) {
	view, looked := ip.world.view(u.Provider)
	remote, found := ip.world.remote[u.ID]
	switch {
	case u.Importing: // see imports
	case ip.draft.deletedBy[u.Key()] != "": // with its build
	case u.State == resources.StateUploading || u.State == resources.StateDeleting:
		ip.deleteUpload(u, ReasonUnfinished)
	case u.State == resources.StateFailed:
		ip.deleteUpload(u, ReasonFailed)
	case looked && !found && !u.Unmarked && u.StateTime.Before(view.ListedAt):
		ip.draft.add(Step{ID: "forget upload " + u.ID, Address: uploadAddress(u.Provider, u.Image), Kind: KindForgetUpload,
			Reason: ReasonLost, Image: u.Image, Build: u.Build, Provider: u.Provider, Record: u.Key(),
			External: u.ExternalID, Evidence: []Fact{{"image", u.ExternalID}, {"name", u.Name}}})
	case looked && found && remote.Status == resources.StatusFailed:
		ip.deleteUpload(u, ReasonFailed)
	case ip.draft.isReplaceTarget(uploadAddress(u.Provider, u.Image)) && ip.world.images[u.Image] != nil:
		runs := slices.ContainsFunc(ip.world.nodes[u.Provider], func(n *resources.Node) bool {
			return n.Upload == u.ID && ip.draft.deletedBy[n.Key()] == ""
		})
		if ip.replacedUploads[u.Key()] = !runs; runs {
			ip.draft.note(Warning, "in-use", uploadAddress(u.Provider, u.Image), resources.Source{},
				"image %s in %s is not uploaded again while nodes run from it; -replace=%s builds a new one",
				u.Image, u.Provider, imageAddress(resources.DiskImage, u.Image))
		}
	}
}

// uploadingProviders lists the reachable providers that have uploads of an image, by name.
func (ip *imagePlanner) uploadingProviders(image string) []string {
	var names []string
	for _, u := range ip.world.uploads[image] {
		if ip.world.reachable(u.Provider) {
			names = append(names, u.Provider)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// readyUploads lists an image's usable uploads in a provider, newest build first.
func (d *draft) readyUploads(image, provider string) []*resources.Upload {
	var ready []*resources.Upload
	for _, u := range d.world.uploads[image] {
		if u.Provider == provider && u.State == resources.StateReady && d.deletedBy[u.Key()] == "" {
			ready = append(ready, u)
		}
	}
	return ready
}

// olderThan lists the usable uploads of older builds in the provider of an upload, which may be nil.
func (ip *imagePlanner) olderThan(u *resources.Upload) []*resources.Upload {
	if u == nil {
		return nil
	}
	ready := ip.draft.readyUploads(u.Image, u.Provider)
	return slices.DeleteFunc(ready[slices.Index(ready, u)+1:], func(other *resources.Upload) bool { return other.Build == u.Build })
}

func (ip *imagePlanner) uploadOf(image, provider, build string) *resources.Upload {
	for _, u := range ip.draft.readyUploads(image, provider) {
		if u.Build == build && !ip.replacedUploads[u.Key()] && !ip.world.isOutdated(u) {
			return u
		}
	}
	return nil
}

// isOutdated reports whether an upload was made with other settings than those that its provider has for the image now.
// Other hosts without ownership tags have settings of their own.
func (w *world) isOutdated(u *resources.Upload) bool {
	p, img := w.providers[u.Provider], w.images[u.Image]
	if u.Settings == "" || u.Unmarked || p == nil || img == nil {
		return false
	}
	hashes, _ := p.ImageSettings(img.Ref())
	return !hashes.Match(u.Settings)
}

func (ip *imagePlanner) imagePaused(p *resources.Provider, img *resources.Image) bool {
	return slices.ContainsFunc(p.Images, func(i resources.ProviderImage) bool { return i.Image == img.Ref() && i.Pause })
}

// planUpload plans the upload of the newest build, or of the planned one, to a provider.
func (ip *imagePlanner) planUpload(img *resources.Image, p *resources.Provider, newest *resources.Build, build string) {
	if build == "" && newest != nil && ip.uploadOf(img.Name, p.Name, newest.ID) != nil {
		ip.draft.kept.addresses = append(ip.draft.kept.addresses, uploadAddress(p.Name, img.Name))
		return
	}
	if build == "" && newest == nil || !ip.world.reachable(p.Name) || ip.world.seen.Formats[p.Name] == "" {
		return
	}
	at, failure := uploadAddress(p.Name, img.Name), ip.world.imageRecord(img.Name).Uploads[p.Name]
	switch {
	case ip.imagePaused(p, img):
		ip.draft.note(Info, "paused", at, img.Source, "uploads of %s to %s are paused", img.Name, p.Name)
	case ip.world.inBackoff(failure, uploadBackoff) && !ip.draft.isReplaceTarget(at) && !failure.Time.Before(ip.world.seen.Reloaded):
		ip.draft.note(Warning, NoteFailing, at, img.Source, "the upload of %s to %s has failed %s; it is tried again after %s: %s", img.Name, p.Name,
			times(failure.Count), clock(uploadBackoff.next(failure)), FirstLine(failure.Error))
	case build == "":
		ip.plannedUploads[imageAt{img.Name, p.Name}] = ip.uploadNewest(img, p, newest)
	default:
		s := ip.uploadStep(img, p)
		s.Needs = []string{build}
		if first := ip.interimUpload(img, p, newest); first != "" {
			s.ID, s.After = first+" of the next build", []string{first}
		}
		ip.plannedUploads[imageAt{img.Name, p.Name}] = ip.draft.add(s)
	}
}

// interimUpload uploads the newest existing build to a provider without an upload, if the next build has failed
// before and may take long.
func (ip *imagePlanner) interimUpload(img *resources.Image, p *resources.Provider, newest *resources.Build) string {
	if newest == nil || ip.world.imageRecord(img.Name).Failure == nil || len(ip.draft.readyUploads(img.Name, p.Name)) > 0 ||
		!newest.Remote && !slices.ContainsFunc(newest.Files, ip.present) {
		return ""
	}
	return ip.uploadNewest(img, p, newest)
}

func (ip *imagePlanner) uploadStep(img *resources.Image, p *resources.Provider) Step {
	s := Step{Address: uploadAddress(p.Name, img.Name), Kind: KindUpload,
		Reason: ReasonNotUploaded, Image: img.Name, Format: ip.world.seen.Formats[p.Name], Provider: p.Name,
		Estimate: ip.world.estimate(fmt.Sprintf("upload/%s/%s", p.Name, img.Name)), Source: p.Source}
	if f := ip.world.imageRecord(img.Name).Uploads[p.Name]; f != nil {
		s.Evidence = failureFacts(f)
	}
	planUploadValues(&s, img, p)
	return s
}

// uploadNewest plans the upload of an existing build, from the host that has its files.
func (ip *imagePlanner) uploadNewest(img *resources.Image, p *resources.Provider, newest *resources.Build) string {
	s := ip.uploadStep(img, p)
	s.Build = newest.ID
	s.Evidence = append([]Fact{{"build", newest.ID}}, s.Evidence...)
	s.Preconditions = []Fingerprint{ip.world.fingerprint(newest.Key())}
	if ready := ip.draft.readyUploads(img.Name, p.Name); len(ready) > 0 && ready[0].Build == newest.ID && ip.world.isOutdated(ready[0]) {
		_, static := p.ImageSettings(img.Ref())
		s.Reason, s.Changes, s.Replaces = ReasonConfigChanged, ip.world.changes(ready[0].Settings, static), true
	}
	if newest.Remote {
		hosts := ip.world.seen.Hosts[newest.Builder]
		if hosts.Err == "" && !hosts.Builds[newest.ID] {
			ip.draft.note(Warning, "host-unavailable", s.Address, img.Source, "no running build host has build %s of %s, which was built on %s; the upload to %s waits for that host, and -replace=%s builds a new one",
				newest.ID, img.Name, newest.Host, p.Name, imageAddress(img.Kind, img.Name))
			return ""
		}
		return ip.draft.add(s)
	}
	if f, ok := newest.File(s.Format); !ok || !ip.present(f) {
		s.Needs = []string{ip.draft.add(Step{ID: fmt.Sprintf("convert %s %s", newest.ID, s.Format), Address: imageAddress(img.Kind, img.Name),
			Kind: KindConvert, Reason: ReasonFormatMissing, Image: img.Name, Build: newest.ID,
			Format: s.Format, Evidence: []Fact{{"build", newest.ID}}, Preconditions: []Fingerprint{ip.world.fingerprint(newest.Key())},
			Estimate: ip.world.estimate("convert/" + img.Name + "/" + s.Format), Source: img.Source})} // once for all providers
	}
	return ip.draft.add(s)
}

// deleteUpload plans the deletion of an image in a cloud, after the nodes that run from it and that this plan
// deletes. An upload with other nodes stays; the returned ID is "" then.
func (ip *imagePlanner) deleteUpload(u *resources.Upload, reason Reason, needs ...string) string {
	needs = slices.Clone(needs)
	for _, n := range ip.world.nodes[u.Provider] {
		if n.Upload != u.ID {
			continue
		}
		id, gone := ip.draft.deletedBy[n.Key()]
		if !gone && u.State == resources.StateReady && reason != ReasonRemoved {
			return ""
		}
		if gone {
			needs = append(needs, id)
		}
	}
	external := u.ExternalID
	external = cmp.Or(external, ip.world.remote[u.ID].ID)
	evidence := []Fact{{"build", u.Build}}
	if u.Error != "" {
		evidence = append(evidence, Fact{"error", u.Error})
	}
	s := Step{ID: "delete upload " + u.ID, Address: uploadAddress(u.Provider, u.Image), Kind: KindDeleteUpload,
		Reason: reason, Evidence: evidence, Image: u.Image, Build: u.Build, Provider: u.Provider,
		Record: u.Key(), External: external, Needs: needs}
	s.releaseInstead(KindReleaseUpload)
	return ip.draft.add(s)
}

// dropUploads plans the removal of every upload of an image from a provider.
func (ip *imagePlanner) dropUploads(image, provider string, reason Reason) {
	if ip.world.providers[provider] == nil {
		reason = ReasonProviderRemoved
	}
	for _, u := range ip.world.uploads[image] {
		if u.Provider != provider || ip.draft.deletedBy[u.Key()] != "" || ip.world.images[image] == nil && ip.ownedByOtherBuilder(ip.world.build[u.Build]) {
			continue
		}
		if u.Importing {
			ip.unfinishedImport(u)
			continue
		}
		view, looked := ip.world.view(provider)
		if _, found := ip.world.remote[u.ID]; looked && !found && !u.Unmarked && u.State == resources.StateReady && u.StateTime.Before(view.ListedAt) {
			ip.checkUpload(u)
			continue
		}
		why := ip.world.removedOr(u, reason)
		if why == ReasonRemoved && ip.world.cannotForget(provider) {
			continue
		}
		if ip.deleteUpload(u, why) == "" {
			ip.draft.note(Info, "in-use", uploadAddress(provider, image), resources.Source{},
				"image %s stays in %s until the nodes that run from it are gone", u.Name, provider)
		}
	}
}

// logins plans to update the login of an image's uploads to that of the configuration. Nodes launched later get it.
func (ip *imagePlanner) logins(img *resources.Image, p *resources.Provider) {
	if !ip.world.reachable(p.Name) {
		return
	}
	for _, u := range ip.draft.readyUploads(img.Name, p.Name) {
		if u.Unmarked && ip.world.seen.Shared { // uploaded by another program, which keeps its own login
			continue
		}
		changes := loginChanges(u.Login, img.LoginIn(p))
		if len(changes) == 0 {
			continue
		}
		at := uploadAddress(p.Name, img.Name)
		ip.loginUpdates[u.Key()] = ip.draft.add(Step{ID: "update login of upload " + u.ID, Address: at, Kind: KindUpdateUpload,
			Reason: ReasonConfigChanged, Image: img.Name, Build: u.Build, Provider: p.Name, Record: u.Key(), Changes: changes, Source: img.Source})
		if n := ip.draft.readyOn(p.Name, u); n > 0 {
			ip.draft.note(Info, "login-kept", at, img.Source, "%s of %s in %s: no change of the login until the next launch",
				text.Count(n, "ready node", "ready nodes"), img.Name, p.Name)
		}
	}
}

// readyOn counts the ready nodes of a provider that run from one of its uploads and stay.
func (d *draft) readyOn(provider string, uploads ...*resources.Upload) (n int) {
	if len(uploads) == 0 {
		return 0
	}
	for _, node := range d.world.nodes[provider] {
		runs := slices.ContainsFunc(uploads, func(u *resources.Upload) bool { return node.Upload == u.ID })
		if runs && node.State == resources.StateReady && d.deletedBy[node.Key()] == "" {
			n++
		}
	}
	return n
}

func loginChanges(before, after resources.Login) []Change {
	port := func(n int64) string {
		if n == 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	changes := []Change{
		{Attribute: "username", Before: before.Username, After: after.Username},
		{Attribute: "python_path", Before: before.PythonPath, After: after.PythonPath},
		{Attribute: "shell_type", Before: before.ShellType, After: after.ShellType},
		{Attribute: "connection_type", Before: before.ConnectionType, After: after.ConnectionType},
		{Attribute: "connection_port", Before: port(before.ConnectionPort), After: port(after.ConnectionPort)},
	}
	return slices.DeleteFunc(changes, func(c Change) bool { return c.Before == c.After })
}
