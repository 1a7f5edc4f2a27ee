package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/planfile"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
)

const applyDescription = `Computes a plan as npctl plan does, shows it, asks for approval, and applies it. With PLANFILE
(from npctl plan -out) it applies the reviewed plan without asking. It refuses, and prints the reason,
if the configuration has changed or objects of the plan have changed since.

With -against it applies only the effect of the change since that revision: its steps, and the steps that
they need. With -expect it does so without asking if the effect is the reviewed one, however busy the
fleet is; otherwise it shows the differences and runs no step.

Independent steps run in parallel. If a step fails, npctl skips and lists the steps that depend on
it, runs all others, and exits with 1; the next apply resumes from there. A launch that fails
because its pool has no capacity is planned again in the next pool of its label. ^C once starts no
more steps, stops the running steps and records their progress: they count as interrupted, not as
failed. ^C twice quits at once, which is safe too.

Examples:
  npctl apply
  npctl apply tonight.plan
  npctl apply -auto-approve -lock-timeout=5m        (in a job)
  npctl apply -replace=node.0000000017
  npctl apply -refresh-only
  npctl apply -against=HEAD^1 -expect=effect.json   (after the merge of a reviewed change)
  npctl apply -auto-approve -json | jq -c 'select(.type == "step_failed")'

Exit codes: 0 all steps are done, 1 error or some steps are not done, 130 interrupted.`

// applyCommand implements npctl apply and npctl destroy.
type applyCommand struct {
	*app
	planOptions
	ruleOptions
	autoApprove bool
	dryRun      bool // only show the plan; no option of npctl apply
	jsonInto    string
	expect      string // digest or report of the reviewed effect
	expected    expectation
	operation   string // such as apply or destroy
	reviewed    string // digest of the reviewed effect to which the plan is limited
}

func newApplyCommand(a *app) *cli.Command {
	c := &applyCommand{app: a, operation: "apply"}
	return &cli.Command{
		Name: "apply", Category: categoryMain, Usage: "apply the configuration", ArgsUsage: "[PLANFILE]", Metadata: events(single(files)),
		Description: applyDescription, Flags: append(append(c.applyFlags(), c.ruleFlags()...), c.destroyFlag(), c.againstFlag(),
			&cli.StringFlag{Name: "expect", Category: categoryRun, Destination: &c.expect, TakesFile: true, Usage: "with -against: apply without asking if the effect is the reviewed one, and otherwise nothing. `REVIEWED` is its digest, or a file of npctl plan -against: its -out, or its -json output"}), Action: c.run,
	}
}

func (c *applyCommand) applyFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.BoolFlag{Name: "auto-approve", Category: categoryRun, Destination: &c.autoApprove, Usage: "do not ask"},
		&cli.BoolFlag{Name: "json", Category: categoryOutput, Destination: &c.json, Usage: "print events as JSON, one per line (see docs/json.md); cannot prompt, so it needs -auto-approve or a PLANFILE"},
		&cli.StringFlag{Name: "json-into", Category: categoryOutput, Destination: &c.jsonInto, TakesFile: true, Usage: "write the events of -json to `FILE` beside the text"},
		c.compactFlag(),
	}, c.flags()...)
}

func (c *applyCommand) run(ctx context.Context, cmd *cli.Command) error {
	return c.withEvents(func(events *eventWriter) error { return c.apply(ctx, cmd, events) })
}

func (c *applyCommand) apply(ctx context.Context, cmd *cli.Command, events *eventWriter) error {
	if err := c.checkApply(cmd); err != nil {
		return err
	}
	var saved *planfile.File
	if path := cmd.Args().First(); path != "" {
		file, err := c.readPlan(path)
		if err != nil {
			return err
		}
		saved = file
	}
	config, base, err := c.readBoth(ctx, c.against, c.variables, false)
	defer base.close(c.app)
	if err != nil {
		return err
	}
	s, err := c.openSession(ctx, config, c.parallelism, writeState)
	if err != nil {
		return err
	}
	defer s.close()
	if s.rules, err = c.readRules(config, c.ruleOptions); err != nil {
		return err
	}
	if _, running := s.store.(*daemonStore); running && c.destroy {
		return hint(errors.New("npctl watch is running and would recreate everything that destroy deletes"),
			"stop it first (systemctl stop npctl-watch), or remove blocks from the configuration and run npctl reload")
	}
	return c.locked(ctx, s.store, c.operation, c.lockTimeout, func(ctx context.Context) error {
		if err := c.checkDaemon(ctx, s); err != nil {
			return err
		}
		if saved != nil {
			return c.applySaved(ctx, s, *saved, events)
		}
		if base != nil {
			return c.applyEffect(ctx, s, base, events)
		}
		return c.applyFresh(ctx, s, events)
	})
}

// checkDaemon rejects an apply beside npctl watch with another configuration. It would undo the apply at once, and delete
// what only the new configuration has.
func (c *applyCommand) checkDaemon(ctx context.Context, s *session) error {
	daemon, running := s.store.(*daemonStore)
	if !running || c.dryRun {
		return nil
	}
	digest, err := daemon.ConfigurationDigest(ctx)
	if err != nil || digest == "" || s.config.Desired.Digests.Same(digest) { // empty: an older npctl
		return err
	}
	return hint(errors.New("npctl watch is running with another configuration and would undo what this apply does; no step was run"),
		"npctl reload makes it read and apply the configuration")
}

func (c *applyCommand) checkApply(cmd *cli.Command) error {
	if c.json && !c.autoApprove && cmd.NArg() == 0 && c.expect == "" {
		return hint(errors.New("-json cannot prompt"), "add -auto-approve, or pass a plan file")
	}
	if c.expect != "" {
		if c.against == "" {
			return hint(errors.New("-expect is about the effect of a change"), "add -against=REVISION, as in the review")
		}
		var err error
		if c.expected, err = readExpectation(c.expect); err != nil {
			return err
		}
	}
	if c.against != "" && cmd.NArg() > 0 {
		return errors.New("-against and a plan file exclude each other: a saved plan is applied as it is")
	}
	return c.check()
}

// applyEffect applies only the effect of a change: its steps, and their dependencies. With -expect it does so without asking, if
// the effect is the reviewed one.
func (c *applyCommand) applyEffect(ctx context.Context, s *session, base *baseConfiguration, events *eventWriter) error {
	opt := c.compute()
	e, p, err := s.effect(ctx, base, &c.planOptions, opt)
	if err != nil {
		return err
	}
	if err := s.sight(ctx, c.refresh); err != nil {
		return err
	}
	if !c.json {
		if err := c.printEffect(e, c.verbose); err != nil {
			return err
		}
	}
	if c.expect != "" {
		if err := c.compare(e, c.expected); err != nil {
			return err
		}
		c.reviewed = e.Digest()
	}
	whole := len(p.Steps)
	p = p.Only(e)
	events.plan(p, s.meta(opt))
	switch {
	case len(p.Problems) > 0:
		return problemsError(p, "correct the configuration, or exclude the block with -exclude")
	case len(p.Steps) == 0:
		return c.incomplete(p)
	}
	if c.expect == "" {
		if err := c.approve(ctx, p, "review the effect with npctl plan -against="+c.against+" and add -expect=DIGEST, or add -auto-approve"); err != nil {
			return err
		}
	}
	if err := c.execute(ctx, s, p, opt, events); err != nil {
		return err
	}
	if left := whole - len(p.Steps); left > 0 && !c.json {
		c.ui.Message("%s not part of the change and still due: npctl apply", text.Count(left, "step is", "steps are"))
	}
	return nil
}

// applyFresh computes a plan, prints it, asks for approval and executes it.
func (c *applyCommand) applyFresh(ctx context.Context, s *session, events *eventWriter) error {
	opt := c.compute()
	p, err := s.plan(ctx, &c.planOptions, opt)
	if err == nil {
		err = s.applyRules(&p, nil, opt)
	}
	if err != nil {
		return err
	}
	if err := s.sight(ctx, c.refresh); err != nil {
		return err
	}
	events.plan(p, s.meta(opt))
	if !c.json {
		if err := c.printPlan(p, &c.planOptions, s.seen.Now); err != nil {
			return err
		}
	}
	switch {
	case len(p.Problems) > 0:
		return problemsError(p, "correct the configuration, or exclude the block with -exclude")
	case p.Summary().Empty() || c.dryRun:
		return c.incomplete(p)
	}
	if err := c.approve(ctx, p, "review it with npctl plan -out=FILE and npctl apply FILE, or add -auto-approve"); err != nil {
		return err
	}
	return c.execute(ctx, s, p, opt, events)
}

// sight records the leaks that were listed, so that the next plan counts them as sighted before.
func (s *session) sight(ctx context.Context, refreshed bool) error {
	if !refreshed {
		return nil
	}
	return s.engine.Sight(ctx, s.seen)
}

// approve asks the operator to approve the plan. without is the hint if that is not possible.
func (c *applyCommand) approve(ctx context.Context, p plan.Plan, without string) error {
	if c.autoApprove {
		return nil
	}
	question := "Do you want to apply this plan?"
	if c.destroy {
		question = fmt.Sprintf("Do you really want to destroy this? %s will be deleted. This cannot be undone.", text.Count(p.Summary().Delete, "thing", "things"))
	}
	if !c.input {
		return hint(errors.New("-input=false: cannot ask for approval; no changes were made"), without)
	}
	if c.ui.InTerm {
		c.ui.Message("")
	}
	err := c.confirm(ctx, c.ui.Style(terminal.StyleStrong, question), without)
	if err == nil {
		c.ui.Message("")
	}
	return err
}

// execute runs the steps with an audit record, and reports their results.
func (c *applyCommand) execute(ctx context.Context, s *session, p plan.Plan, opt plan.Options, events *eventWriter) error {
	return c.audited(ctx, s.store, c.auditRecord(s, p), func() error { return c.executeSteps(ctx, s, p, opt, events) })
}

// auditRecord describes the execution of a plan.
func (c *applyCommand) auditRecord(s *session, p plan.Plan) resources.Audit {
	a := resources.Audit{Operation: c.operation, Configuration: s.config.Desired.Digests.Current(), Plan: p.Digest(), Summary: p.Summary().String(), Reviewed: c.reviewed}
	for i := range p.Steps {
		a.Objects = append(a.Objects, string(p.Steps[i].Address))
	}
	slices.Sort(a.Objects)
	a.Objects = slices.Compact(a.Objects)
	a.Overrides = overridden(p.Notes)
	return a
}

func (c *applyCommand) executeSteps(ctx context.Context, s *session, p plan.Plan, opt plan.Options, events *eventWriter) error {
	started := time.Now()
	journal, closeJournal, err := s.journal(ctx)
	if err != nil {
		return err
	}
	progress := c.newProgress(p)
	c.signals.interrupt.Set(progress.interrupted)
	s.engine.Report = func(e reconcile.Event) {
		events.step(e)
		progress.event(e)
		journal.AddStep(e)
	}
	result, err := s.engine.Execute(ctx, p, opt, s.seen)
	progress.close()
	closeJournal()
	c.signals.interrupt.Set(nil)
	if err != nil && len(result.Done)+len(result.Failed)+len(result.Interrupted)+len(result.Skipped) == 0 { // no step started
		return served(err)
	}
	took := time.Since(started)
	events.summary(c.operation, result, took)
	if !c.json {
		if err := c.printResult(p, result, took); err != nil {
			return err
		}
	}
	switch {
	case err != nil:
		return err
	case errors.Is(context.Cause(ctx), errSignal):
		c.ui.Message("Interrupted. Completed steps are recorded; run npctl %s again to resume.", c.operation)
		return exitCode(exitInterrupted)
	case result.Err() != nil:
		return hint(result.Err(), "fix the causes above and apply again: npctl resumes from here")
	}
	return c.incomplete(p)
}

// served adds a hint to an error that says that another process has the lock of a provider or an image.
func served(err error) error {
	other, locked := errors.AsType[*state.LockedError](err)
	switch {
	case locked && !strings.HasPrefix(other.Holder.Operation, "watch"):
		return hint(err, "apply again when it has ended; the lock of a killed process ends with its ZooKeeper session")
	case locked && state.IsImageLock(other.Name):
		return hint(err, "npctl watch builds and uploads images there; apply on its machine, stop it first, or exclude images with -exclude")
	case locked:
		return hint(err, "npctl watch applies the configuration there; apply on its machine, or stop it first")
	}
	return err
}

// journal starts to record steps in the journal. The returned function stops that and writes the remaining entries.
func (s *session) journal(ctx context.Context) (journal *watch.Journal, end func(), err error) {
	if journal, err = watch.OpenJournal(ctx, s.store); err != nil {
		return nil, nil, err
	}
	keeping, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { journal.Keep(keeping) })
	return journal, func() {
		stop()
		keeper.Wait()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := journal.Flush(last); err != nil {
			s.app.log.Warn("the journal is not complete", "error", err)
		}
	}, nil
}

// incomplete returns an error if a provider could not be listed, because its actual state is unknown.
func (c *applyCommand) incomplete(p plan.Plan) error {
	return notListed(p.Deferred, "apply again when they respond, or exclude them with -exclude=provider.NAME")
}

// notListed returns an error with the next step unless all providers could be listed.
func notListed(providers []string, next string) error {
	if len(providers) == 0 {
		return nil
	}
	return hint(fmt.Errorf("some steps were not planned: these providers could not be listed: %s", text.And(providers)), next)
}
