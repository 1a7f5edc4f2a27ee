package main

import (
	"context"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// effect returns the effect of the change from the base to the configuration of the session, which has been observed, and the plan of
// the latter.
func (s *session) effect(ctx context.Context, base *baseConfiguration, refresh bool, opt plan.Options) (plan.Effect, plan.Plan, error) {
	engine := s.engine.With(base.Desired)
	before, err := s.engine.ObserveBase(ctx, engine, s.seen, refresh)
	if err != nil {
		return plan.Effect{}, plan.Plan{}, err
	}
	var notes []plan.Note
	s.seen, notes = s.engine.WithoutUnlisted(engine, s.seen)
	was := plan.Side{Desired: engine.Desired, Observed: before, Plan: plan.Compute(engine.Desired, before, opt)}
	is := plan.Side{Desired: s.config.Desired, Observed: s.seen, Plan: plan.Compute(s.config.Desired, s.seen, opt)}
	differences := config.Differences(base.Result, s.config.Result)
	for i := range differences {
		if differences[i].Block == resources.BlockRemoved {
			differences[i].Source.File = base.fileName(differences[i].Source.File)
		}
	}
	e := plan.EffectOf(was, is, differences)
	for i := range e.Dropped {
		e.Dropped[i].Source.File = base.fileName(e.Dropped[i].Source.File)
	}
	e.Notes = append(e.Notes, notes...)
	return e, is.Plan, nil
}
