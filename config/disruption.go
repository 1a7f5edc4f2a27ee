package config

import (
	"errors"
	"maps"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/schedule"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// disruptionChecks are the checks of the attributes of disruption blocks.
var disruptionChecks = map[string]schema.Check{
	"disruption.max": func(v cty.Value) error {
		_, err := resources.ParseMaxNodes(v.AsString())
		return err
	},
	"disruption.schedule": func(v cty.Value) error { return schedule.CheckExpression(v.AsString()) },
	"disruption.time_zone": func(v cty.Value) error {
		_, err := schedule.Zone(v.AsString())
		return err
	},
}

// withChecks returns the checks of a block that has disruption blocks.
func withChecks(checks map[string]schema.Check) map[string]schema.Check {
	maps.Copy(checks, disruptionChecks)
	return checks
}

// withDisruption adds the check of a whole disruption block to the schema of the block around it.
func withDisruption(b schema.Block) schema.Block {
	for i := range b.Blocks {
		if b.Blocks[i].Name == "disruption" {
			b.Blocks[i].Schema.Check = checkDisruption
		}
	}
	return b
}

// checkDisruption checks that a window is complete.
func checkDisruption(values map[string]cty.Value) error {
	expression, duration := values["schedule"], values["duration"]
	switch {
	case expression.IsNull() && duration.IsNull():
		return nil
	case expression.IsNull():
		return errors.New(`it has a duration without a schedule; add the times at which the window opens, such as schedule = "0 1 * * mon"`)
	case duration.IsNull():
		return errors.New(`it has a schedule without a duration; add the duration of the window, such as duration = "4h"`)
	}
	long, err := schema.ParseDuration(duration.AsString())
	if err == nil {
		_, err = schedule.New(expression.AsString(), long, values["time_zone"].AsString())
	}
	return err
}
