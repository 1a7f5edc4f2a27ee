package planfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
)

// Mismatch is the reason why a saved step can no longer be executed as reviewed. Its texts may contain names from
// clouds.
type Mismatch struct {
	StepID  string       `json:"step_id"`
	Address plan.Address `json:"address"`
	Why     string       `json:"why"`
}

func (m Mismatch) String() string {
	return text.Line(string(m.Address)) + ": " + text.Line(m.Why)
}

// Stale compares each saved step with a new plan. A step is valid if the new plan has a step with the same ID, the
// same effect and the same preconditions. Its reason may have changed, and so may the rest of the plan: steps that
// only the new plan has are not applied, so they make nothing stale.
func (f File) Stale(current plan.Plan, records *plan.Records) []Mismatch {
	fresh := make(map[string]*plan.Step, len(current.Steps))
	for i := range current.Steps {
		fresh[current.Steps[i].ID] = &current.Steps[i]
	}
	var all []Mismatch
	for i := range f.Plan.Steps {
		saved := &f.Plan.Steps[i]
		now, still := fresh[saved.ID]
		reasons := append([]string{goneReason(saved, current)}, f.changedRecords(saved, records)...)
		if still {
			reasons = slices.Concat(stepDifferences(saved, now), f.staleValues(saved, now), f.staleTouches(saved.Preconditions, now.Preconditions, records))
		}
		for _, why := range reasons {
			all = append(all, Mismatch{StepID: saved.ID, Address: saved.Address, Why: why})
		}
	}
	return all
}

// goneReason returns why a step is not in the new plan, as far as that is known.
func goneReason(saved *plan.Step, current plan.Plan) string {
	if saved.Provider != "" && slices.Contains(current.Deferred, saved.Provider) {
		return fmt.Sprintf("provider %s could not be listed, so it is unknown whether to %s", saved.Provider, actionText(saved))
	}
	for i := range current.Problems {
		p := &current.Problems[i]
		if p.Address == saved.Address || p.Provider != "" && p.Provider == saved.Provider {
			return fmt.Sprintf("no longer planned because of a problem with %s: %s", p.Address, p.Text)
		}
	}
	for i := range current.Steps {
		if now := &current.Steps[i]; now.Address == saved.Address && now.Action != saved.Action && now.Record == saved.Record {
			return fmt.Sprintf("was to %s, now to %s because %s", actionText(saved), actionText(now), now.Reason.Text())
		}
	}
	return fmt.Sprintf("no longer planned: to %s was done meanwhile or is not needed any more", actionText(saved))
}

func actionText(s *plan.Step) string {
	if string(s.Action) == string(s.Thing) { // a build, an upload
		return string(s.Action) + " it"
	}
	return string(s.Action) + " the " + string(s.Thing)
}

// stepDifferences describes the attributes of a step that differ.
func stepDifferences(saved, now *plan.Step) []string {
	var why []string
	differs := func(name, was, is string) {
		if was != is {
			why = append(why, fmt.Sprintf("%s was %s, is now %s", name, valueText(was), valueText(is)))
		}
	}
	differs("address", string(saved.Address), string(now.Address))
	differs("action", saved.String(), now.String())
	differs("image", saved.Image, now.Image)
	differs("kind of image", string(saved.ImageKind), string(now.ImageKind))
	differs("build", saved.Build, now.Build)
	differs("version", saved.Version, now.Version)
	differs("format", saved.Format, now.Format)
	differs("formats", strings.Join(saved.Formats, ", "), strings.Join(now.Formats, ", "))
	differs("upload", saved.Upload, now.Upload)
	differs("provider", saved.Provider, now.Provider)
	differs("pool", saved.Pool, now.Pool)
	differs("label", saved.Label, now.Label)
	differs("node", saved.Node, now.Node)
	differs("slot", fmt.Sprint(saved.Slot), fmt.Sprint(now.Slot))
	differs("zone", saved.Zone, now.Zone)
	differs("state", string(saved.Becomes), string(now.Becomes))
	differs("request", saved.Request, now.Request)
	differs("nodes", strings.Join(saved.Nodes, ", "), strings.Join(now.Nodes, ", "))
	differs("declined", fmt.Sprint(saved.Declined), fmt.Sprint(now.Declined))
	differs("record", recordText(saved), recordText(now))
	differs("cloud id", saved.External, now.External)
	differs("type", saved.Type, now.Type)
	differs("event_id", saved.EventID, now.EventID)
	differs("needs_consent", fmt.Sprint(saved.NeedsConsent), fmt.Sprint(now.NeedsConsent))
	differs("replaces", fmt.Sprint(saved.Replaces), fmt.Sprint(now.Replaces))
	differs("replaced node", saved.ReplacesNode, now.ReplacesNode)
	differs("move", moveText(saved.Move), moveText(now.Move))
	differs("changes", changesText(saved.Changes), changesText(now.Changes))
	for _, id := range slices.Concat(now.Needs, now.After) {
		if !slices.Contains(saved.Needs, id) && !slices.Contains(saved.After, id) {
			why = append(why, fmt.Sprintf("it now has to wait for %q", id))
		}
	}
	return why
}

// valueDifferences describes the planned values that differ. A plan without queries of the clouds has unresolved names, so
// its values are not compared.
func (f File) staleValues(saved, now *plan.Step) []string {
	var why []string
	for _, name := range slices.Sorted(maps.Keys(saved.Values)) {
		if is, both := now.Values[name]; both && is != saved.Values[name] && !f.Meta.Options.NoRefresh {
			why = append(why, fmt.Sprintf("%s was %s, is now %s", name, valueText(saved.Values[name]), valueText(is)))
		}
	}
	return why
}

func recordText(s *plan.Step) string {
	if s.Record.ID == "" {
		return ""
	}
	return s.Record.String()
}

func moveText(m *plan.Move) string {
	if m == nil {
		return ""
	}
	return fmt.Sprintf("node %s from %s/%s to %s/%s", m.Node, m.From.Provider, m.From.Pool, m.To.Provider, m.To.Pool)
}

func changesText(changes []plan.Change) string {
	words := make([]string, len(changes))
	for i, c := range changes {
		words[i] = fmt.Sprintf("%s from %q to %q", c.Attribute, c.Before, c.After)
	}
	return strings.Join(words, ", ")
}

// valueLimit is the maximum length of a printed value, in bytes.
const valueLimit = 240

func valueText(v string) string {
	if v == "" {
		return "nothing"
	}
	return text.Cut(v, valueLimit)
}

// preconditionDifferences describes the preconditions that differ, with the attributes of records.
func (f File) staleTouches(saved, now []plan.Fingerprint, records *plan.Records) []string {
	was := map[string]string{}
	for _, f := range saved {
		was[f.Subject] = f.Digest
	}
	var why []string
	for _, print := range now {
		digest, known := was[print.Subject]
		delete(was, print.Subject)
		switch {
		case !known:
			why = append(why, print.Subject+" is new since the plan was computed, and this step relies on it")
		case digest != print.Digest:
			why = append(why, f.changed(print.Subject, records)...)
		}
	}
	for _, print := range saved {
		if _, gone := was[print.Subject]; gone {
			delete(was, print.Subject)
			why = append(why, print.Subject+" existed when the plan was computed, and does not exist any more")
		}
	}
	return why
}

// changed describes the difference of a subject with another digest, as far as its record was saved.
func (f File) changed(subject string, records *plan.Records) []string {
	saved, known := f.Records[subject]
	now := plan.AttributesOf(records.Get(keyOf(subject)))
	if !known || now == nil {
		return []string{subject + " has changed since the plan was computed"}
	}
	why := attributeDifferences(saved, now)
	for i := range why {
		why[i] = subject + ": " + why[i]
	}
	return why
}

// changedRecords describes the differences of the records that a step relied on and that still exist.
func (f File) changedRecords(saved *plan.Step, records *plan.Records) (why []string) {
	for _, print := range saved.Preconditions {
		if now := plan.AttributesOf(records.Get(keyOf(print.Subject))); now != nil && now.Digest() != print.Digest {
			why = append(why, f.changed(print.Subject, records)...)
		}
	}
	return why
}
