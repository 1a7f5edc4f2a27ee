package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan/planfile"
)

// readPlan reads a plan file and adopts its variables and options. Only sensitive variables must be passed again.
func (c *applyCommand) readPlan(path string) (*planfile.File, error) {
	if c.narrowed() {
		return nil, hint(errors.New("options cannot change a saved plan"),
			"remove -target, -exclude, -replace, -destroy, -refresh-only and -allow-destroy, or plan again with them")
	}
	file, err := planfile.Read(path)
	if err != nil {
		return nil, err
	}
	for _, given := range c.variables.vars {
		name, _, _ := strings.Cut(given, "=")
		if _, saved := file.Variables[name]; saved {
			return nil, hint(fmt.Errorf("the plan contains the value of the variable %q", name),
				"remove the option, or plan again with it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(file.Variables)) {
		var value string
		if err := json.Unmarshal(file.Variables[name], &value); err != nil {
			return nil, fmt.Errorf("plan file %s: variable %s: %w", path, name, err)
		}
		c.variables.vars = append(c.variables.vars, name+"="+value)
	}
	c.destroy, c.refresh = file.Meta.Options.Destroy, !file.Meta.Options.NoRefresh
	return &file, nil
}

// applySaved executes a plan file, unless it is stale.
func (c *applyCommand) applySaved(ctx context.Context, s *session, file planfile.File, events *eventWriter) error {
	if err := file.CheckInstallation(s.identity.Lineage); err != nil {
		return err
	}
	if change := file.CheckConfiguration(s.config.Desired); change != nil {
		return c.anotherConfiguration(file, change)
	}
	if len(file.Plan.Problems) > 0 {
		return problemsError(file.Plan, "npctl show FILE prints them; correct the configuration and plan again")
	}
	current, err := s.compute(ctx, &c.planOptions, file.Meta.Options)
	if err != nil {
		return err
	}
	if err := s.sight(ctx, c.refresh); err != nil {
		return err
	}
	if stale := file.Stale(current, &s.seen.Records); len(stale) > 0 {
		return c.refuse(file, stale)
	}
	events.plan(file.Plan, file.Meta)
	if !c.json {
		if err := c.ui.Print("%s", file.Plan.Summary()); err != nil {
			return err
		}
	}
	if file.Plan.Summary().Empty() {
		return c.incomplete(file.Plan)
	}
	if file.Change != nil {
		c.reviewed = file.Change.Effect.Digest()
	}
	return c.execute(ctx, s, file.Plan, file.Meta.Options, events)
}

// anotherConfiguration lists the blocks that differ. If none differs, the value of a sensitive variable has changed.
func (c *applyCommand) anotherConfiguration(file planfile.File, change *planfile.ConfigurationChange) error {
	if len(change.Blocks) == 0 && len(file.Sensitive) > 0 {
		return hint(errors.New("a sensitive value has changed since the plan was computed: plan again"),
			fmt.Sprintf("sensitive variables are not saved; set them to the same value again: %s", text.And(file.Sensitive)))
	}
	c.changedSince(file, "the configuration has changed", change.Blocks)
	return hint(errors.New("the configuration, or a variable, has changed since the plan was computed: plan again"),
		"apply it with the configuration that it was planned from, or create a new plan with npctl plan -out=FILE")
}

// refuse lists the changes that make a plan stale.
func (c *applyCommand) refuse(file planfile.File, stale []planfile.Mismatch) error {
	lines := make([]string, len(stale))
	for i := range stale {
		lines[i] = stale[i].String()
	}
	c.changedSince(file, "objects of the plan have changed", lines)
	return hint(errors.New("the plan is stale; no changes were made"), "create a new plan: npctl plan -out=FILE")
}

// changedSince prints changes since the plan was computed, at most 20 of them.
func (c *applyCommand) changedSince(file planfile.File, what string, changes []string) {
	const shown = 20
	c.ui.Message("Since this plan was made (%s), %s:", file.Meta.Created.Local().Format("2006-01-02 15:04:05 MST"), what)
	for i, change := range changes {
		if i == shown {
			c.ui.Message("  ... and %d more", len(changes)-shown)
			return
		}
		c.ui.Message("  - %s", change)
	}
}
