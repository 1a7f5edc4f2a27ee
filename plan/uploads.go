package plan

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
)

// unfinishedUploads plans the removal of uploads that failed, were interrupted, or no longer exist in the cloud.
func (c *computation) unfinishedUploads(img *resources.Image) {
	for _, u := range c.world.uploads[img.Name] {
		if c.reachable(u.Provider) {
			c.checkUpload(u)
		}
	}
}

func (c *computation) checkUpload(u *resources.Upload) {
	view, looked := c.view(u.Provider)
	remote, found := c.world.remote[u.ID]
	switch {
	case u.State == resources.StateUploading || u.State == resources.StateDeleting:
		c.deleteUpload(u, ReasonUnfinished)
	case u.State == resources.StateFailed:
		c.deleteUpload(u, ReasonFailed)
	case looked && !found && !u.Unmarked && u.StateTime.Before(view.ListedAt):
		c.add(Step{ID: "forget upload " + u.ID, Address: uploadAddress(u.Provider, u.Image), Action: ActionForget,
			Thing: ThingUpload, Reason: ReasonLost, Image: u.Image, Build: u.Build, Provider: u.Provider, Record: u.Key(),
			External: u.ExternalID, Evidence: []Fact{{"image", u.ExternalID}, {"name", u.Name}}})
	case looked && found && remote.Status == resources.StatusFailed:
		c.deleteUpload(u, ReasonFailed)
	case c.isReplaceTarget(uploadAddress(u.Provider, u.Image)) && c.world.images[u.Image] != nil:
		c.replacedUploads[u.Key()] = !c.runsNodes(u)
		if !c.replacedUploads[u.Key()] {
			c.note(Warning, "in-use", uploadAddress(u.Provider, u.Image), resources.Source{},
				"image %s in %s is not uploaded again while nodes run from it; -replace=%s builds a new one",
				u.Image, u.Provider, imageAddress(resources.DiskImage, u.Image))
		}
	}
}

// runsNodes reports whether nodes that this plan keeps run from the upload.
func (c *computation) runsNodes(u *resources.Upload) bool {
	return slices.ContainsFunc(c.world.nodes[u.Provider], func(n *resources.Node) bool {
		return n.Upload == u.ID && c.deletedBy[n.Key()] == ""
	})
}

// uploadingProviders lists the reachable providers that have uploads of an image, by name.
func (c *computation) uploadingProviders(image string) []string {
	var names []string
	for _, u := range c.world.uploads[image] {
		if c.reachable(u.Provider) {
			names = append(names, u.Provider)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// readyUploads lists an image's usable uploads in a provider, newest build first.
func (c *computation) readyUploads(image, provider string) []*resources.Upload {
	var ready []*resources.Upload
	for _, u := range c.world.uploads[image] {
		if u.Provider == provider && u.State == resources.StateReady && c.deletedBy[u.Key()] == "" {
			ready = append(ready, u)
		}
	}
	return ready
}

func (c *computation) uploadOf(image, provider, build string) *resources.Upload {
	for _, u := range c.readyUploads(image, provider) {
		if u.Build == build && !c.replacedUploads[u.Key()] {
			return u
		}
	}
	return nil
}

func (c *computation) imagePaused(p *resources.Provider, img *resources.Image) bool {
	return slices.ContainsFunc(p.Images, func(i resources.ProviderImage) bool { return i.Image == img.Ref() && i.Pause })
}

// planUpload plans the upload of the newest build, or of the planned one, to a provider.
func (c *computation) planUpload(img *resources.Image, p *resources.Provider, newest *resources.Build, build string) {
	if build == "" && newest != nil && c.uploadOf(img.Name, p.Name, newest.ID) != nil {
		c.kept.addresses = append(c.kept.addresses, uploadAddress(p.Name, img.Name))
		return
	}
	if build == "" && newest == nil || !c.reachable(p.Name) || c.seen.Formats[p.Name] == "" {
		return
	}
	at, failure := uploadAddress(p.Name, img.Name), c.imageRecord(img.Name).Uploads[p.Name]
	switch {
	case c.imagePaused(p, img):
		c.note(Info, "paused", at, img.Source, "uploads of %s to %s are paused", img.Name, p.Name)
	case c.inBackoff(failure, uploadBackoff) && !c.isReplaceTarget(at) && !failure.Time.Before(c.seen.Reloaded):
		c.note(Warning, NoteFailing, at, img.Source, "the upload of %s to %s has failed %s; it is tried again after %s: %s", img.Name, p.Name,
			times(failure.Count), clock(uploadBackoff.next(failure)), firstLine(failure.Error))
	case build == "":
		c.plannedUploads[imageAt{img.Name, p.Name}] = c.uploadNewest(img, p, newest)
	default:
		first := c.interimUpload(img, p, newest)
		c.plannedUploads[imageAt{img.Name, p.Name}] = c.uploadNext(img, p, build, first)
	}
}

// interimUpload uploads the newest existing build to a provider without an upload, if the next build has failed
// before and may take long.
func (c *computation) interimUpload(img *resources.Image, p *resources.Provider, newest *resources.Build) string {
	if newest == nil || c.imageRecord(img.Name).Failure == nil || len(c.readyUploads(img.Name, p.Name)) > 0 ||
		!newest.Remote && !slices.ContainsFunc(newest.Files, c.present) {
		return ""
	}
	return c.uploadNewest(img, p, newest)
}

func (c *computation) uploadStep(img *resources.Image, p *resources.Provider) Step {
	s := Step{Address: uploadAddress(p.Name, img.Name), Action: ActionUpload, Thing: ThingUpload,
		Reason: ReasonNotUploaded, Image: img.Name, Format: c.seen.Formats[p.Name], Provider: p.Name,
		Estimate: c.estimate(fmt.Sprintf("upload/%s/%s", p.Name, img.Name)), Source: p.Source}
	if f := c.imageRecord(img.Name).Uploads[p.Name]; f != nil {
		s.Evidence = failureFacts(f)
	}
	planUploadValues(&s, img, p)
	return s
}

// uploadNext plans the upload of a build that this plan creates.
func (c *computation) uploadNext(img *resources.Image, p *resources.Provider, build, stopgap string) string {
	s := c.uploadStep(img, p)
	s.Needs = []string{build}
	if stopgap != "" {
		s.ID, s.After = stopgap+" of the next build", []string{stopgap}
	}
	return c.add(s)
}

// uploadNewest plans the upload of an existing build, from the host that has its files.
func (c *computation) uploadNewest(img *resources.Image, p *resources.Provider, newest *resources.Build) string {
	s := c.uploadStep(img, p)
	s.Build = newest.ID
	s.Evidence = append([]Fact{{"build", newest.ID}}, s.Evidence...)
	s.Preconditions = []Fingerprint{c.fingerprint(newest.Key())}
	if newest.Remote {
		hosts := c.seen.Hosts[newest.Builder]
		if hosts.Err == "" && !hosts.Builds[newest.ID] {
			c.note(Warning, "host-unavailable", s.Address, img.Source, "no running build host has build %s of %s, which was built on %s; the upload to %s waits for that host, and -replace=%s builds a new one",
				newest.ID, img.Name, newest.Host, p.Name, imageAddress(img.Kind, img.Name))
			return ""
		}
		return c.add(s)
	}
	if f, ok := newest.File(s.Format); !ok || !c.present(f) {
		s.Needs = []string{c.addConversion(img, newest, s.Format)}
	}
	return c.add(s)
}

// addConversion plans the conversion of an existing build to one more format, once for all providers.
func (c *computation) addConversion(img *resources.Image, b *resources.Build, format string) string {
	return c.add(Step{ID: fmt.Sprintf("convert %s %s", b.ID, format), Address: imageAddress(img.Kind, img.Name),
		Action: ActionConvert, Thing: ThingFile, Reason: ReasonFormatMissing, Image: img.Name, Build: b.ID,
		Format: format, Evidence: []Fact{{"build", b.ID}}, Preconditions: []Fingerprint{c.fingerprint(b.Key())},
		Estimate: c.estimate("convert/" + img.Name + "/" + format), Source: img.Source})
}

// deleteUpload plans the deletion of an image in a cloud, after the nodes that run from it and that this plan
// deletes. An upload with other nodes stays; the returned ID is "" then.
func (c *computation) deleteUpload(u *resources.Upload, reason Reason, needs ...string) string {
	needs = slices.Clone(needs)
	for _, n := range c.world.nodes[u.Provider] {
		if n.Upload != u.ID {
			continue
		}
		id, gone := c.deletedBy[n.Key()]
		if !gone && u.State == resources.StateReady {
			return ""
		}
		if gone {
			needs = append(needs, id)
		}
	}
	external := u.ExternalID
	if external == "" {
		external = c.world.remote[u.ID].ID
	}
	evidence := []Fact{{"build", u.Build}}
	if u.Error != "" {
		evidence = append(evidence, Fact{"error", u.Error})
	}
	return c.add(Step{ID: "delete upload " + u.ID, Address: uploadAddress(u.Provider, u.Image), Action: ActionDelete,
		Thing: ThingUpload, Reason: reason, Evidence: evidence, Image: u.Image, Build: u.Build, Provider: u.Provider,
		Record: u.Key(), External: external, Needs: needs})
}

// dropUploads plans the removal of every upload of an image from a provider.
func (c *computation) dropUploads(image, provider string, reason Reason) {
	if c.world.providers[provider] == nil {
		reason = ReasonProviderRemoved
	}
	for _, u := range c.world.uploads[image] {
		if u.Provider != provider || c.deletedBy[u.Key()] != "" || c.world.images[image] == nil && c.ownedByOtherBuilder(c.world.build[u.Build]) {
			continue
		}
		view, looked := c.view(provider)
		if _, found := c.world.remote[u.ID]; looked && !found && !u.Unmarked && u.State == resources.StateReady && u.StateTime.Before(view.ListedAt) {
			c.checkUpload(u)
			continue
		}
		if c.deleteUpload(u, c.because(reason)) == "" {
			c.note(Info, "in-use", uploadAddress(provider, image), resources.Source{},
				"image %s stays in %s until the nodes that run from it are gone", u.Name, provider)
		}
	}
}
