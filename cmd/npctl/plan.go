package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/startup"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/planfile"
	"github.com/npctl/npctl/plan/render"
	"github.com/npctl/npctl/plan/snapshot"
)

const planDescription = `Reads the configuration and the state, lists the clouds, and shows the steps of apply and their
reasons. It changes neither the clouds nor the state (with -out it creates an empty state if there is
none, since a saved plan belongs to a state).

The last line is always of the form
  Plan: 1 to build, 1 to upload, 2 to launch, 0 to delete.
or "No changes.". The plan skips and names a provider that cannot be queried, and objects that another
npctl works on; the last line says so: "No known changes; 1 provider could not be
listed." or "No known changes; another npctl is working.". A plan takes no lock; with
-lock-timeout it waits at most that long for the other npctl.

With -against, npctl plans twice, with the earlier and the current configuration, and shows the difference
between both plans and between the settings. Work that is due without the change is not shown. The last line is
"No effect.", or of the form
  Effect: 2 to launch; no longer 1 to delete; 3 settings changed.

Examples:
  npctl plan
  npctl plan -out=tonight.plan && npctl apply tonight.plan
  npctl plan -target=provider.vexxhost -var region=ca-ymq-1
  npctl plan -destroy -exclude=diskimage.debian
  npctl plan -against=HEAD^1                            (only the effect of the newest commit)
  npctl plan -against=HEAD^1 -detailed-exitcode -markdown=comment.md    (in a review job)
  npctl plan -against=HEAD^1 -snapshot=https://npctl.example.com:8443    (without state and credentials)
  npctl plan -against=HEAD^1 -out=change.plan           (for npctl review, show and apply)
  npctl plan -json | jq '.steps[].address'

Exit codes: 0 done; 1 error, or the plan has problems that keep it from being applied;
with -detailed-exitcode 0 no changes, 1 error or not every provider could be listed, 2 changes;
with -against they are about the effect of the change.`

// planCommand implements npctl plan.
type planCommand struct {
	*app
	planOptions
	ruleOptions
	out, markdown string
	generateOut   string
	detailed      bool
	lock          bool
}

func newPlanCommand(a *app) *cli.Command {
	c := &planCommand{app: a}
	return &cli.Command{
		Name: "plan", Category: categoryMain, Usage: "show the changes that apply would make, and why", Description: planDescription,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "out", Category: categoryOutput, Destination: &c.out, TakesFile: true, Usage: "save the plan to `FILE`, for npctl apply FILE"},
			&cli.BoolFlag{Name: "detailed-exitcode", Category: categoryOutput, Destination: &c.detailed, Usage: "exit with 2 when there are changes"},
			&cli.StringFlag{Name: "generate-config-out", Category: categoryOutput, Destination: &c.generateOut, TakesFile: true, Usage: "write the blocks that imports lack to a new `FILE`, with the settings that the clouds report"},
			&cli.StringFlag{Name: "markdown", Category: categoryOutput, Destination: &c.markdown, TakesFile: true, Usage: "write the plan to `FILE` for a review comment as well (-: to stdout instead of the text)"},
			&cli.BoolFlag{Name: "json", Category: categoryOutput, Destination: &c.json, Usage: "print one JSON document (see docs/plan-json.md)"},
			&cli.BoolFlag{Name: "lock", Category: categoryRun, Destination: &c.lock, Value: true, Usage: "wait for another npctl as -lock-timeout says and warn of it; -lock=false does neither (a plan never takes the lock)"},
			c.againstFlag(),
			c.compactFlag(),
			c.destroyFlag(),
		}, slices.Concat(c.snapshotFlags(), c.ruleFlags(), c.flags())...),
		Action: c.run,
	}
}

func (c *planCommand) run(ctx context.Context, cmd *cli.Command) error {
	if err := c.checkPlan(); err != nil {
		return err
	}
	startup.CollectLess(200) // for 10,000 nodes a tenth less CPU time, with a sixth more memory
	snap, err := c.readSnapshot(ctx)
	if err != nil {
		return err
	}
	config, base, err := c.readBoth(ctx, c.against, c.variables, snap != nil)
	defer base.close(c.app)
	if err != nil {
		return err
	}
	s, err := c.open(ctx, config, snap)
	if err != nil {
		return err
	}
	defer s.close()
	if s.rules, err = c.readRules(config, c.ruleOptions); err != nil {
		return err
	}
	if c.lock {
		if err := s.awaitLockHolder(ctx, c.lockTimeout); err != nil {
			return err
		}
	}
	opt := c.compute()
	if base != nil {
		return c.effect(ctx, s, base, opt)
	}
	p, err := c.plan(ctx, s, opt)
	if err == nil {
		err = s.applyRules(&p, nil, opt)
	}
	if err != nil {
		return err
	}
	if err := c.show(s, p, opt); err != nil {
		return err
	}
	if err := c.generate(s.config.Desired, s.seen); err != nil {
		return err
	}
	if c.out != "" && len(p.Problems) == 0 { // a plan with problems cannot be applied
		if err := c.save(s, p, opt, nil); err != nil {
			return err
		}
	}
	return c.verdict(p)
}

// open opens a session with the state, or with a snapshot unless that is nil.
func (c *planCommand) open(ctx context.Context, config *configuration, snap *snapshot.Snapshot) (*session, error) {
	if snap != nil {
		return c.snapshotSession(config, snap, repositoryOf(ctx, c.global.config))
	}
	return c.openSession(ctx, config, c.parallelism, c.access(config))
}

// effect shows only the effect of the change since the base.
func (c *planCommand) effect(ctx context.Context, s *session, base *baseConfiguration, opt plan.Options) error {
	e, p, err := s.effect(ctx, base, &c.planOptions, opt)
	if err != nil {
		return err
	}
	if err := c.showEffect(s, e, p, opt); err != nil {
		return err
	}
	if c.out != "" {
		change := &planfile.Change{Effect: e}
		if change.Files, err = base.copied.files(ctx, maps.Keys(s.config.Files)); err != nil {
			return err
		}
		if err := c.save(s, p.Only(e), opt, change); err != nil {
			return err
		}
	}
	return c.effectVerdict(e)
}

// plan computes the plan. With -lock=false it does not note that another npctl is working; the plan still skips the objects
// that the other one works on.
func (c *planCommand) plan(ctx context.Context, s *session, opt plan.Options) (plan.Plan, error) {
	p, err := s.plan(ctx, &c.planOptions, opt)
	p.Notes = append(p.Notes, s.notes...)
	if !c.lock {
		p.Notes = slices.DeleteFunc(p.Notes, func(n plan.Note) bool { return n.Code == plan.CodeInProgress })
	}
	return p, err
}

// access returns readState, except for a plan that is saved before a state exists: the plan is bound to the
// installation, so the installation must be created.
func (c *planCommand) access(config *configuration) access {
	if place, err := c.stateOf(config.Desired.Settings); c.out != "" && err == nil && !exists(place.File) {
		return writeState
	}
	return readState
}

func (c *planCommand) checkPlan() error {
	if c.json && c.markdown == "-" {
		return fmt.Errorf("-json and -markdown=- both write to stdout")
	}
	if c.against != "" && c.generateOut != "" {
		return hint(errors.New("-against cannot be combined with -generate-config-out, which is about the whole plan"), "plan without -against")
	}
	if c.snapshot != "" && c.generateOut != "" {
		return hint(errors.New("-snapshot cannot be combined with -generate-config-out, which needs the objects in the clouds"), "plan without -snapshot")
	}
	return errors.Join(c.check(),
		outputFile{"out", c.out, []string{planfile.Begin}}.check(),
		outputFile{"markdown", c.markdown, []string{"### Plan: ", "### Effect: ", "### No "}}.check())
}

// show prints the plan in the selected formats.
func (c *planCommand) show(s *session, p plan.Plan, opt plan.Options) error {
	return c.print(func() error { return c.printReport(p, s.meta(opt)) },
		func(w io.Writer) error { return render.Markdown(w, p, 0) },
		func() error { return c.printPlan(p, &c.planOptions, s.seen.Now) })
}

// showEffect prints the effect in the selected formats.
func (c *planCommand) showEffect(s *session, e plan.Effect, p plan.Plan, opt plan.Options) error {
	return c.print(func() error { return c.printEffectReport(p, s.meta(opt), e) }, func(w io.Writer) error { return render.EffectMarkdown(w, e, 0) },
		func() error { return c.printEffect(e, c.verbose) })
}

// print prints the selected formats: a report on stdout, Markdown on stdout or in a file, or the text on stdout.
func (c *planCommand) print(report func() error, markdown func(io.Writer) error, text func() error) error {
	if c.markdown == "-" {
		return terminal.OutputError(markdown(c.ui.Out))
	}
	show := text
	if c.json {
		show = report
	}
	if err := show(); err != nil || c.markdown == "" {
		return err
	}
	return writeMarkdown(c.markdown, markdown)
}

// effectVerdict converts an effect into an exit code.
func (c *planCommand) effectVerdict(e plan.Effect) error {
	switch {
	case len(e.Problems) > 0:
		if !c.json {
			c.ui.Error("Error:", "%s", problemSentence(plan.Plan{Problems: e.Problems}))
		}
		return exitCode(1)
	case !c.detailed:
		return nil
	case !e.Empty():
		return exitCode(2)
	case e.Incomplete() != "":
		c.ui.Error("Error:", "whether the change has an effect is not known: %s.", e.Incomplete())
		return exitCode(1)
	default:
		return nil
	}
}

// writeMarkdown replaces a file atomically.
func writeMarkdown(path string, render func(io.Writer) error) error {
	var text bytes.Buffer
	if err := render(&text); err != nil {
		return fmt.Errorf("write Markdown to %s: %w", path, err)
	}
	if err := host.ReplaceReadableFile(path, text.Bytes()); err != nil {
		return fmt.Errorf("write Markdown to %s: %w", path, err)
	}
	return nil
}

// save writes the plan file. change is set if the plan has only the steps of a change.
func (c *planCommand) save(s *session, p plan.Plan, opt plan.Options, change *planfile.Change) error {
	file := planfile.File{Meta: s.meta(opt), Plan: p, Records: planfile.Reviewed(p, &s.seen.Records),
		Blocks: s.config.Desired.Blocks, Variables: map[string]json.RawMessage{}, Change: change}
	for name, v := range s.config.Variables {
		if v.Sensitive {
			file.Sensitive = append(file.Sensitive, name)
			continue
		}
		text, err := json.Marshal(v.Value)
		if err != nil {
			return fmt.Errorf("save plan: %w", err)
		}
		file.Variables[name] = text
	}
	slices.Sort(file.Sensitive)
	if err := file.Write(c.out); err != nil {
		return err
	}
	if !c.json {
		c.ui.Message("Saved to %s. To apply this plan: npctl apply %s", c.out, c.out)
	}
	return nil
}

// verdict converts the plan into an exit code.
func (c *planCommand) verdict(p plan.Plan) error {
	switch {
	case len(p.Problems) > 0:
		if !c.json {
			c.ui.Error("Error:", "%s", problemSentence(p))
		}
		return exitCode(1)
	case !c.detailed:
		return nil
	case !p.Summary().Empty():
		return exitCode(2)
	case p.InProgress != nil:
		c.ui.Error("Error:", "whether there are changes is not known: another npctl is working.")
		return exitCode(1)
	case len(p.Deferred) > 0:
		c.ui.Error("Error:", "whether there are changes is not known: not every provider could be listed.")
		return exitCode(1)
	default:
		return nil
	}
}

func problemSentence(p plan.Plan) string {
	if n := len(p.Problems); n > 1 {
		return fmt.Sprintf("the plan has %d problems and cannot be applied as it is.", n)
	}
	return "the plan has a problem and cannot be applied as it is."
}

// problemsError returns the error of a plan that is not applied because of its problems. It has a hint unless each problem
// that the plan shows has one.
func problemsError(p plan.Plan, advice string) error {
	err := errors.New(problemSentence(p) + " No step was run")
	if slices.ContainsFunc(p.Problems, func(q plan.Problem) bool { return q.Hint == "" }) {
		return hint(err, advice)
	}
	return err
}

// exists reports whether a file exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
