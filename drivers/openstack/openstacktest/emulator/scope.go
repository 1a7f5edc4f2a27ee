package emulator

import "time"

// scope is the caller, the time and the faults of one operation.
type scope struct {
	who    caller
	now    time.Time
	faults faultDecision // faults that the operation must apply
}

// owns reports whether the object belongs to the project of the caller.
func (by scope) owns(b *base) bool { return b.Project == by.who.project }

// effect returns the first fault with that action that the operation must apply.
func (by scope) effect(action Action) (Fault, bool) {
	for _, f := range by.faults {
		if f.Action == action {
			return f, true
		}
	}
	return Fault{}, false
}

// applyFault applies the faults that make objects appear late.
func (by scope) applyFault(b *base) {
	if f, ok := by.effect(LateEffect); ok {
		b.ListedFrom = by.now.Add(f.Delay)
	}
	if f, ok := by.effect(LateListing); ok {
		b.Listed = by.now.Add(f.Delay)
	}
}

// lingers returns the time until which a deleted object stays in lists.
func (by scope) lingers() time.Time {
	if f, ok := by.effect(LateListing); ok {
		return by.now.Add(f.Delay)
	}
	return by.now
}
