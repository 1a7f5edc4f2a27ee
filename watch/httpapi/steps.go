package httpapi

import (
	"cmp"
	"errors"
	"net/http"
	"slices"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/render"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

func (r statusRoutes) plan(c *call) (any, error) {
	pass := r.daemon.Last()
	if pass.Observed.Now.IsZero() {
		return nil, &apiError{status: http.StatusServiceUnavailable, code: wire.CodeNotReady, detail: "no pass has completed yet"}
	}
	report, err := render.Report(pass.Plan, plan.Meta{NpctlVersion: r.version, Lineage: pass.Observed.Installation, Digest: string(pass.Desired.Digests.Current()),
		Created: pass.Observed.Now.UTC(), Options: plan.Options{HonorBackoff: true}})
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(report) // the error means that the client has disconnected
	return nil, nil
}

func (r statusRoutes) steps(*call) (any, error) {
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

func (r statusRoutes) reload(c *call) (any, error) {
	how, err := body[wire.Reload](c)
	if err != nil {
		return nil, err
	}
	p, err := r.daemon.Reload(c.ctx(), how.AllowDestroy)
	if err != nil && problem(err).Code == wire.CodeInternal {
		no := &apiError{status: http.StatusUnprocessableEntity, code: wire.CodeInvalidConfiguration, detail: err.Error(),
			hint: "correct the errors and reload again; the old configuration stays in force"}
		if mistakes, ok := errors.AsType[reporter](err); ok {
			no.report = mistakes.Report()
		}
		return nil, no
	}
	if err != nil {
		return nil, err
	}
	r.daemon.Journal.Add(resources.Event{Time: r.daemon.Engine.Now(), Subject: "daemon", Code: "reloaded", Text: "the configuration was reloaded: " + p.Summary().String()})
	return wire.Reloaded{Summary: p.Summary().String(), Steps: shownSteps(p.Steps)}, nil
}
