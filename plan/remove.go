package plan

import (
	"fmt"

	"github.com/npctl/npctl/resources"
)

// removals plans the removal of the builds and uploads that Options.Remove names. The plan contains nothing else; the
// next plan shows the consequences.
func (c *computation) removals() {
	for _, key := range c.opt.Remove {
		switch key.Kind {
		case resources.KindBuild:
			c.removeBuild(key)
		case resources.KindUpload:
			c.removeUpload(key)
		default:
			c.unremovable = append(c.unremovable, Problem{Address: Address(key.String()), Text: "only builds and uploads can be removed by name"})
		}
	}
}

func (c *computation) removeBuild(key resources.Key) {
	b := c.world.build[key.ID]
	if b == nil {
		c.noSuchRecord(key)
		return
	}
	at := imageAddress(b.Kind, b.Image)
	for _, u := range c.world.uploads[b.Image] {
		if u.Build == b.ID && c.deletedBy[u.Key()] == "" {
			c.removeUpload(u.Key())
		}
	}
	if !c.uploadsRemain(b) {
		c.deleteBuild(b, ReasonRequested)
	} else {
		c.unremovable = append(c.unremovable, Problem{Address: at, Text: fmt.Sprintf("build %s stays because one of its uploads stays", b.ID)})
	}
}

func (c *computation) removeUpload(key resources.Key) {
	u := c.world.upload[key.ID]
	if u == nil {
		c.noSuchRecord(key)
		return
	}
	at := uploadAddress(u.Provider, u.Image)
	switch {
	case !c.reachable(u.Provider):
		c.unremovable = append(c.unremovable, Problem{Address: at, Provider: u.Provider,
			Text: fmt.Sprintf("provider %s could not be queried, so upload %s cannot be removed", u.Provider, u.ID)})
	case c.deleteUpload(u, ReasonRequested) == "":
		c.unremovable = append(c.unremovable, Problem{Address: at, Provider: u.Provider,
			Text: fmt.Sprintf("nodes use image %s", u.Name), Hint: "it can be removed once they are gone; see npctl state list"})
	}
}

func (c *computation) noSuchRecord(key resources.Key) {
	c.unremovable = append(c.unremovable, Problem{Address: Address(key.String()), Text: "there is no such " + string(key.Kind),
		Hint: "npctl image show lists builds and uploads"})
}
