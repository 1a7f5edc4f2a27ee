package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

const imageDeleteDescription = `Removes a build of an image with its files and its uploads, or one upload. It shows the plan with its
consequences and asks for approval.

To roll back a bad build, delete it: new nodes boot from the newest build that is ready in their
provider. If the next build is due by then, the next plan builds it, and it may be as bad: -pause
stops builds of the image until npctl image unpause.

The next plan uploads a deleted upload again if its build is the newest. npctl does not delete an upload
that nodes run from; -with-nodes first replaces the ready nodes with nodes of the remaining upload. With
prevent_destroy the last ready build, and the last upload in a provider, stay.

Examples:
  npctl image delete debian -build=newest -with-nodes -pause -reason="does not boot"    (roll back)
  npctl image delete debian -build=4f1c0a
  npctl image delete debian -provider=vexxhost -build=4f1c0a
  npctl image delete debian -upload=0000000012

Exit codes: 0 all steps are done, 1 error or some steps are not done, 130 interrupted.`

// imageDeletion holds the options of image delete.
type imageDeletion struct {
	image, build, upload, provider string
	pause, nodes                   bool
	reason                         string
}

func newImageDeleteCommand(a *app) *cli.Command {
	c := a.newImageChange("image delete")
	var wish imageDeletion
	return &cli.Command{
		Name: "delete", Usage: "remove a build or an upload", ArgsUsage: "NAME", Description: imageDeleteDescription, Metadata: events(imageNames),
		Flags: c.flags(
			&stringFlag{cli.StringFlag{Name: "build", Category: categorySelection, Destination: &wish.build, Usage: "the build with this `ID`; with -provider just its upload there"}, records(resources.KindBuild)},
			&stringFlag{cli.StringFlag{Name: "upload", Category: categorySelection, Destination: &wish.upload, Usage: "the upload with this `ID`"}, records(resources.KindUpload)},
			&stringFlag{cli.StringFlag{Name: "provider", Category: categorySelection, Destination: &wish.provider, Usage: "the upload in the provider of this `NAME`"}, providerNames},
			&cli.BoolFlag{Name: "with-nodes", Category: categorySelection, Destination: &wish.nodes, Usage: "replace the ready nodes that run from it; those in use stay"},
			&cli.BoolFlag{Name: "pause", Category: categoryRun, Destination: &wish.pause, Usage: "pause the image as well, so that it is not built again at once"},
			&cli.StringFlag{Name: "reason", Category: categoryRun, Destination: &wish.reason, Usage: "with -pause: a `TEXT` to show with it"},
		),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			name, err := oneImage(cmd)
			if err != nil {
				return err
			}
			wish.image = name
			if wish.reason != "" && !wish.pause {
				return hint(errors.New("-reason needs -pause"), "give both, or neither")
			}
			return c.run(ctx, wish.decide, wish.preparation())
		},
	}
}

// preparation returns a function that pauses the image before the deletion, or nil without -pause. The image stays
// paused if the deletion fails.
func (wish imageDeletion) preparation() func(context.Context, *session) error {
	if !wish.pause {
		return nil
	}
	return func(ctx context.Context, s *session) error {
		ref, err := findImage((&inspect.Fleet{Desired: s.config.Desired, Observed: s.seen}).Refs(), wish.image)
		if err != nil {
			return err
		}
		_, err = setPaused(ctx, s.store, ref, true, wish.reason)
		return err
	}
}

// decide plans the deletion.
func (wish imageDeletion) decide(want resources.Desired, seen plan.Observed) (imagePlan, error) {
	ref, err := findImage((&inspect.Fleet{Desired: want, Observed: seen}).Refs(), wish.image)
	if err != nil {
		return imagePlan{}, err
	}
	going, err := wish.chosen(seen.Records, ref.Name)
	if err != nil {
		return imagePlan{}, err
	}
	if why := going.Forbidden(want, seen.Records); why != "" {
		return imagePlan{}, hint(errors.New(why), "upload or build another first, or set prevent_destroy = false and apply that")
	}
	if wish.pause {
		paused := *inspect.ImageRecord(seen.Records, ref.Name)
		paused.Kind, paused.Paused = ref.Kind, true
		seen.Records.Images = append(keepOf(seen.Records.Images, func(i *resources.ImageRecord) bool { return i.Name != ref.Name }), &paused)
	}
	opt := plan.Options{Remove: going.Keys()}
	for _, n := range seen.Records.Nodes {
		if wish.nodes && n.State == resources.StateReady && going.Has(n.Upload) {
			opt.Replace = append(opt.Replace, plan.Address(recordAddress(n)))
		}
	}
	p := plan.Compute(want, seen, opt)
	if users := going.Users(seen.Records, p); len(users) > 0 {
		return imagePlan{}, inUse(users)
	}
	p.Notes = going.Consequences(want, seen, p)
	return imagePlan{plan: p, opt: opt}, nil
}

// nodesShown is the maximum number of nodes in an error.
const nodesShown = 5

// inUse returns the error for nodes that run from the uploads to delete.
func inUse(users []*resources.Node) error {
	var names []string
	for _, n := range users[:min(len(users), nodesShown)] {
		names = append(names, fmt.Sprintf("%s (%s, %s)", recordAddress(n), n.Provider, n.State))
	}
	if more := len(users) - nodesShown; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return hint(fmt.Errorf("nodes run from the objects to delete: %s", text.And(names)),
		"-with-nodes replaces the ready ones; those in use stay, and so does their image until they are returned")
}

// chosen returns the build or the upload that the options select.
func (wish imageDeletion) chosen(r plan.Records, image string) (inspect.Removal, error) {
	going := inspect.Removal{Image: image}
	switch {
	case wish.upload != "" && (wish.build != "" || wish.provider != ""):
		return going, errors.New("-upload names one upload and cannot be combined with -build or -provider")
	case wish.upload == "" && wish.build == "" && wish.provider == "":
		return going, hint(errors.New("specify what to delete: -build=ID or -upload=ID"),
			"npctl image show "+image+" lists them; -build=newest rolls back to the previous build. To delete a whole image, remove its block")
	case wish.build != "" && wish.provider == "":
		b, err := findBuild(r, image, wish.build)
		if err != nil {
			return going, err
		}
		going.Build = b
		going.Uploads = keepOf(inspect.UploadsOf(r, image), func(u *resources.Upload) bool { return u.Build == b.ID })
		return going, nil
	}
	u, err := wish.oneUpload(r, image)
	going.Uploads = []*resources.Upload{u}
	return going, err
}

// oneUpload returns the upload that -upload selects, or -provider with an optional -build.
func (wish imageDeletion) oneUpload(r plan.Records, image string) (*resources.Upload, error) {
	build := ""
	if wish.build != "" {
		b, err := findBuild(r, image, wish.build)
		if err != nil {
			return nil, err
		}
		build = b.ID
	}
	found := keepOf(inspect.UploadsOf(r, image), func(u *resources.Upload) bool {
		return u.ID == wish.upload || wish.upload == "" && u.Provider == wish.provider && (build == "" || u.Build == build)
	})
	show := "npctl image show " + image + " lists its uploads"
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		var ids []string
		for _, u := range found {
			ids = append(ids, fmt.Sprintf("%s (build %s, %s)", u.ID, short(u.Build), u.State))
		}
		return nil, hint(fmt.Errorf("image %s has several uploads in %s", image, wish.provider), "select one with -upload: "+text.And(ids))
	case wish.upload != "":
		return nil, hint(fmt.Errorf("image %s has no upload %q", image, wish.upload), show)
	case build != "":
		return nil, hint(fmt.Errorf("provider %s has no upload of build %s of %s", wish.provider, short(build), image), show)
	default:
		return nil, hint(fmt.Errorf("provider %s has no upload of %s", wish.provider, image), show)
	}
}
