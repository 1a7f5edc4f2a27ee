package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

const imageBuildDescription = `Builds images now, regardless of their age, uploads the result to every provider that uses it, and
removes builds that are not kept any more: apply -replace for these images only. It shows the plan
and asks for approval.

If several builders share a state in ZooKeeper, the running builder that has the newest build of an image
builds it: the command requests that build, and does not wait for it.

A paused image is not built: use npctl image unpause, or set pause = false if it is paused in the
configuration.

Examples:
  npctl image build debian
  npctl image build -auto-approve debian ubuntu
  npctl image build -only-build debian          (test it first; upload it with npctl image upload)

Exit codes: 0 all steps are done, 1 error or some steps are not done, 130 interrupted.`

func newImageBuildCommand(a *app) *cli.Command {
	c := a.newImageChange("image build")
	only := false
	return &cli.Command{
		Name: "build", Usage: "build images now", ArgsUsage: "NAME...", Description: imageBuildDescription, Metadata: events(imageNames),
		Flags: c.flags(&cli.BoolFlag{Name: "only-build", Category: categoryPlanning, Destination: &only, Usage: "do not upload; the next apply uploads"}),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if cmd.NArg() == 0 {
				return hint(errors.New("npctl image build needs the name of an image"), "npctl image list shows the images")
			}
			names := cmd.Args().Slice()
			return c.run(ctx, func(want resources.Desired, seen plan.Observed) (imagePlan, error) {
				return decideBuild(want, seen, names, only)
			}, nil)
		},
	}
}

// decideBuild plans new builds of images and the steps that follow from them. It requests the builds of images that
// another host builds.
func decideBuild(want resources.Desired, seen plan.Observed, names []string, only bool) (imagePlan, error) {
	var images []*resources.Image
	var requested []*resources.Build
	for _, name := range names {
		img, err := buildable(want, seen, name)
		if err != nil {
			return imagePlan{}, err
		}
		if other := plan.OtherBuilder(seen, img.Name); other != nil {
			if only {
				return imagePlan{}, hint(fmt.Errorf("npctl on %s builds image %s, since it has its newest build", visibleLine(other.Host), img.Name),
					"run the command there; without -only-build, it requests a build from there")
			}
			requested = append(requested, other)
			continue
		}
		images = append(images, img)
	}
	if len(images) == 0 {
		return imagePlan{requested: requested}, nil
	}
	var opt plan.Options
	for _, img := range images {
		opt.Images, opt.Replace = append(opt.Images, img.Name), append(opt.Replace, plan.Address(img.Ref().String()))
		for _, p := range inspect.ImageUsers(want, img) {
			if only {
				opt.Excludes = append(opt.Excludes, inspect.UploadAddress(p.Name, img.Name))
			}
		}
	}
	made := imagePlan{plan: plan.Compute(want, seen, opt), opt: opt, requested: requested}
	return made, unbuilt(images, made.plan)
}

// buildable returns a configured image that is not paused.
func buildable(want resources.Desired, seen plan.Observed, name string) (*resources.Image, error) {
	ref, err := findImage((&inspect.Fleet{Desired: want, Observed: seen}).Refs(), name)
	if err != nil {
		return nil, err
	}
	img := want.Image(ref.Name)
	record := inspect.ImageRecord(seen.Records, ref.Name)
	switch {
	case img == nil:
		return nil, hint(fmt.Errorf("image %s is not configured any more and cannot be built", ref.Name), "restore its block first")
	case img.Pause:
		return nil, hint(fmt.Errorf("image %s is paused in the configuration", ref.Name), "remove pause = true at "+imageSource(img)+" first")
	case record.Paused:
		why := ""
		if record.PauseReason != "" {
			why = ": " + record.PauseReason
		}
		return nil, hint(fmt.Errorf("image %s is paused%s", ref.Name, why), "npctl image unpause "+ref.Name+" first")
	}
	return img, nil
}

// unbuilt returns an error if the plan does not build one of the images and contains no problem that explains it.
func unbuilt(images []*resources.Image, p plan.Plan) error {
	for _, img := range images {
		planned := slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Kind == plan.KindBuild && s.Image == img.Name })
		if planned {
			continue
		}
		at := plan.Address(img.Ref().String())
		for _, n := range p.Notes {
			if n.Address == at {
				return errors.New(n.Text)
			}
		}
		for _, q := range p.Problems {
			if q.Address == at && q.Text != noneReplaced {
				return nil // the plan shows the problem
			}
		}
		return hint(fmt.Errorf("image %s has no formats and is not built", img.Name),
			"set formats in its block at "+imageSource(img)+", or add a label that boots from it")
	}
	return nil
}

// noneReplaced is the text of the plan's problem for an address of -replace that matches nothing.
const noneReplaced = "no object that can be replaced has this address"
