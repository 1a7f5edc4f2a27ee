package httpapi

import (
	"errors"
	"strings"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// eventsOfWhy is the maximum number of events in an explanation.
const eventsOfWhy = 50

// why explains the state of an object.
func (c *call) why() (any, error) {
	subject := c.values.Get("subject")
	if !inspect.IsSubject(subject) {
		return nil, withHint(invalid("%s is not a subject", quoted(subject)),
			"use node/ID, request/ID, label/NAME, image/NAME or provider/NAME")
	}
	in, err := c.explanation(subject)
	if err != nil {
		return nil, err
	}
	why, err := inspect.Why(subject, in)
	if none, ok := errors.AsType[*inspect.NotFoundError](err); ok {
		if none.Hint != "" {
			return nil, withHint(notFound("there is no %s %s", none.Kind, quoted(none.Name)), none.Hint)
		}
		return nil, unknown(none.Kind, none.Name, none.Known)
	}
	if err != nil {
		return nil, err
	}
	return why, nil
}

// explanation computes a plan for the current moment. Only one call at a time does that.
func (c *call) explanation(subject string) (inspect.WhyInput, error) {
	select {
	case c.explain <- struct{}{}:
		defer func() { <-c.explain }()
	case <-c.ctx().Done():
		return inspect.WhyInput{}, c.ctx().Err()
	}
	in := inspect.WhyInput{Fleet: c.fleet(), Running: c.daemon.Runner().Running(), Now: c.daemon.Engine.Now()}
	seen := &in.Observed
	c.daemon.Observer().Refresh(seen)
	seen.Now = in.Now
	in.Plan = plan.Compute(in.Desired, c.daemon.ShadowObserved(in.Desired, *seen), plan.Options{HonorBackoff: true, Explain: true})
	events := c.daemon.Journal.Since(0, subject)
	in.Events = []wire.Event{}
	for _, one := range events[max(len(events)-eventsOfWhy, 0):] {
		in.Events = append(in.Events, shownEvent(one))
	}
	if id, ok := strings.CutPrefix(subject, "request/"); ok {
		if would := c.daemon.ShadowDecision(id); would.Do != "" {
			in.Shadow = would.String()
		}
	}
	return in, nil
}
