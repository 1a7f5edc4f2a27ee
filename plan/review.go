package plan

import "github.com/npctl/npctl/resources"

// review narrows a complete plan to the options and adds the guards against deletion.
type review struct{ world *world }

// finish returns the plan of a draft. waiting lists the pools that requests wait for.
func finish(w *world, d *draft, waiting []resources.Placement) Plan {
	rv := review{w}
	d.steps = d.withoutFailing(d.steps)
	p := Plan{Steps: d.steps, Notes: d.notes, Problems: d.problems, Unchanged: d.unchanged(), Deferred: d.deferred, InProgress: w.seen.LockHolder, Waiting: waiting}
	if len(w.opt.Remove) > 0 {
		p.Problems = d.unremovable // other problems do not prevent a removal
	}
	if len(w.opt.Images) > 0 {
		p = rv.onlyImages(p)
	}
	p = selectSteps(p, w.opt)
	wholeMoves(p.Steps)
	p = rv.withConsent(p)
	p.Problems = append(p.Problems, forbidden(p.Steps, w.declared, w.seen.Records, w.opt)...)
	p.Steps = order(p.Steps)
	p.Notes = append(p.Notes, rv.missingPrograms(p.Steps)...)
	return p
}
