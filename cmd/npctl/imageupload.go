package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

const imageUploadDescription = `Uploads the newest build of an image, or the one that -build names, to the providers that use the
image and do not have that build. It builds no image, even if a build is due.

New nodes boot from the newest build that is ready in their provider, so an older uploaded build is a
fallback: npctl image delete -build=newest rolls back to it.

Examples:
  npctl image upload debian
  npctl image upload debian -provider=vexxhost
  npctl image upload debian -provider=vexxhost -again     (the upload is damaged)
  npctl image upload debian -build=4f1c0a

Exit codes: 0 all steps are done, 1 error or some steps are not done, 130 interrupted.`

// imageUploadOptions holds the options of image upload.
type imageUploadOptions struct {
	image, build string
	providers    []string
	again        bool
}

func newImageUploadCommand(a *app) *cli.Command {
	c := a.newImageChange("image upload")
	var wish imageUploadOptions
	return &cli.Command{
		Name: "upload", Usage: "upload a build to providers that do not have it", ArgsUsage: "NAME", Description: imageUploadDescription, Metadata: events(imageNames),
		Flags: c.flags(
			&stringsFlag{cli.StringSliceFlag{Name: "provider", Category: categorySelection, Destination: &wish.providers, Usage: "only to this provider, by `NAME`; may be given several times"}, providerNames},
			&stringFlag{cli.StringFlag{Name: "build", Category: categorySelection, Destination: &wish.build, Value: newestWord, Usage: "the build with this `ID` instead of the newest that is ready"}, records(resources.KindBuild)},
			&cli.BoolFlag{Name: "again", Category: categorySelection, Destination: &wish.again, Usage: "upload again where it exists, unless nodes run from it: the new upload replaces the old one"},
		),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			name, err := oneImage(cmd)
			if err != nil {
				return err
			}
			wish.image = name
			return c.run(ctx, wish.decide, nil)
		},
	}
}

// decide plans the uploads.
func (wish imageUploadOptions) decide(want resources.Desired, seen plan.Observed) (imagePlan, error) {
	ref, err := findImage((&inspect.Fleet{Desired: want, Observed: seen}).Refs(), wish.image)
	if err != nil {
		return imagePlan{}, err
	}
	img := want.Image(ref.Name)
	if img == nil {
		return imagePlan{}, hint(fmt.Errorf("image %s is not configured any more and is uploaded nowhere", ref.Name), "restore its block first")
	}
	b, err := wish.uploadable(seen, img)
	if err != nil {
		return imagePlan{}, err
	}
	providers, err := wish.targetProviders(want, img)
	if err != nil {
		return imagePlan{}, err
	}
	opt := plan.Options{Images: []string{img.Name}, Upload: []string{b.ID}}
	for _, p := range providers {
		opt.Targets = append(opt.Targets, inspect.UploadAddress(p, img.Name))
	}
	if wish.again {
		opt.Replace = opt.Targets
	}
	made := imagePlan{plan: plan.Compute(want, seen, opt), opt: opt}
	made.plan.Problems = keepOf(made.plan.Problems, func(p plan.Problem) bool { return p.Text != noneReplaced }) // the first upload
	if wish.again && made.plan.Summary().Empty() && len(made.plan.Problems) == 0 {
		return imagePlan{}, notAgain(made.plan.Notes)
	}
	made.plan.Notes = append(made.plan.Notes, wish.standsBy(want, seen, b, made.plan)...)
	return made, nil
}

// notAgain returns the reason why no upload is repeated.
func notAgain(notes []plan.Note) error {
	for _, n := range notes {
		return hint(errors.New(n.Text), "npctl image show lists the nodes")
	}
	return errors.New("no upload can be replaced")
}

// uploadable returns the build to upload. The build must be ready and, unless it is remote, have a file in the images
// directory.
func (wish imageUploadOptions) uploadable(seen plan.Observed, img *resources.Image) (*resources.Build, error) {
	b, err := findBuild(seen.Records, img.Name, wish.build)
	if err != nil {
		return nil, err
	}
	if b.State != resources.StateReady {
		return nil, fmt.Errorf("build %s of %s is %s, and only one that is ready can be uploaded", b.ID, img.Name, b.State)
	}
	left := slices.ContainsFunc(b.Files, func(f resources.ImageFile) bool {
		return slices.ContainsFunc(seen.Files, func(g plan.ImageFile) bool { return g.Name == f.Name })
	})
	if !left && !b.Remote {
		return nil, hint(fmt.Errorf("no file of build %s of %s is left in the images directory", b.ID, img.Name), "npctl image build "+img.Name+" builds a new one")
	}
	return b, nil
}

// targetProviders returns the providers to upload to. All of them must use the image.
func (wish imageUploadOptions) targetProviders(want resources.Desired, img *resources.Image) ([]string, error) {
	var names, paused []string
	for _, p := range inspect.ImageUsers(want, img) {
		if inspect.UploadsPaused(p, img) {
			paused = append(paused, p.Name)
		}
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return nil, hint(fmt.Errorf("no provider has a label that boots from %s", img.Name), "npctl uploads an image to the providers whose labels name it, or whose image block has upload = true")
	}
	for _, p := range wish.providers {
		if !slices.Contains(names, p) {
			return nil, hint(fmt.Errorf("provider %s has no label that boots from %s", p, img.Name), "those that have one: "+text.And(names))
		}
		if slices.Contains(paused, p) {
			return nil, hint(fmt.Errorf("uploads of %s to %s are paused in the configuration", img.Name, p), "remove pause = true from its image block in provider "+p)
		}
	}
	if len(wish.providers) > 0 {
		return wish.providers, nil
	}
	if len(paused) == len(names) {
		return nil, errors.New("uploads of " + img.Name + " are paused in the configuration of every provider")
	}
	return names, nil
}

// standsBy adds a note for each provider in which new nodes continue to boot from a newer build.
func (wish imageUploadOptions) standsBy(want resources.Desired, seen plan.Observed, b *resources.Build, p plan.Plan) []plan.Note {
	var notes []plan.Note
	for _, s := range p.Steps {
		if s.Kind != plan.KindUpload {
			continue
		}
		current := plan.BootChoiceOf(want, seen.Records, b.Image, s.Provider).Upload
		if current == nil || current.Build == b.ID || !newerThan(seen.Records, current.Build, b) {
			continue
		}
		notes = append(notes, plan.Note{Severity: plan.Info, Code: "standby", Address: s.Address,
			Text: fmt.Sprintf("new nodes in %s still boot from build %s, which is newer", s.Provider, short(current.Build))})
	}
	return notes
}

func newerThan(r plan.Records, id string, b *resources.Build) bool {
	i := slices.IndexFunc(r.Builds, func(other *resources.Build) bool { return other.ID == id })
	return i >= 0 && resources.CompareBuilds(r.Builds[i], b) < 0
}
