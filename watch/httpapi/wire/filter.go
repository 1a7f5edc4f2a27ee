package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// RequestFilter selects requests. Empty fields match all requests.
type RequestFilter struct {
	States                   []string
	Label, Tenant, Requestor string
}

// Matches reports whether the filter selects a request.
func (f RequestFilter) Matches(r *resources.Request) bool {
	return isOneOf(f.States, r.State) && isIn(f.Label, r.Labels) && is(f.Tenant, r.Tenant) && is(f.Requestor, r.Requestor)
}

// NodeFilter selects nodes. Empty fields match all nodes.
type NodeFilter struct {
	States                                 []string
	Label, Provider, Pool, Request, Tenant string
}

// Matches reports whether the filter selects a node.
func (f NodeFilter) Matches(n *resources.Node) bool {
	return isOneOf(f.States, n.State) && isIn(f.Label, n.Labels) && is(f.Provider, n.Provider) && is(f.Pool, n.Pool) &&
		is(f.Request, n.Request) && is(f.Tenant, n.Tenant)
}

// CheckStates returns an error for a state that records of the kind cannot have.
func CheckStates(kind resources.Kind, states []string) error {
	var known []string
	for _, s := range resources.StatesOf(kind) {
		known = append(known, string(s))
	}
	for _, state := range states {
		if !slices.Contains(known, state) {
			return fmt.Errorf("a %s cannot be in state %q; its states are %s", kind, state, strings.Join(known, ", "))
		}
	}
	return nil
}

func isOneOf(states []string, state resources.State) bool {
	return len(states) == 0 || slices.Contains(states, string(state))
}

func isIn(wanted string, list []string) bool { return wanted == "" || slices.Contains(list, wanted) }

func is(wanted, value string) bool { return wanted == "" || value == wanted }
