package inspect

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// WhyInput is the input of an explanation.
type WhyInput struct {
	Fleet
	Plan    plan.Plan // of the current moment, with the reasons why requests wait
	Running []plan.Step
	Events  []wire.Event // of the subject
	Now     time.Time
	// Shadow is the decision of a shadow about the request, or "".
	Shadow string
}

// explanation is an answer under construction.
type explanation struct {
	wire.Why
	Fleet
	in WhyInput
}

// explainers lists the kinds of subjects.
var explainers = map[string]func(*explanation, string) error{"node": (*explanation).node, "request": (*explanation).request,
	"label": (*explanation).label, "image": (*explanation).image, "provider": (*explanation).provider}

// IsSubject reports whether Why can explain a subject.
func IsSubject(subject string) bool {
	kind, name, _ := strings.Cut(subject, "/")
	return explainers[kind] != nil && name != ""
}

// Why explains the state of a subject such as node/0000000017. It returns a NotFoundError if the subject neither exists
// nor has events.
func Why(subject string, in WhyInput) (wire.Why, error) {
	kind, name, _ := strings.Cut(subject, "/")
	e := &explanation{in: in, Fleet: in.Fleet}
	e.Subject, e.Events = subject, in.Events
	if kind == "provider" || kind == "label" {
		e.failing(name)
	}
	if err := explainers[kind](e, name); err != nil {
		if len(e.Events) == 0 {
			return wire.Why{}, err
		}
		e.deleted()
	}
	e.fillEmptyLists()
	return e.Why, nil
}

// NotFoundError states that an object does not exist.
type NotFoundError struct {
	Kind, Name string
	Known      []string // names of existing objects
	Hint       string
}

func (e *NotFoundError) Error() string { return fmt.Sprintf("there is no %s %q", e.Kind, e.Name) }

// failing adds the recent launch failures of a provider or label.
func (e *explanation) failing(name string) {
	for _, at := range slices.Sorted(maps.Keys(e.Observed.LaunchFailures)) {
		f := e.Observed.LaunchFailures[at]
		if at == plan.ProviderAddress(name) || strings.HasPrefix(string(at), "provider."+name+".") || strings.HasSuffix(string(at), ".label."+name) {
			e.fact("launches at "+string(at), fmt.Sprintf("failed %s, last %s ago: %s", text.Count(f.Count, "time", "times"), e.since(f.Time), f.Error))
		}
	}
}

func (e *explanation) fact(name, value string) {
	if value != "" {
		e.Facts = append(e.Facts, wire.Fact{Name: name, Value: value})
	}
}

func (e *explanation) wait(code, format string, args ...any) {
	e.Waits = append(e.Waits, wire.Wait{Code: code, Text: fmt.Sprintf(format, args...)})
}

func (e *explanation) relate(subjects ...string) {
	for _, s := range subjects {
		if !strings.HasSuffix(s, "/") && s != e.Subject && !slices.Contains(e.Related, s) {
			e.Related = append(e.Related, s)
		}
	}
}

// since returns the time since t, rounded for people.
func (e *explanation) since(t time.Time) string { return rounded(e.in.Now.Sub(t)) }

func rounded(d time.Duration) string {
	switch {
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return strings.TrimSuffix(d.Round(time.Second).String(), "0s")
	default:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
}

// steps adds the running and the planned steps that of selects.
func (e *explanation) steps(of func(*plan.Step) bool) {
	begun := map[string]bool{}
	for i := range e.in.Running {
		if s := &e.in.Running[i]; of(s) {
			e.Running = append(e.Running, StepView(s))
			begun[s.ID] = true
		}
	}
	for i := range e.in.Plan.Steps {
		if s := &e.in.Plan.Steps[i]; of(s) && !begun[s.ID] {
			e.Planned = append(e.Planned, StepView(s))
		}
	}
}

// notes adds the notes and problems of the plan at the selected addresses.
func (e *explanation) notes(code string, at func(plan.Address) bool) (texts []string) {
	for _, n := range e.in.Plan.Notes {
		if at(n.Address) {
			texts = append(texts, n.Text)
			e.wait(cmp.Or(n.Code, code), "%s", n.Text)
		}
	}
	for _, p := range e.in.Plan.Problems {
		if at(p.Address) {
			texts = append(texts, p.Text)
			e.wait("problem", "%s", p.Text)
		}
	}
	return texts
}

// providerProblems adds why a provider cannot be used, and reports whether that is so.
func (e *explanation) providerProblems(provider string) bool {
	switch view := e.Observed.Providers[provider]; {
	case e.Observed.Frozen[provider]:
		e.wait("frozen", "provider %s is frozen; npctl thaw %s", provider, provider)
	case view.Err != "":
		e.wait("provider-error", "provider %s cannot be queried: %s", provider, view.Err)
	default:
		return false
	}
	return true
}

// lockHolder adds the process that may be changing one of the object's records, which have these states. It returns "" if there
// is none.
func (e *explanation) lockHolder(states ...resources.State) string {
	h := e.Observed.LockHolder
	if !slices.ContainsFunc(states, h.MayChange) {
		return ""
	}
	e.wait(plan.CodeInProgress, "%s by %s (process %d on %s) holds the lock of the state and may be working on it", h.Operation, h.Who, h.PID, h.Host)
	return h.Operation + " by " + h.Who
}

// deleted explains a deleted object from the events that the journal still has.
func (e *explanation) deleted() {
	e.State = "gone"
	last := e.Events[len(e.Events)-1]
	e.Summary = fmt.Sprintf("It no longer exists. Its last event, %s ago: %s.", e.since(last.Time), strings.TrimSuffix(last.Text, "."))
}

// fillEmptyLists replaces nil lists with empty ones, so that JSON has no null. It also sets a missing summary.
func (e *explanation) fillEmptyLists() {
	if e.Waits == nil {
		e.Waits = []wire.Wait{}
	}
	if e.Facts == nil {
		e.Facts = []wire.Fact{}
	}
	if e.Running == nil {
		e.Running = []wire.Step{}
	}
	if e.Planned == nil {
		e.Planned = []wire.Step{}
	}
	if e.Related == nil {
		e.Related = []string{}
	}
	if e.Events == nil {
		e.Events = []wire.Event{}
	}
	if e.Summary == "" && len(e.Waits) > 0 {
		e.Summary = "It waits: " + e.Waits[0].Text + "."
	}
}

// request explains the state of a request.
func (e *explanation) request(id string) error {
	i := slices.IndexFunc(e.Observed.Records.Requests, func(r *resources.Request) bool { return r.ID == id })
	if i < 0 {
		return &NotFoundError{Kind: "request", Name: id, Hint: "npctl request list shows all requests"}
	}
	r := e.Observed.Records.Requests[i]
	e.State = string(r.State)
	e.steps(func(s *plan.Step) bool { return s.Request == id })
	e.fact("labels", strings.Join(r.Labels, ", "))
	e.fact("created", e.since(r.Created)+" ago by "+cmp.Or(r.Requestor, "an unnamed client"))
	e.fact("tenant", r.Tenant)
	e.fact("event id", r.EventID)
	e.fact("requested provider", r.Provider)
	if !r.Deadline.IsZero() {
		e.fact("deadline", "in "+rounded(r.Deadline.Sub(e.in.Now)))
	}
	for _, d := range r.Declined {
		e.fact("declined by "+d.Provider+"/"+d.Pool, d.Reason)
	}
	for _, label := range slices.Compact(slices.Sorted(slices.Values(r.Labels))) {
		e.relate("label/" + label)
	}
	switch r.State {
	case resources.StateFulfilled:
		e.Summary = fmt.Sprintf("Its nodes have been ready for %s and wait to be taken: npctl request take %s.", e.since(r.StateTime), id)
		e.wait("requestor", "its requestor must take its nodes: npctl request take %s", id)
		e.nodesOf(r)
	case resources.StateFailed:
		e.Summary = "It failed: " + strings.TrimSuffix(r.Error, ".") + "."
	case resources.StatePending:
		e.pending(r)
	default:
		e.requested(r)
	}
	if e.in.Shadow != "" {
		e.Summary = "Other processes serve it; npctl would " + e.in.Shadow + "."
	}
	return nil
}

// requested explains a request that no pool has accepted.
func (e *explanation) requested(r *resources.Request) {
	before := e.before(r)
	e.fact("more urgent requests", fmt.Sprint(before))
	reasons := e.notes("waiting", func(at plan.Address) bool { return at == plan.Address("request."+r.ID) })
	troubled := false
	for _, label := range slices.Compact(slices.Sorted(slices.Values(r.Labels))) {
		for _, o := range e.offers(label) {
			e.relate("provider/" + o.Provider)
			if image := uploadedImage(o); image != "" && e.BootChoice(image, o.Provider).Upload == nil {
				e.relate("image/" + image)
			}
			troubled = e.providerProblems(o.Provider) || troubled
			for _, p := range o.Problems {
				e.wait("problem", "%s/%s: %s", o.Provider, o.Pool, p)
			}
			if o.LaunchFailure != nil {
				e.wait("launch-failed", "launches in %s/%s failed %s, last %s ago: %s", o.Provider, o.Pool, text.Count(o.LaunchFailure.Count, "time", "times"), e.since(o.LaunchFailure.Time), o.LaunchFailure.Error)
			}
		}
	}
	switch {
	case len(reasons) > 0:
		e.Summary = "No pool can serve it now: " + strings.Join(reasons, "; ") + "."
	case len(e.Planned)+len(e.Running) > 0:
		e.Summary = "A pool is accepting it now."
	case troubled:
		e.Summary = "The providers that could serve it cannot be used now."
	default:
		e.Summary = "It waits for the next pass; " + text.Count(before, "request is", "requests are") + " more urgent."
	}
}

// before counts the requests that are more urgent than r.
func (e *explanation) before(r *resources.Request) (n int) {
	for _, other := range e.Observed.Records.Requests {
		if other.State == resources.StateRequested && cmp.Or(cmp.Compare(other.Priority, r.Priority), cmp.Compare(other.RelativePriority, r.RelativePriority),
			other.Created.Compare(r.Created), cmp.Compare(other.ID, r.ID)) < 0 {
			n++
		}
	}
	return n
}

// pending explains an accepted request.
func (e *explanation) pending(r *resources.Request) {
	where := r.Placement.Provider + "/" + r.Placement.Pool
	if r.Placement.Zone != "" {
		where += " in zone " + r.Placement.Zone
	}
	e.fact("accepted by", where+", "+e.since(r.PendingSince)+" ago")
	e.relate("provider/" + r.Placement.Provider)
	ready, total := e.nodesOf(r)
	e.notes("waiting", func(at plan.Address) bool { return at == plan.Address("request."+r.ID) })
	e.providerProblems(r.Placement.Provider)
	e.Summary = fmt.Sprintf("%s provides its nodes: %d of %d are ready.", where, ready, len(r.Labels))
	if total < len(r.Labels) && len(e.Waits) > 0 {
		e.Summary = fmt.Sprintf("%s has accepted it; %d of %s ready, and the rest waits: %s.", where, ready, text.Count(len(r.Labels), "node is", "nodes are"), e.Waits[0].Text)
	}
}

// nodesOf adds the nodes of a request. It returns the number of ready nodes and of all nodes.
func (e *explanation) nodesOf(r *resources.Request) (ready, total int) {
	for _, n := range e.Observed.Records.Nodes {
		if n.Request != r.ID || !IsAssigned(n) {
			continue
		}
		total++
		e.fact("node/"+n.ID, fmt.Sprintf("%s for %s", n.State, e.since(n.StateTime)))
		e.relate("node/" + n.ID)
		if n.State == resources.StateReady {
			ready++
			continue
		}
		text := fmt.Sprintf("node %s has been %s for %s", n.ID, n.State, e.since(n.StateTime))
		if usual := e.usual("launch/" + n.Provider + "/" + strings.Join(n.Labels, ",")); usual != "" {
			text += "; that usually takes " + usual
		}
		e.wait("launch", "%s", text)
	}
	return ready, total
}

// usual returns the median duration in the history of a subject, or "" if it has none.
func (e *explanation) usual(subject string) string {
	for _, h := range e.Observed.Records.Histories {
		if h.Subject == subject && len(h.Seconds) > 0 {
			sorted := slices.Sorted(slices.Values(h.Seconds))
			return rounded(max(time.Second, seconds(sorted[len(sorted)/2])))
		}
	}
	return ""
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// node explains the state of a node.
func (e *explanation) node(id string) error {
	i := slices.IndexFunc(e.Observed.Records.Nodes, func(n *resources.Node) bool { return n.ID == id })
	if i < 0 {
		return &NotFoundError{Kind: "node", Name: id, Hint: "npctl node list shows all nodes"}
	}
	n := e.Observed.Records.Nodes[i]
	e.State = string(n.State)
	e.steps(func(s *plan.Step) bool { return s.Record == n.Key() || slices.Contains(s.Nodes, id) })
	e.nodeFacts(n)
	e.lockHolder(n.State)
	e.providerProblems(n.Provider)
	since := e.since(n.StateTime)
	switch n.State {
	case resources.StateInit, resources.StateBuilding:
		if n.Importing != "" {
			e.Summary = fmt.Sprintf("The import of server %s has been in progress for %s; then the node is in state %s.", n.ExternalID, e.since(n.Created), n.Importing)
			e.wait("import", "the next plan or apply finishes the import")
			break
		}
		e.Summary = fmt.Sprintf("It has been launching for %s.", e.since(n.Created))
		if _, request := e.Observed.Records.BackingOf(n); request != nil {
			e.wait("backing-node", "request/%s must get its backing node: npctl why request/%[1]s", request.ID)
			break
		}
		if instance, _ := e.instanceOf(n); instance != nil && instance.Status == resources.StatusPending && instance.Fault != "" {
			e.wait("launch", "the cloud does not start it yet: %s", instance.Fault)
			break
		}
		e.wait("launch", "the cloud creates it, and then it must be reachable")
	case resources.StateReady:
		e.Summary = fmt.Sprintf("It has been ready for %s and is available for requests for %s.", since, strings.Join(n.Labels, " or "))
		if n.Request != "" {
			e.Summary = fmt.Sprintf("It has been ready for %s, for request %s.", since, n.Request)
			e.wait("requestor", "request %s waits for its other nodes, or for its requestor", n.Request)
		}
	case resources.StateInUse:
		e.inUse(n, since)
	case resources.StateHold:
		e.held(n, since)
	case resources.StateUsed:
		e.Summary = "It was used; npctl " + map[bool]string{true: "checks", false: "deletes"}[n.Static] + " it as soon as its provider can be managed."
	case resources.StateFailed, resources.StateAborted:
		e.Summary = fmt.Sprintf("It failed %s ago: %s.", since, strings.TrimSuffix(cmp.Or(n.Error, "the reason is unknown"), "."))
	default:
		e.Summary = fmt.Sprintf("It has been %s for %s.", n.State, since)
	}
	e.notes("note", func(at plan.Address) bool { return at == plan.Address("node."+id) })
	if after, moved := plan.MovedRecord(e.Desired, n); moved && e.Observed.Shared && e.Observed.ForeignClaims[n.Key()] {
		m := after.(*resources.Node)
		e.wait("move-waits", "its record gets the names %s in %s/%s when the process that uses it releases it; npctl already treats it as moved", strings.Join(m.Labels, ","), m.Provider, m.Pool)
	}
	for _, s := range append(e.Running, e.Planned...) {
		if s.Action == string(plan.ActionUnregister) {
			e.Summary += " It will be unregistered: " + s.Text + "."
			break
		}
		if s.Action == string(plan.ActionDelete) {
			e.Summary += " It will be deleted: " + s.Text + "."
			break
		}
	}
	return nil
}

func (e *explanation) inUse(n *resources.Node, since string) {
	e.Summary = fmt.Sprintf("It has been in use for %s by %s.", since, cmp.Or(n.Requestor, "an unnamed client"))
	if e.Observed.Records.IsSource(n.Requestor) {
		e.wait("slots", "its provider returns it some time after its last slot is free")
		return
	}
	if n.Lease == nil {
		e.wait("requestor", "its user must return it: npctl node return %s", n.ID)
		return
	}
	e.fact("lease", fmt.Sprintf("of %q, until %s (in %s)", n.Lease.Holder, n.Lease.Until.UTC().Format(time.RFC3339), rounded(n.Lease.Until.Sub(e.in.Now))))
	e.wait("lease", "its user must return it, or the lease must end")
}

func (e *explanation) held(n *resources.Node, since string) {
	e.Summary = fmt.Sprintf("It has been held for %s%s.", since, map[bool]string{true: ": " + strings.TrimSuffix(n.Comment, "."), false: ""}[n.Comment != ""])
	until := n.HoldUntil
	if most := e.Desired.Settings.MaxHoldAge; most > 0 && (until.IsZero() || n.StateTime.Add(most).Before(until)) {
		until = n.StateTime.Add(most)
	}
	if until.IsZero() {
		e.wait("hold", "a person must release it: npctl node release %s", n.ID)
		return
	}
	e.wait("hold", "it is held until %s (in %s), or npctl node release %s", until.UTC().Format(time.RFC3339), rounded(until.Sub(e.in.Now)), n.ID)
}

// inCloud describes a node's instance in the newest listing, and the age of the listing. If the launch ended after that
// listing, the instance was active when the launch ended.
func (e *explanation) inCloud(n *resources.Node) string {
	instance, listed := e.instanceOf(n)
	if instance == nil {
		return ""
	}
	text := fmt.Sprintf("%s, listed %s ago", strings.TrimSpace(string(instance.Status)+" "+instance.Fault), e.since(listed))
	if launched := n.Created.Add(seconds(n.Seconds)); n.Seconds > 0 && listed.Before(launched) {
		text = fmt.Sprintf("%s when its launch ended, %s ago; the newest listing is older (%s)", resources.StatusReady, e.since(launched), text)
	}
	return text
}

// instanceOf returns a node's instance in the newest listing, or nil, and the time of the listing.
func (e *explanation) instanceOf(n *resources.Node) (*resources.Instance, time.Time) {
	view := e.Observed.Providers[n.Provider]
	i := slices.IndexFunc(view.Instances, func(i resources.Instance) bool { return n.ExternalID != "" && i.ID == n.ExternalID })
	if i < 0 {
		return nil, view.ListedAt
	}
	return &view.Instances[i], view.ListedAt
}

func (e *explanation) nodeFacts(n *resources.Node) {
	e.fact("labels", strings.Join(n.Labels, ", "))
	e.fact("where", n.Provider+"/"+n.Pool+map[bool]string{true: " in zone " + n.Zone, false: ""}[n.Zone != ""])
	e.fact("created", e.since(n.Created)+" ago")
	e.fact("address", n.Addresses.Interface)
	e.fact("cloud id", n.ExternalID)
	e.fact("image", n.Image)
	e.fact("attempts", map[bool]string{true: fmt.Sprint(n.Attempt), false: ""}[n.Attempt > 1])
	e.fact("of them without response", map[bool]string{true: fmt.Sprint(n.UnansweredAttempts), false: ""}[n.UnansweredAttempts > 0])
	e.fact("error", n.Error)
	if !n.VerifiedAt.IsZero() {
		e.fact("last response", e.since(n.VerifiedAt)+" ago")
	}
	if p := n.Phases; p.Create+p.Boot+p.Keyscan > 0 {
		e.fact("launch", fmt.Sprintf("create %s, boot %s, keyscan %s", rounded(seconds(p.Create)), rounded(seconds(p.Boot)), rounded(seconds(p.Keyscan))))
	}
	e.fact("in the cloud", e.inCloud(n))
	e.backing(n)
	e.relate("provider/"+n.Provider, "request/"+n.Request)
	for _, label := range n.Labels {
		e.relate("label/" + label)
	}
	if _, name, _ := strings.Cut(n.Image, "."); name != "" {
		e.relate("image/" + name)
	}
}

// backing adds the node on which a node runs, and the nodes that run on it.
func (e *explanation) backing(n *resources.Node) {
	records := &e.Observed.Records
	node, request := records.BackingOf(n)
	switch {
	case node != nil:
		e.fact("backing node", "node/"+node.ID)
		e.relate("node/" + node.ID)
	case request != nil:
		e.fact("backing node", "of request/"+request.ID+", which is "+string(request.State))
		e.relate("request/" + request.ID)
	}
	if n.State != resources.StateInUse || n.Requestor == "" {
		return
	}
	for _, slot := range records.SlotsOf(n) {
		e.fact("slot", "node/"+slot.ID+", "+string(slot.State))
		e.relate("node/" + slot.ID)
	}
}
