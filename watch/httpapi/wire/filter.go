package wire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// RequestFilter narrows a list of requests. What is empty does not.
type RequestFilter struct {
	States             []string
	Label, Tenant, Who string
}

// Matches reports whether a request is in the list.
func (f RequestFilter) Matches(r *resources.Request) bool {
	return isOneOf(f.States, r.State) && isIn(f.Label, r.Labels) && is(f.Tenant, r.Tenant) && is(f.Who, r.Who)
}

// NodeFilter narrows a list of nodes. What is empty does not.
type NodeFilter struct {
	States                                 []string
	Label, Provider, Pool, Request, Tenant string
}

// Matches reports whether a node is in the list.
func (f NodeFilter) Matches(n *resources.Node) bool {
	return isOneOf(f.States, n.State) && isIn(f.Label, n.Labels) && is(f.Provider, n.Provider) && is(f.Pool, n.Pool) &&
		is(f.Request, n.Request) && is(f.Tenant, n.Tenant)
}

// CheckStates refuses states that no record of that kind can be in.
func CheckStates(kind resources.Kind, states []string) error {
	known := resources.StatesOf(kind)
	for _, state := range states {
		if !slices.Contains(known, resources.State(state)) {
			return fmt.Errorf("a %s cannot be in state %q; its states are %s", kind, state, strings.Join(stateNames(known), ", "))
		}
	}
	return nil
}

func stateNames(states []resources.State) []string {
	names := make([]string, len(states))
	for i, s := range states {
		names[i] = string(s)
	}
	return names
}

func isOneOf(states []string, state resources.State) bool {
	return len(states) == 0 || slices.Contains(states, string(state))
}

func isIn(wanted string, list []string) bool { return wanted == "" || slices.Contains(list, wanted) }

func is(wanted, value string) bool { return wanted == "" || value == wanted }
