package inspect

import (
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// StepView describes a step.
func StepView(s *plan.Step) wire.Step {
	shown := wire.Step{ID: s.ID, Address: string(s.Address), Action: string(s.Action), Thing: string(s.Thing), Reason: string(s.Reason),
		Text: s.Reason.Text(), Image: s.Image, Provider: s.Provider, Pool: s.Pool, Label: s.Label, Request: s.Request, Needs: s.Needs, Estimate: s.Estimate}
	if s.Record.Kind != "" {
		shown.Record = s.Record.String()
	}
	return shown
}
