package plan

import (
	"slices"

	"github.com/npctl/npctl/resources"
)

// onlyImages keeps the steps of the images in Options.Images with the steps that they need, and the notes and
// problems about these images. With -target it keeps those about the targets.
func (rv review) onlyImages(p Plan) Plan {
	p.Steps = withNeeds(p.Steps, func(s Step) bool { return s.Thing != ThingNode && slices.Contains(rv.world.opt.Images, s.Image) })
	about, users := rv.aboutImages(), rv.usersOf(rv.world.opt.Images)
	p.Notes = slices.DeleteFunc(p.Notes, func(n Note) bool {
		return !about[n.Address] && (n.Code != "deferred" || !users[n.Address])
	})
	problems := p.Problems
	p.Problems = nil
	for _, q := range problems {
		switch at := ProviderAddress(q.Provider); {
		case about[q.Address]:
			p.Problems = append(p.Problems, q)
		case users[at] && slices.Contains(p.Deferred, q.Provider): // a provider that rejects its query does not stop the others
			p.Notes = append(p.Notes, Note{Severity: Warning, Code: "deferred", Address: q.Address, Text: q.Text, Source: q.Source})
		}
	}
	p.Deferred = slices.DeleteFunc(p.Deferred, func(name string) bool { return !users[ProviderAddress(name)] })
	p.Unchanged = Unchanged{}
	return p
}

// aboutImages returns the addresses of the images and their uploads, and whether they are targeted.
func (rv review) aboutImages() map[Address]bool {
	about := map[Address]bool{}
	add := func(at Address) {
		about[at] = len(rv.world.opt.Targets) == 0 || within([]Address{at}, rv.world.opt.Targets)
	}
	for _, image := range rv.world.opt.Images {
		add(imageAddress(rv.world.imageKind(image), image))
		for _, provider := range rv.world.names {
			add(uploadAddress(provider, image))
		}
	}
	return about
}

// usersOf returns the addresses of the targeted providers that boot from the images.
func (rv review) usersOf(images []string) map[Address]bool {
	users := map[Address]bool{}
	for _, s := range rv.world.pools {
		at := ProviderAddress(s.at.provider)
		uses := slices.ContainsFunc(s.pool.Offers, func(o resources.Offer) bool {
			return o.Image.Kind != resources.CloudImage && slices.Contains(images, o.Image.Name)
		})
		if uses && (len(rv.world.opt.Targets) == 0 || concerns(rv.world.opt.Targets, at)) {
			users[at] = true
		}
	}
	return users
}
