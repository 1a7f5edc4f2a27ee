package render

import (
	"encoding/json"

	"github.com/npctl/npctl/plan"
)

// parseReport returns the plan of a report.
func parseReport(report []byte) (plan.Plan, plan.Meta, error) {
	var doc reportDoc
	if err := json.Unmarshal(report, &doc); err != nil {
		return plan.Plan{}, plan.Meta{}, err
	}
	p := plan.Plan{Notes: doc.Notes, Problems: doc.Problems, Deferred: doc.Deferred, InProgress: doc.InProgress, Cost: doc.Cost, Least: doc.Least}
	unchanged, _ := json.Marshal(doc.Unchanged)
	if err := json.Unmarshal(unchanged, &p.Unchanged); err != nil {
		return plan.Plan{}, plan.Meta{}, err
	}
	for i := range doc.Steps {
		p.Steps = append(p.Steps, doc.Steps[i].step())
	}
	plan.RestoreKinds(p.Steps)
	return p, doc.Meta, nil
}

func (r *reportStep) step() plan.Step {
	return plan.Step{
		ID: r.ID, Address: r.Address, Kind: plan.Kind{Action: r.Action, Thing: r.Thing}, Reason: r.Reason, Evidence: r.Evidence,
		Changes: r.Changes, Files: r.Files, Needs: r.Needs, After: r.After, Image: r.Image, ImageKind: r.ImageKind, Build: r.Build, Version: r.Version, Format: r.Format,
		Formats: r.Formats, Upload: r.Upload, Provider: r.Provider, Pool: r.Pool, Label: r.Label, Node: r.Node, Slot: r.Slot, Zone: r.Zone, Request: r.Request, EventID: r.EventID, Nodes: r.Nodes, Declined: r.Declined, Record: r.Record, External: r.External, Type: r.Type, Replaces: r.Replaces, ReplacesNode: r.Replaced, NeedsConsent: r.Held, Becomes: r.Becomes, Values: stepValues(r.Values), Move: r.Move, Preconditions: r.Touches,
		Estimate: r.Estimate, Source: r.Source,
	}
}

func stepValues(report map[string]json.RawMessage) map[string]string {
	if len(report) == 0 {
		return nil
	}
	values := map[string]string{}
	for name, text := range report {
		values[name] = string(text)
	}
	return values
}
