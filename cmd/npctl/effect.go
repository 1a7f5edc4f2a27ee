package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/planfile"
	"github.com/npctl/npctl/plan/render"
	"github.com/npctl/npctl/resources"
)

// effect observes the world, and returns the effect of the change from the base to the configuration of the session, and the plan
// of the latter.
func (s *session) effect(ctx context.Context, base *baseConfiguration, o *planOptions, opt plan.Options) (plan.Effect, plan.Plan, error) {
	if err := s.checkAddresses(ctx, opt); err != nil {
		return plan.Effect{}, plan.Plan{}, err
	}
	var err error
	if s.seen, err = s.observeWithLock(ctx, o.refresh); err != nil {
		return plan.Effect{}, plan.Plan{}, err
	}
	engine := s.engine.With(base.Desired)
	var before plan.Observed
	if s.snapshot != nil {
		before, _, err = engine.ObserveSnapshot(ctx, s.snapshot, func(path string) error { return config.CheckBoundary(base.boundary, path) })
	} else if before, err = s.engine.ObserveBase(ctx, engine, s.seen, o.refresh); err == nil {
		s.seen, s.notes = s.engine.WithoutUnlisted(engine, s.seen)
	}
	if err != nil {
		return plan.Effect{}, plan.Plan{}, err
	}
	was, is := plan.Side{Desired: engine.Desired, Observed: before}, plan.Side{Desired: s.config.Desired, Observed: s.seen}
	var both sync.WaitGroup
	both.Go(func() { was.Plan = describedPlan(was.Desired, was.Observed, opt) })
	is.Plan = describedPlan(is.Desired, is.Observed, opt)
	both.Wait()
	differences := config.Differences(base.Result, s.config.Result)
	for i := range differences {
		if differences[i].Block == resources.BlockRemoved {
			differences[i].Source.File = base.fileName(differences[i].Source.File)
		}
	}
	e := plan.EffectOf(was, is, differences)
	for i := range e.Dropped {
		e.Dropped[i].Source.File = base.fileName(e.Dropped[i].Source.File)
	}
	e.Notes, e.Against = append(e.Notes, s.notes...), base.against
	return e, is.Plan, s.applyRules(&is.Plan, &e, opt)
}

// printEffect prints the text of an effect on stdout.
func (a *app) printEffect(e plan.Effect, verbose bool) error {
	return terminal.OutputError(render.EffectText(a.ui.Out, e, render.TextOptions{Color: a.ui.OutColor, Width: a.ui.OutWidth(), Verbose: verbose}))
}

// printEffectReport prints the JSON document of a plan with an effect on stdout.
func (a *app) printEffectReport(p plan.Plan, meta plan.Meta, e plan.Effect) error {
	report, err := render.EffectReport(p, meta, e)
	if err != nil {
		return err
	}
	return a.ui.Write(string(report))
}

// expectation is the effect that a review has approved.
type expectation struct {
	digest  string
	outline []string // nil if only the digest is known
}

var digestPattern = regexp.MustCompile("^[0-9a-f]{32}$")

// maxReport limits the size of a report of npctl plan -json.
const maxReport = 256 << 20

// readExpectation reads the value of -expect: a digest, a saved plan, or a file with a report of npctl plan -against -json.
func readExpectation(value string) (expectation, error) {
	if digestPattern.MatchString(value) {
		return expectation{digest: value}, nil
	}
	failed := func(err error) (expectation, error) {
		return expectation{}, hint(fmt.Errorf("option -expect=%s: %w", value, err), "pass the digest of an effect (32 hexadecimal digits), or a file of npctl plan -against=REVISION: its -out, or its -json output")
	}
	switch saved, err := planfile.Read(value); {
	case err == nil && saved.Change == nil:
		return failed(errors.New("it is a plan without -against"))
	case err == nil:
		return expectation{saved.Change.Effect.Digest(), saved.Change.Effect.Outline()}, nil
	case errors.Is(err, planfile.ErrDamaged), errors.Is(err, planfile.ErrFormat):
		return failed(err)
	}
	content, err := host.ReadFile(value, maxReport)
	if err != nil {
		return failed(err)
	}
	var report struct {
		Effect *struct {
			Digest  string   `json:"digest"`
			Outline []string `json:"outline"`
		} `json:"effect"`
	}
	if err := json.Unmarshal(content, &report); err != nil {
		return failed(fmt.Errorf("it is not a JSON document: %w", err))
	}
	if report.Effect == nil || plan.DigestOfOutline(report.Effect.Outline) != report.Effect.Digest {
		return failed(errors.New("it has no effect of a change"))
	}
	return expectation{report.Effect.Digest, report.Effect.Outline}, nil
}

// compare returns an error if the effect is not the expected one, and prints the difference.
func (a *app) compare(e plan.Effect, want expectation) error {
	if e.Digest() == want.digest {
		return nil
	}
	now := e.Outline()
	without := func(lines, others []string) []string { // both are sorted
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { _, both := slices.BinarySearch(others, line); return both })
	}
	a.printOutline("The change was reviewed with this effect, which it no longer has:", without(want.outline, now))
	lead := "The change has this effect, which was not reviewed:"
	if want.outline == nil {
		lead = "The effect of the change is now:"
	}
	a.printOutline(lead, without(now, want.outline))
	return hint(fmt.Errorf("the effect of the change is not the reviewed one (its digest is %s, the reviewed one is %s); nothing was applied", e.Digest(), want.digest),
		"review the present effect: npctl plan -against="+e.Against)
}

func (a *app) printOutline(lead string, lines []string) {
	const shown = 50
	if len(lines) == 0 {
		return
	}
	a.ui.Message("%s", lead)
	for i, line := range lines {
		if i == shown {
			a.ui.Message("  ... and %d more", len(lines)-shown)
			return
		}
		a.ui.Message("  - %s", visibleLine(line))
	}
}
