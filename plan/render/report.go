package render

import (
	"encoding/json"
	"fmt"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// The JSON report is a separate format, described in docs/plan-json.md and docs/schemas/plan.json. It only grows:
// names keep their meaning, and readers ignore unknown names. Where Terraform has the same concept, the report uses
// Terraform's name.

// reportVersion is the format_version of reports. The minor version increases with each addition.
const reportVersion = "1.0"

type reportDoc struct {
	FormatVersion string `json:"format_version"`
	plan.Meta
	Digest    string         `json:"plan_digest"`
	Applyable bool           `json:"applyable"`
	Complete  bool           `json:"complete"`
	Errored   bool           `json:"errored"`
	Summary   reportSummary  `json:"summary"`
	Steps     []reportStep   `json:"steps"`
	Notes     []plan.Note    `json:"notes"`
	Problems  []plan.Problem `json:"problems"`
	Deferred  []string       `json:"deferred"`
	Unchanged []plan.Address `json:"unchanged"`
	// InProgress is set while another process works on the state.
	InProgress *plan.LockHolder `json:"in_progress,omitempty"`
	// Least has the labels of which the plan takes ready nodes.
	Least []plan.LeastReady `json:"least_ready,omitempty"`
	// Cost is set if a provider has prices.
	Cost resources.Cost `json:"cost,omitzero"`
	// Effect is set if the plan was compared with that of another configuration.
	Effect *reportEffect `json:"effect,omitempty"`
}

// reportEffect is the effect of a change of the configuration.
type reportEffect struct {
	Against     string                 `json:"against"`
	Digest      string                 `json:"digest"`
	Outline     []string               `json:"outline"`
	Empty       bool                   `json:"empty"`
	Complete    bool                   `json:"complete"`
	Text        string                 `json:"text"`
	Settings    []resources.Difference `json:"settings"`
	Added       []reportStep           `json:"added"`
	NoLonger    []reportStep           `json:"no_longer"`
	Differently []reportStep           `json:"differently"`
	Common      int                    `json:"common"`
	Problems    []plan.Problem         `json:"problems"`
	Notes       []plan.Note            `json:"notes"`
	Deferred    []string               `json:"deferred"`
	Least       []plan.LeastReady      `json:"least_ready,omitempty"`
	Cost        plan.CostChange        `json:"cost,omitzero"`
}

type reportSummary struct {
	plan.Summary
	Text string `json:"text"`
}

type reportStep struct {
	ID         string                     `json:"id"`
	Address    plan.Address               `json:"address"`
	Action     plan.Action                `json:"action"`
	Actions    []string                   `json:"actions"` // the equivalent actions of Terraform
	Thing      plan.Thing                 `json:"thing"`
	Reason     plan.Reason                `json:"action_reason"`
	ReasonText string                     `json:"action_reason_text"`
	Evidence   []plan.Fact                `json:"evidence,omitempty"`
	Changes    []plan.Change              `json:"changes,omitempty"`
	Files      []plan.FileChange          `json:"input_files,omitempty"`
	Needs      []string                   `json:"needs,omitempty"`
	After      []string                   `json:"after,omitempty"`
	Image      string                     `json:"image,omitempty"`
	ImageKind  resources.ImageKind        `json:"image_kind,omitempty"`
	Build      string                     `json:"build,omitempty"`
	Version    string                     `json:"version,omitempty"`
	Format     string                     `json:"format,omitempty"`
	Formats    []string                   `json:"formats,omitempty"`
	Upload     string                     `json:"upload,omitempty"`
	Provider   string                     `json:"provider,omitempty"`
	Pool       string                     `json:"pool,omitempty"`
	Label      string                     `json:"label,omitempty"`
	Node       string                     `json:"node,omitempty"`
	Slot       int64                      `json:"slot,omitempty"`
	Zone       string                     `json:"zone,omitempty"`
	Request    string                     `json:"request,omitempty"`
	EventID    string                     `json:"event_id,omitempty"`
	Nodes      []string                   `json:"nodes,omitempty"`
	Declined   []resources.Decline        `json:"declined,omitempty"`
	Record     resources.Key              `json:"record,omitzero"`
	External   string                     `json:"external_id,omitempty"`
	Type       string                     `json:"type,omitempty"`
	Replaces   bool                       `json:"replaces,omitempty"`
	Replaced   string                     `json:"replaces_node,omitempty"`
	Held       bool                       `json:"needs_consent,omitempty"`
	Becomes    resources.State            `json:"becomes,omitempty"`
	Values     map[string]json.RawMessage `json:"planned_values,omitempty"`
	Move       *plan.Move                 `json:"move,omitempty"`
	Touches    []plan.Fingerprint         `json:"preconditions,omitempty"`
	Estimate   float64                    `json:"estimate_seconds,omitempty"`
	Source     resources.Source           `json:"source,omitzero"`
}

// Report returns the plan as one line of the documented JSON. It escapes characters that control a terminal.
func Report(p plan.Plan, meta plan.Meta) ([]byte, error) { return reportDocOf(p, meta).line() }

// EffectReport returns the plan with the effect of the change of its configuration, as Report does.
func EffectReport(p plan.Plan, meta plan.Meta, e plan.Effect) ([]byte, error) {
	doc := reportDocOf(p, meta)
	doc.Effect = effectReport(e)
	return doc.line()
}

func (doc reportDoc) line() ([]byte, error) {
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("plan as JSON: %w", err)
	}
	return append(text.JSON(out), '\n'), nil
}

func reportDocOf(p plan.Plan, meta plan.Meta) reportDoc {
	summary := p.Summary()
	doc := reportDoc{
		FormatVersion: reportVersion,
		Meta:          meta,
		Digest:        p.Digest(),
		Applyable:     !summary.Empty(),
		Complete:      summary.Incomplete() == "" && len(p.Problems) == 0,
		Errored:       len(p.Problems) > 0,
		Summary:       reportSummary{summary, summary.String()},
		Steps:         make([]reportStep, len(p.Steps)),
		Notes:         append([]plan.Note{}, p.Notes...),
		Problems:      append([]plan.Problem{}, p.Problems...),
		Deferred:      append([]string{}, p.Deferred...),
		Unchanged:     p.Unchanged.Addresses(),
		InProgress:    p.InProgress,
		Least:         p.Least,
		Cost:          p.Cost,
	}
	for i := range p.Steps {
		doc.Steps[i] = reportOf(&p.Steps[i])
	}
	return doc
}

func effectReport(e plan.Effect) *reportEffect {
	steps := func(list []plan.Step) []reportStep {
		reports := make([]reportStep, len(list))
		for i := range list {
			reports[i] = reportOf(&list[i])
		}
		return reports
	}
	return &reportEffect{
		Against: e.Against, Digest: e.Digest(), Outline: append([]string{}, e.Outline()...), Empty: e.Empty(), Complete: e.Incomplete() == "", Text: e.String(),
		Settings: append([]resources.Difference{}, e.Differences...),
		Added:    steps(e.Added), NoLonger: steps(e.Dropped), Differently: steps(e.Altered), Common: e.Common,
		Problems: append([]plan.Problem{}, e.Problems...), Notes: append([]plan.Note{}, e.Notes...), Deferred: append([]string{}, e.Deferred...), Least: e.Least, Cost: e.Cost,
	}
}

func reportOf(s *plan.Step) reportStep {
	effect := string(s.Action)
	if i := actionRank(s.Action); i < len(actions) {
		effect = actions[i].Effect
	}
	return reportStep{
		ID: s.ID, Address: s.Address, Action: s.Action, Actions: []string{effect}, Thing: s.Thing,
		Reason: s.Reason, ReasonText: s.Reason.Text(), Evidence: s.Evidence, Changes: s.Changes, Files: s.Files,
		Needs: s.Needs, After: s.After, Image: s.Image, ImageKind: s.ImageKind, Build: s.Build, Version: s.Version, Format: s.Format, Formats: s.Formats,
		Upload: s.Upload, Provider: s.Provider, Pool: s.Pool, Label: s.Label, Node: s.Node, Slot: s.Slot,
		Zone: s.Zone, Request: s.Request, EventID: s.EventID, Nodes: s.Nodes, Declined: s.Declined, Record: s.Record,
		External: s.External, Type: s.Type, Replaces: s.Replaces, Replaced: s.ReplacesNode, Held: s.NeedsConsent, Becomes: s.Becomes, Values: reportValues(s.Values), Move: s.Move, Touches: s.Preconditions, Estimate: s.Estimate,
		Source: s.Source,
	}
}

func reportValues(values map[string]string) map[string]json.RawMessage {
	if len(values) == 0 {
		return nil
	}
	report := map[string]json.RawMessage{}
	for name, value := range values {
		if report[name] = json.RawMessage(value); !json.Valid(report[name]) { // such as the placeholder of a masked value
			report[name], _ = json.Marshal(value) // cannot fail for a string
		}
	}
	return report
}
