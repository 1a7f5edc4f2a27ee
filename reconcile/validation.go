package reconcile

import (
	"context"
	"errors"
	"fmt"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// validate tests an upload with one node. A node that fails is followed by another one, until a node succeeds, or the upload is
// rejected or validated. The last node is deleted in any case.
func (x *execution) validate(ctx context.Context, s plan.Step) (string, error) {
	l, err := x.intendLaunch(ctx, s)
	if err != nil {
		return s.Upload, err
	}
	return l.node.Upload, l.run(ctx)
}

// validation returns the rule of the image of a test node, or nil if the node is none or its image has no validation any more.
func (l *nodeLaunch) validation() *resources.Validation {
	if img := l.x.Desired.Image(l.offer.Image.Name); img != nil && l.step.Kind == plan.KindValidate {
		return img.Validate
	}
	return nil
}

// countTest counts the result of a test node, nil for a success, and returns the trial to commit together with the record of the node.
// It returns nil for an error that says nothing about the image. release is to be called after the commit.
func (l *nodeLaunch) countTest(ctx context.Context, cause error) (trial *resources.Trial, release func(), err error) {
	u, ok := get[resources.Upload](l.x.cache, resources.Key{Kind: resources.KindUpload, ID: l.node.Upload})
	rule := l.validation()
	if !ok || rule == nil {
		return nil, func() {}, fmt.Errorf("upload %s: %w", l.node.Upload, errChanged)
	}
	if saysNothing(cause) {
		return nil, func() {}, nil
	}
	records, release, err := l.lockTrials(ctx, u)
	if err != nil {
		return nil, func() {}, ErrInterrupted
	}
	return plan.TrialsOf(records, u.Image, u.Provider).CountTest(u, plan.Tester{Rule: rule, Now: l.x.Now()}, cause), release, nil
}

// testFailed ends a failed test node, and returns no error if another one is to follow.
func (l *nodeLaunch) testFailed(ctx context.Context, cause error, made int64) error {
	trial, release, err := l.countTest(ctx, cause)
	defer release()
	if err != nil {
		return l.giveUp(ctx, errors.Join(cause, err))
	}
	var counted []resources.Record
	if trial != nil {
		counted = append(counted, trial)
	}
	what := fmt.Errorf("test build %s of %s with node %s: %w", l.step.Build, l.step.Image, l.node.ID, cause)
	if trial != nil && trial.Rejected != nil {
		what = fmt.Errorf("build %s is rejected in %s: %w", trial.Build, l.provider.Name, cause)
	}
	if trial == nil || trial.Rejected != nil || made >= l.attempts || rejected(cause) || errors.Is(cause, drivers.ErrQuota) {
		return l.giveUp(ctx, what, counted...)
	}
	l.x.report(Event{Kind: EventRetry, Step: l.step, ID: l.node.ID, Err: cause, Done: made, Total: l.attempts})
	return l.continueWithNewNode(ctx, *l.node, cause, counted...)
}

// tested runs the program of the validation on a node that is otherwise ready, counts the success, and deletes the node.
func (l *nodeLaunch) tested(ctx context.Context, node *resources.Node) error {
	rule := l.validation()
	if rule == nil {
		return fmt.Errorf("image %s has no validation any more: %w", l.step.Image, errChanged)
	}
	l.x.progress(l.step)("testing", 0, 0)
	if err := l.x.hooks().test(ctx, node, rule); err != nil {
		return l.nodeError(ctx, node.ExternalID, err)
	}
	trial, release, err := l.countTest(ctx, nil)
	defer release()
	if err != nil {
		return err
	}
	*l.node = *node
	now := l.x.Now()
	l.node.State, l.node.StateTime, l.node.Seconds, l.node.Error = resources.StateDeleting, now, now.Sub(l.started).Seconds(), ""
	if err := l.x.cache.put(ctx, l.node, trial); err != nil {
		return err
	}
	l.x.cleaner.cleanUp(l.node)
	return nil
}

// mayBoot reports whether launches may use an upload that this run has created instead of the planned one.
func (l *nodeLaunch) mayBoot(id string) bool {
	img := l.x.Desired.Image(l.offer.Image.Name)
	if l.step.Kind == plan.KindValidate || img == nil || img.Validate == nil && img.Rollout == nil {
		return true
	}
	records, _ := l.x.cache.snapshot()
	boot := plan.BootChoiceOf(l.x.Desired, records, img.Name, l.provider.Name).Upload
	return boot != nil && boot.ID == id
}
