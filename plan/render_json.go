package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// The JSON report is a separate format, described in docs/plan-json.md and docs/schemas/plan.json. It only grows:
// names keep their meaning, and readers ignore unknown names. Where Terraform has the same concept, the report uses
// Terraform's name.

// ReportVersion is the format_version of reports. The minor version increases with each addition.
const ReportVersion = "1.0"

// reportMajor is the major version that a reader must support.
const reportMajor = 1

// ErrReport: the input is not a report that this npctl can read.
var ErrReport = errors.New("not a plan report")

// Meta describes the origin of a plan.
type Meta struct {
	NpctlVersion string    `json:"npctl_version"`
	Lineage      string    `json:"lineage,omitempty"`              // ID of the installation
	Serial       uint64    `json:"serial,omitempty"`               // serial of its state when the plan was computed
	Digest       string    `json:"configuration_digest,omitempty"` // see resources.Desired
	Created      time.Time `json:"created"`
	Options      Options   `json:"options"`
}

type reportDoc struct {
	FormatVersion string `json:"format_version"`
	Meta
	Applyable bool          `json:"applyable"`
	Complete  bool          `json:"complete"`
	Errored   bool          `json:"errored"`
	Summary   reportSummary `json:"summary"`
	Steps     []reportStep  `json:"steps"`
	Notes     []Note        `json:"notes"`
	Problems  []Problem     `json:"problems"`
	Deferred  []string      `json:"deferred"`
	Unchanged []Address     `json:"unchanged"`
	// InProgress is set while another process works on the state.
	InProgress *LockHolder `json:"in_progress,omitempty"`
}

type reportSummary struct {
	Summary
	Text string `json:"text"`
}

type reportStep struct {
	ID         string                     `json:"id"`
	Address    Address                    `json:"address"`
	Action     Action                     `json:"action"`
	Actions    []string                   `json:"actions"` // the equivalent actions of Terraform
	Thing      Thing                      `json:"thing"`
	Reason     Reason                     `json:"action_reason"`
	ReasonText string                     `json:"action_reason_text"`
	Evidence   []Fact                     `json:"evidence,omitempty"`
	Changes    []Change                   `json:"changes,omitempty"`
	Files      []FileChange               `json:"input_files,omitempty"`
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
	Held       bool                       `json:"needs_consent,omitempty"`
	Values     map[string]json.RawMessage `json:"planned_values,omitempty"`
	Move       *Move                      `json:"move,omitempty"`
	Touches    []Fingerprint              `json:"preconditions,omitempty"`
	Estimate   float64                    `json:"estimate_seconds,omitempty"`
	Source     resources.Source           `json:"source,omitzero"`
}

var reportActions = map[Action][]string{
	ActionBuild:      {"create"},
	ActionConvert:    {"create"},
	ActionUpload:     {"create"},
	ActionLaunch:     {"create"},
	ActionRegister:   {"create"},
	ActionUpdate:     {"update"},
	ActionServe:      {"update"},
	ActionDecline:    {"update"},
	ActionForget:     {"forget"},
	ActionUnregister: {"forget"},
	ActionDelete:     {"delete"},
}

// MarshalReport returns the plan as one line of the documented JSON. It escapes characters that control a terminal.
func (p Plan) MarshalReport(meta Meta) ([]byte, error) {
	summary := p.Summary()
	doc := reportDoc{
		FormatVersion: ReportVersion,
		Meta:          meta,
		Applyable:     !summary.Empty(),
		Complete:      summary.unknown() == "" && len(p.Problems) == 0,
		Errored:       len(p.Problems) > 0,
		Summary:       reportSummary{summary, summary.String()},
		Steps:         make([]reportStep, len(p.Steps)),
		Notes:         append([]Note{}, p.Notes...),
		Problems:      append([]Problem{}, p.Problems...),
		Deferred:      append([]string{}, p.Deferred...),
		Unchanged:     p.Unchanged.Addresses(),
		InProgress:    p.InProgress,
	}
	for i := range p.Steps {
		doc.Steps[i] = reportOf(&p.Steps[i])
	}
	out, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("plan as JSON: %w", err)
	}
	return append(text.JSON(out), '\n'), nil
}

func reportOf(s *Step) reportStep {
	actions := reportActions[s.Action]
	if actions == nil {
		actions = []string{string(s.Action)}
	}
	return reportStep{
		ID: s.ID, Address: s.Address, Action: s.Action, Actions: actions, Thing: s.Thing,
		Reason: s.Reason, ReasonText: s.Reason.Text(), Evidence: s.Evidence, Changes: s.Changes, Files: s.Files,
		Needs: s.Needs, After: s.After, Image: s.Image, ImageKind: s.ImageKind, Build: s.Build, Version: s.Version, Format: s.Format, Formats: s.Formats,
		Upload: s.Upload, Provider: s.Provider, Pool: s.Pool, Label: s.Label, Node: s.Node, Slot: s.Slot,
		Zone: s.Zone, Request: s.Request, EventID: s.EventID, Nodes: s.Nodes, Declined: s.Declined, Record: s.Record,
		External: s.External, Type: s.Type, Replaces: s.Replaces, Held: s.NeedsConsent, Values: reportValues(s.Values), Move: s.Move, Touches: s.Preconditions, Estimate: s.Estimate,
		Source: s.Source,
	}
}

func reportValues(values map[string]string) map[string]json.RawMessage {
	if len(values) == 0 {
		return nil
	}
	report := map[string]json.RawMessage{}
	for name, text := range plannedTexts(maps.Clone(values)) {
		report[name] = json.RawMessage(text)
	}
	return report
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

// UnmarshalReport reads a report of MarshalReport, from this npctl or one with the same major version.
func UnmarshalReport(report []byte) (Plan, Meta, error) {
	var doc reportDoc
	if err := json.Unmarshal(report, &doc); err != nil {
		return Plan{}, Meta{}, fmt.Errorf("%w: %w", ErrReport, err)
	}
	major, _, _ := strings.Cut(doc.FormatVersion, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil:
		return Plan{}, Meta{}, fmt.Errorf("%w: format_version is %q", ErrReport, doc.FormatVersion)
	case n != reportMajor:
		return Plan{}, Meta{}, fmt.Errorf("%w that this npctl can read: its format_version is %s, written by npctl %s, and this one reads %d.x",
			ErrReport, doc.FormatVersion, doc.NpctlVersion, reportMajor)
	}
	p := Plan{Notes: doc.Notes, Problems: doc.Problems, Unchanged: Unchanged{addresses: doc.Unchanged}, Deferred: doc.Deferred, InProgress: doc.InProgress}
	for i := range doc.Steps {
		p.Steps = append(p.Steps, doc.Steps[i].step())
	}
	return p, doc.Meta, nil
}

func (r *reportStep) step() Step {
	return Step{
		ID: r.ID, Address: r.Address, Action: r.Action, Thing: r.Thing, Reason: r.Reason, Evidence: r.Evidence,
		Changes: r.Changes, Files: r.Files, Needs: r.Needs, After: r.After, Image: r.Image, ImageKind: r.ImageKind, Build: r.Build, Version: r.Version, Format: r.Format,
		Formats: r.Formats, Upload: r.Upload, Provider: r.Provider, Pool: r.Pool, Label: r.Label, Node: r.Node, Slot: r.Slot, Zone: r.Zone, Request: r.Request, EventID: r.EventID, Nodes: r.Nodes, Declined: r.Declined, Record: r.Record, External: r.External, Type: r.Type, Replaces: r.Replaces, NeedsConsent: r.Held, Values: stepValues(r.Values), Move: r.Move, Preconditions: r.Touches,
		Estimate: r.Estimate, Source: r.Source,
	}
}
