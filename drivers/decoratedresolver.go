package drivers

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/resources"
)

type decoratedResolver struct {
	inner  Resolver
	around Decorator
}

func (d *decoratedResolver) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	var problems []resources.Problem
	offer, err := do(ctx, d.around, Call{Name: "resolve_offer", Weight: paged}, func(ctx context.Context) (offer resources.ResolvedOffer, err error) {
		offer, problems, err = d.inner.ResolveOffer(ctx, config)
		return offer, err
	})
	return offer, problems, err
}

func (d *decoratedResolver) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	var problems []resources.Problem
	call := Call{Name: "resolve_image", Subject: spec.Name, Weight: paged}
	image, err := do(ctx, d.around, call, func(ctx context.Context) (image resources.RemoteImage, err error) {
		image, problems, err = d.inner.ResolveImage(ctx, spec)
		return image, err
	})
	return image, problems, err
}

type decoratedSweeper struct {
	inner  Sweeper
	around Decorator
}

func (d *decoratedSweeper) Leftovers(ctx context.Context) ([]resources.Leftover, error) {
	return do(ctx, d.around, Call{Name: "leftovers", Weight: paged}, d.inner.Leftovers)
}

func (d *decoratedSweeper) DeleteLeftover(ctx context.Context, l resources.Leftover) error {
	call := Call{Name: "delete_leftover", Subject: l.Type + " " + l.ID}
	return d.around(ctx, call, func(ctx context.Context) error { return d.inner.DeleteLeftover(ctx, l) })
}

type decoratedConsole struct {
	inner  Console
	around Decorator
}

func (d *decoratedConsole) ConsoleLog(ctx context.Context, id string) (string, error) {
	return do(ctx, d.around, Call{Name: "console_log", Subject: id}, func(ctx context.Context) (string, error) { return d.inner.ConsoleLog(ctx, id) })
}

const callCheck = "check"

type decoratedChecker struct {
	inner  Checker
	around Decorator
}

func (d *decoratedChecker) Check(ctx context.Context, node resources.StaticNode) ([]string, error) {
	return do(ctx, d.around, Call{Name: callCheck, Subject: node.Name}, func(ctx context.Context) ([]string, error) { return d.inner.Check(ctx, node) })
}
