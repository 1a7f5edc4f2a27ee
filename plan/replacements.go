package plan

import "slices"

// pairKey identifies the pool or image in which the two halves of a replacement are paired.
type pairKey struct {
	thing                              Thing
	image, provider, pool, label, node string
}

// pairKeyOf returns the key of a half. The halves of a move belong to two pools, and name the same node.
func pairKeyOf(s *Step) pairKey {
	switch {
	case s.Move != nil:
		return pairKey{thing: s.Thing, node: s.Move.Node}
	case s.Thing == ThingNode:
		return pairKey{thing: s.Thing, provider: s.Provider, pool: s.Pool, label: s.Label}
	default:
		return pairKey{thing: s.Thing, provider: s.Provider, image: s.Image}
	}
}

// Replacements returns the position of the other half for each half of a replacement: a half that waits for the other, or else the
// next half with the same pairKey. A half without another one is not paired.
func Replacements(steps []Step) map[int]int {
	halves := map[string]int{}
	for i := range steps {
		if steps[i].Replaces {
			halves[steps[i].ID] = i
		}
	}
	pairs := map[int]int{}
	if len(halves) == 0 {
		return pairs
	}
	join := func(i, j int) {
		_, a := pairs[i]
		_, b := pairs[j]
		removes := steps[i].Action == ActionDelete
		if a || b || removes == (steps[j].Action == ActionDelete) || steps[i].Thing != steps[j].Thing || (steps[i].Move == nil) != (steps[j].Move == nil) {
			return
		}
		pairs[i], pairs[j] = j, i
	}
	for i := range steps {
		if !steps[i].Replaces || steps[i].Move != nil {
			continue
		}
		for _, id := range slices.Concat(steps[i].Needs, steps[i].After) {
			if j, half := halves[id]; half {
				join(i, j)
			}
		}
	}
	waiting := map[pairKey][]int{}
	for i := range steps {
		if _, paired := pairs[i]; paired || !steps[i].Replaces {
			continue
		}
		place := pairKeyOf(&steps[i])
		if w := waiting[place]; len(w) > 0 && (steps[w[0]].Action == ActionDelete) != (steps[i].Action == ActionDelete) {
			join(i, w[0])
			waiting[place] = w[1:]
			continue
		}
		waiting[place] = append(waiting[place], i)
	}
	return pairs
}
