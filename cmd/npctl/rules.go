package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/urfave/cli/v3"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/render"
	"github.com/npctl/npctl/resources"
)

// ruleOptions are the options about the rules of a team: check blocks about plans.
type ruleOptions struct {
	directory string   // -checks
	overrides []string // -override
}

func (o *ruleOptions) ruleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "checks", Category: categoryPlanning, Destination: &o.directory, TakesFile: true, Usage: "also check the plan with the check blocks in this `DIRECTORY`, which the change under review cannot weaken"},
		&cli.StringSliceFlag{Name: "override", Category: categoryPlanning, Destination: &o.overrides, Usage: "accept that a check fails, and record why: `CHECK=REASON`, such as check.size=\"agreed in review 4711\"; may be given several times"},
	}
}

// reasons returns the reasons of the overrides by address.
func (o *ruleOptions) reasons() (map[string]string, error) {
	reasons := map[string]string{}
	for _, one := range o.overrides {
		address, reason, _ := strings.Cut(one, "=")
		if reason = strings.TrimSpace(reason); reason == "" {
			return nil, hint(fmt.Errorf("option -override=%s has no reason", one), "write the address of a check and why it may fail: -override='check.NAME=REASON'")
		}
		reasons[address] = reason
	}
	return reasons, nil
}

// ruleSet are the rules for the plans of a session.
type ruleSet struct {
	checks  []config.CheckResult // about the configuration
	rules   []config.PlanRule    // about plans
	reasons map[string]string    // of overrides, by address
	files   map[string]*hcl.File
}

// readRules returns the rules of the configuration and of -checks.
func (a *app) readRules(c *configuration, o ruleOptions) (*ruleSet, error) {
	r := &ruleSet{checks: c.Checks, rules: c.Rules, files: c.Files}
	var err error
	if r.reasons, err = o.reasons(); err != nil {
		return nil, err
	}
	if o.directory != "" {
		if err := checkThere(o.directory); err != nil {
			return nil, fmt.Errorf("option -checks: %w", err)
		}
		more, diags := config.Load(a.withSources(config.Options{Path: o.directory}, newRegistry(), variableOptions{}))
		if diags.HasErrors() {
			return nil, &diagnosed{diags, more.Files}
		}
		if i := slices.IndexFunc(more.Desired.Blocks, func(b resources.Block) bool { return b.Address != "npctl" }); i >= 0 { // settings have defaults
			return nil, hint(fmt.Errorf("option -checks: %s has the block %s", o.directory, more.Desired.Blocks[i].Address), "a directory with checks has only check, locals and variable blocks")
		}
		r.checks, r.rules, r.files = slices.Concat(r.checks, more.Checks), slices.Concat(r.rules, more.Rules), sources(r.files, more.Files)
	}
	var known []string
	for _, check := range r.checks {
		known = append(known, check.Address)
	}
	for _, rule := range r.rules {
		known = append(known, rule.Address)
	}
	for _, address := range slices.Sorted(maps.Keys(r.reasons)) {
		if !slices.Contains(known, address) {
			return nil, hint(fmt.Errorf("option -override: there is no check with the address %s", address), nearest(address, known))
		}
	}
	return r, nil
}

func nearest(address string, known []string) string {
	if near := text.Nearest(address, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "the address of a check is check.NAME, or module.MODULE.check.NAME"
}

// applyRules evaluates the rules for a plan and its effect, which may be nil, and adds their failures: as problems those with the severity
// error, and as notes all others.
func (s *session) applyRules(p *plan.Plan, e *plan.Effect, opt plan.Options) error {
	r := s.rules
	if r == nil {
		return nil
	}
	before := len(p.Notes)
	problems := len(p.Problems)
	for _, check := range r.checks {
		if !check.Passed && !check.Unknown && (check.Severity == config.RuleError || r.reasons[check.Address] != "") { // any other one was a warning
			r.failed(p, plan.Address(check.Address), check.Severity, check.Message, plan.Problem{Source: check.Source})
		}
	}
	if len(r.rules) > 0 {
		values, err := s.ruleValues(*p, e, opt)
		if err != nil {
			return err
		}
		for _, rule := range r.rules {
			at := plan.Problem{Source: rule.Source}
			if i := slices.IndexFunc(rule.Roots, func(root string) bool { return values[root] == cty.NilVal }); i >= 0 {
				p.Notes = append(p.Notes, plan.Note{Severity: plan.Info, Code: "check-skipped", Address: plan.Address(rule.Address), Source: rule.Source,
					Text: "the check is about " + rule.Roots[i] + ", which this plan does not have"})
				continue
			}
			message, diags := rule.Evaluate(values)
			if diags.HasErrors() {
				return &diagnosed{diags, r.files}
			}
			if message != "" {
				r.failed(p, plan.Address(rule.Address), rule.Severity, message, at)
			}
		}
	}
	if e != nil {
		e.Notes, e.Problems = append(e.Notes, p.Notes[before:]...), append(e.Problems, p.Problems[problems:]...)
	}
	return nil
}

// failed adds the failure of a check.
func (r *ruleSet) failed(p *plan.Plan, at plan.Address, severity config.RuleSeverity, message string, problem plan.Problem) {
	note := plan.Note{Severity: plan.Warning, Code: "check-failed", Address: at, Text: message, Source: problem.Source}
	reason := r.reasons[string(at)]
	switch {
	case reason != "":
		note.Code, note.Text = codeOverridden, message+"; accepted: "+reason
	case severity == config.RuleError:
		problem.Address, problem.Text, problem.Hint = at, message, "change the configuration, or accept it with -override='"+string(at)+"=REASON'"
		p.Problems = append(p.Problems, problem)
		return
	}
	p.Notes = append(p.Notes, note)
}

// codeOverridden is the code of a note about a failure that an option accepts.
const codeOverridden = "check-overridden"

// overridden returns the accepted failures of checks in the notes of a plan, for an audit record.
func overridden(notes []plan.Note) (all []string) {
	for _, n := range notes {
		if n.Code == codeOverridden {
			all = append(all, string(n.Address)+": "+n.Text)
		}
	}
	return all
}

// ruleValues returns the values of config.PlanRoots. A root that the plan does not have is missing.
func (s *session) ruleValues(p plan.Plan, e *plan.Effect, opt plan.Options) (map[string]cty.Value, error) {
	report, err := render.Report(p, s.meta(opt))
	if e != nil {
		report, err = render.EffectReport(p, s.meta(opt), *e)
	}
	if err != nil {
		return nil, err
	}
	var parts struct{ Effect, Cost json.RawMessage }
	if err := json.Unmarshal(report, &parts); err != nil {
		return nil, err
	}
	all := inspect.ExpressionRoots(s.config.Desired, s.seen.Records)
	all["plan"] = json.RawMessage(report)
	for name, part := range map[string]json.RawMessage{"effect": parts.Effect, "cost": parts.Cost} {
		if len(part) > 0 {
			all[name] = part
		}
	}
	return expressionValues(all)
}
