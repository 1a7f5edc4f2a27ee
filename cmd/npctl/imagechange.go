package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// imageChange implements image build, upload and delete: it computes a plan for images only, prints it, asks for
// approval and executes it, as apply does.
type imageChange struct {
	*applyCommand
}

func (a *app) newImageChange(operation string) *imageChange {
	c := &imageChange{applyCommand: &applyCommand{app: a, operation: operation}}
	c.refresh = true
	c.allow = string(plan.AllowAll)
	return c
}

// flags returns the options of apply that do not affect the plan.
func (c *imageChange) flags(own ...cli.Flag) []cli.Flag {
	return append(append(own,
		&cli.BoolFlag{Name: "auto-approve", Category: categoryRun, Destination: &c.autoApprove, Usage: "do not ask"},
		&cli.BoolFlag{Name: "dry-run", Category: categoryRun, Destination: &c.dryRun, Usage: "only show the plan"},
		&cli.BoolFlag{Name: "json", Category: categoryOutput, Destination: &c.json, Usage: "print events as JSON, one per line, as apply -json does (see docs/json.md); cannot prompt, so it needs -auto-approve; with -dry-run: print the plan"},
	), append(c.runFlags(), c.variables.flags()...)...)
}

// imagePlan is a plan for images, with its options.
type imagePlan struct {
	plan      plan.Plan
	opt       plan.Options
	requested []*resources.Build // newest builds of images that another host builds and is requested to build
}

// decision computes a plan from the desired and the observed state, or returns the reason why it cannot.
type decision func(want resources.Desired, seen plan.Observed) (imagePlan, error)

// run plans, prints the plan, asks for approval and executes it. It calls prepare, if not nil, between approval and
// execution.
func (c *imageChange) run(ctx context.Context, decide decision, prepare func(context.Context, *session) error) error {
	if c.dryRun {
		err := c.look(ctx, decide)
		if err != nil && c.json {
			err = cmp.Or(c.printJSON(failureDocument(err)), err)
		}
		return err
	}
	return c.withEvents(func(events *eventWriter) error { return c.change(ctx, events, decide, prepare) })
}

func (c *imageChange) change(ctx context.Context, events *eventWriter, decide decision, prepare func(context.Context, *session) error) error {
	if err := c.checkAlone(); err != nil {
		return err
	}
	s, err := c.loadSession(ctx, c.variables, c.parallelism, writeState)
	if err != nil {
		return err
	}
	defer s.close()
	return c.locked(ctx, s.store, c.operation, c.lockTimeout, func(ctx context.Context) error {
		made, err := c.decide(ctx, s, decide)
		if err != nil {
			return err
		}
		events.plan(made.plan, s.meta(made.opt))
		if err := c.show(s, made); err != nil {
			return err
		}
		left := made.plan.Deferred
		if made.plan.Summary().Empty() && len(made.requested) == 0 {
			return leftOut(left)
		}
		if err := c.approve(ctx, made.plan, "add -auto-approve; -dry-run only shows the plan"); err != nil {
			return err
		}
		if err := c.request(ctx, s, made.requested); err != nil {
			return err
		}
		if made.plan.Summary().Empty() {
			return leftOut(left)
		}
		if prepare != nil {
			if err := prepare(ctx, s); err != nil {
				return err
			}
		}
		made.plan.Deferred = nil
		if err := c.execute(ctx, s, made.plan, made.opt, events); err != nil {
			return err
		}
		return leftOut(left)
	})
}

// request requests builds from other build hosts.
func (c *imageChange) request(ctx context.Context, s *session, newest []*resources.Build) error {
	for _, b := range newest {
		store, ok := s.store.(state.BuildRequester)
		if !ok {
			return fmt.Errorf("image %s: this state supports no build requests", b.Image)
		}
		if err := store.RequestBuild(ctx, b.Image, true); err != nil {
			return fmt.Errorf("request a build of image %s: %w", b.Image, err)
		}
		c.ui.Message("Requested a build of image %s from npctl on %s; npctl image list shows it when it is ready.", b.Image, visibleLine(b.Host))
	}
	return nil
}

// leftOut returns an error if a provider could not be listed.
func leftOut(providers []string) error {
	return notListed(providers, "run npctl apply or the same command again when they respond")
}

// look implements -dry-run: it takes no lock and changes nothing.
func (c *imageChange) look(ctx context.Context, decide decision) error {
	s, err := c.loadSession(ctx, c.variables, c.parallelism, readState)
	if err != nil {
		return err
	}
	defer s.close()
	made, err := c.decide(ctx, s, decide)
	if err != nil {
		return err
	}
	if !c.json {
		return c.show(s, made)
	}
	return c.printReport(made.plan, s.meta(made.opt))
}

func (c *imageChange) decide(ctx context.Context, s *session, decide decision) (imagePlan, error) {
	seen, err := s.observe(ctx, true)
	if err != nil {
		return imagePlan{}, err
	}
	s.seen = seen
	return decide(s.config.Desired, seen)
}

// show prints the plan. It returns an error if the plan has problems.
func (c *imageChange) show(s *session, made imagePlan) error {
	if !c.json {
		if err := c.write(s, made); err != nil {
			return err
		}
	}
	if len(made.plan.Problems) > 0 {
		return problemsError(made.plan, "correct the configuration")
	}
	return nil
}

// write prints the requested builds and the plan. It omits an empty plan if it requests builds.
func (c *imageChange) write(s *session, made imagePlan) error {
	for _, b := range made.requested {
		if err := c.ui.Print("Image %s: npctl on %s builds it, since it has the newest build; this command requests a build there.",
			b.Image, visibleLine(b.Host)); err != nil {
			return err
		}
	}
	if len(made.requested) > 0 && made.plan.Summary().Empty() {
		return nil
	}
	return c.printPlan(made.plan, &c.planOptions, s.seen.Now)
}

func keepOf[T any](all []T, wanted func(T) bool) []T {
	var kept []T
	for _, one := range all {
		if wanted(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// imageSource returns the position of an image in the configuration, for an error message.
func imageSource(img *resources.Image) string {
	if at := img.Source.String(); at != "" {
		return at
	}
	return "its block"
}
