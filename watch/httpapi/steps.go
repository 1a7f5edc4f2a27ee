package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/render"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

func (r statusRoutes) plan(ctx context.Context, _ *none) (json.RawMessage, error) {
	pass := r.daemon.Last()
	if pass.Observed.Now.IsZero() {
		return nil, failure(http.StatusServiceUnavailable, wire.CodeNotReady, "", "no pass has completed yet")
	}
	report, err := render.Report(pass.Plan, plan.Meta{NpctlVersion: r.version, Lineage: pass.Observed.Installation, Digest: string(pass.Desired.Digests.Current()),
		Created: pass.Observed.Now.UTC(), Options: plan.Options{HonorBackoff: true}})
	if err != nil {
		return nil, err
	}
	w := callOf(ctx).w
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(report) // unchanged; the error means that the client has disconnected
	return nil, nil
}

func (r statusRoutes) steps(context.Context, *none) (wire.Steps, error) {
	running := r.daemon.Runner().Running()
	slices.SortFunc(running, func(a, b plan.Step) int { return cmp.Compare(a.ID, b.ID) })
	return wire.Steps{Steps: shownSteps(running)}, nil
}

func shownSteps(steps []plan.Step) []wire.Step {
	shown := make([]wire.Step, len(steps))
	for i := range steps {
		shown[i] = inspect.StepView(&steps[i])
	}
	return shown
}

// reporter is an error with a report of all mistakes in a configuration.
type reporter interface {
	error
	Report() string
}

func (r statusRoutes) reload(ctx context.Context, in *struct{ Body wire.Reload }) (done wire.Reloaded, err error) {
	p, err := r.daemon.Reload(ctx, in.Body.AllowDestroy)
	if err != nil && problemOf(err).Code == wire.CodeInternal {
		no := failure(http.StatusUnprocessableEntity, wire.CodeInvalidConfiguration, "correct the errors and reload again; the old configuration stays in force", "%s", err)
		if mistakes, ok := errors.AsType[reporter](err); ok {
			no.Report = mistakes.Report()
		}
		return done, no
	}
	if err != nil {
		return done, err
	}
	r.daemon.Journal.Add(resources.Event{Time: r.daemon.Engine.Now(), Subject: "daemon", Code: "reloaded", Text: "the configuration was reloaded: " + p.Summary().String()})
	return wire.Reloaded{Summary: p.Summary().String(), Steps: shownSteps(p.Steps)}, nil
}
