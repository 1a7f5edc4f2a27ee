package plan

import (
	"fmt"

	"github.com/npctl/npctl/resources"
)

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
			Text: fmt.Sprintf("provider %s could not be queried, so upload %s cannot be removed", u.Provider, u.ID)})
	case ip.deleteUpload(u, ReasonRequested) == "":
		ip.draft.unremovable = append(ip.draft.unremovable, Problem{Address: at, Provider: u.Provider,
			Text: fmt.Sprintf("nodes use image %s", u.Name), Hint: "it can be removed once they are gone; see npctl state list"})
	}
}

func (ip *imagePlanner) noSuchRecord(key resources.Key) {
	ip.draft.unremovable = append(ip.draft.unremovable, Problem{Address: Address(key.String()), Text: "there is no such " + string(key.Kind),
		Hint: "npctl image show lists builds and uploads"})
}
