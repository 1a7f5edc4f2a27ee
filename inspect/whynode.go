package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

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
	e.providerProblems(n.Provider)
	since := e.since(n.StateTime)
	switch n.State {
	case resources.StateInit, resources.StateBuilding:
		e.Summary = fmt.Sprintf("It has been launching for %s.", e.since(n.Created))
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
	view := e.Observed.Providers[n.Provider]
	for _, instance := range view.Instances {
		if n.ExternalID == "" || instance.ID != n.ExternalID {
			continue
		}
		text := fmt.Sprintf("%s, listed %s ago", strings.TrimSpace(string(instance.Status)+" "+instance.Fault), e.since(view.ListedAt))
		if launched := n.Created.Add(seconds(n.Seconds)); n.Seconds > 0 && view.ListedAt.Before(launched) {
			text = fmt.Sprintf("%s when its launch ended, %s ago; the newest listing is older (%s)", resources.StatusReady, e.since(launched), text)
		}
		return text
	}
	return ""
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
	e.relate("provider/"+n.Provider, "request/"+n.Request)
	for _, label := range n.Labels {
		e.relate("label/" + label)
	}
	if _, name, _ := strings.Cut(n.Image, "."); name != "" {
		e.relate("image/" + name)
	}
}
