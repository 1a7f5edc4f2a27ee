package lab

import (
	"cmp"
	"fmt"
	"slices"
)

// SharedNodes returns the nodes that two requests held at the same time, with these requests. A node is a record, and
// also the machine or server behind it: static machines get new records continuously.
func SharedNodes(held []Held) []string {
	byThing := map[string][]Held{}
	for _, h := range held {
		for _, n := range h.Nodes {
			for _, name := range n.names() {
				byThing[name] = append(byThing[name], h)
			}
		}
	}
	var shared []string
	for name, users := range byThing {
		slices.SortFunc(users, func(a, b Held) int { return cmp.Compare(a.Held, b.Held) })
		for i := 1; i < len(users); i++ {
			if before, after := users[i-1], users[i]; after.Held < before.Returned {
				shared = append(shared, fmt.Sprintf("%s: %s held it until %.3f, %s from %.3f on",
					name, before.Request, before.Returned, after.Request, after.Held))
			}
		}
	}
	slices.Sort(shared)
	return shared
}

func (n Used) names() []string {
	names := []string{"node " + n.ID}
	if id := string(n.ExternalID); id != "" && id != "null" {
		slot := 0
		if n.Slot != nil {
			slot = *n.Slot
		}
		names = append(names, fmt.Sprintf("%s %s slot %d", n.Provider, id, slot))
	}
	return names
}
