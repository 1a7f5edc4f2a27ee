package plan

import (
	"github.com/npctl/npctl/resources"
)

// Where several processes share a store (Observed.Shared), each builder keeps the files of its own builds. While the
// builder of the newest ready build of an image is registered, it builds, uploads and deletes for that image, and
// other builders skip the image. Builds and uploads of images that are not configured here are deleted only by the
// builder that made them, since the others may have another configuration.

// OtherBuilder returns the newest ready build of an image if another npctl process made it and is registered as a builder;
// else nil.
func OtherBuilder(seen Observed, image string) *resources.Build {
	var newest *resources.Build
	for _, b := range seen.Records.Builds {
		if b.Image == image && b.State == resources.StateReady && (newest == nil || resources.CompareBuilds(b, newest) < 0) {
			newest = b
		}
	}
	if !ofOtherBuilder(seen, newest) || !seen.OtherBuilders[newest.HostID] {
		return nil
	}
	return newest
}

// ofOtherBuilder reports whether the files of a build are on another builder, registered or not.
func ofOtherBuilder(seen Observed, b *resources.Build) bool {
	return seen.Shared && b != nil && !b.Remote && b.HostID != "" && b.HostID != seen.BuilderID
}

// ownedByOtherBuilder reports whether a build of an image that is not configured here is left to the builder that made it.
func (ip *imagePlanner) ownedByOtherBuilder(b *resources.Build) bool {
	return !ip.world.opt.Destroy && ofOtherBuilder(ip.world.seen, b)
}

// leftToOtherBuilder reports whether another registered builder manages the image. The upload of a given build is not
// left to it: the files of that build are here.
func (ip *imagePlanner) leftToOtherBuilder(img *resources.Image) bool {
	if !ip.world.seen.Shared || ip.world.opt.Destroy || len(ip.world.opt.Upload) > 0 {
		return false
	}
	newest := OtherBuilder(ip.world.seen, img.Name)
	if newest == nil {
		return false
	}
	at := imageAddress(img.Kind, img.Name)
	addresses := []Address{at}
	for _, p := range ip.users(img) {
		addresses = append(addresses, uploadAddress(p.Name, img.Name))
	}
	if ip.draft.isReplaceTarget(addresses...) {
		ip.draft.problems = append(ip.draft.problems, Problem{Address: at, Source: img.Source, Text: "npctl on " + newest.Host + " manages this image, because it has the newest build",
			Hint: "run the command there, or request a build from it with npctl image build " + img.Name})
	}
	return true
}
