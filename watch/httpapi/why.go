package httpapi

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// eventsOfWhy is the maximum number of events in an explanation.
const eventsOfWhy = 50

// whyRoutes explains the state of objects.
type whyRoutes struct {
	daemon *watch.Daemon
	slot   chan struct{} // one call at a time computes a plan
}

func (y whyRoutes) why(ctx context.Context, in *explain) (wire.Why, error) {
	world, err := y.explanation(ctx, in.Subject)
	if err != nil {
		return wire.Why{}, err
	}
	why, err := inspect.Why(in.Subject, world)
	if none, ok := errors.AsType[*inspect.NotFoundError](err); ok {
		return why, notFound(cmp.Or(none.Hint, didYouMean(none.Name, none.Known, "")), "there is no %s %s", none.Kind, text.Quote(none.Name))
	}
	return why, err
}

// explanation computes a plan for the current moment.
func (y whyRoutes) explanation(ctx context.Context, subject string) (inspect.WhyInput, error) {
	select {
	case y.slot <- struct{}{}:
		defer func() { <-y.slot }()
	case <-ctx.Done():
		return inspect.WhyInput{}, ctx.Err()
	}
	in := inspect.WhyInput{Fleet: providerRoutes{y.daemon}.fleet(), Running: y.daemon.Runner().Running()}
	y.daemon.Observer().Refresh(&in.Observed)
	in.Now = in.Observed.Now
	in.Plan = plan.Compute(in.Desired, y.daemon.ShadowObserved(in.Desired, in.Observed), plan.Options{HonorBackoff: true, Explain: true})
	events := y.daemon.Journal.Since(0, subject)
	in.Events = []wire.Event{}
	for _, one := range events[max(len(events)-eventsOfWhy, 0):] {
		in.Events = append(in.Events, shownEvent(one))
	}
	if id, ok := strings.CutPrefix(subject, "request/"); ok {
		if would := y.daemon.ShadowDecision(id); would.Do != "" {
			in.Shadow = would.String()
		}
	}
	return in, nil
}
