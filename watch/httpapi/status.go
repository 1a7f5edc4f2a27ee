package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/render"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/audit"
	"github.com/npctl/npctl/watch"
)

// aliveWithin is the maximum age of the newest pass of a live daemon.
const aliveWithin = time.Minute

// statusRoutes answers the calls about the state of the daemon.
type statusRoutes struct {
	daemon    *watch.Daemon
	version   string // of npctl
	started   time.Time
	exporter  http.Handler // nil: no metrics
	suspender func() *state.Holder
}

func (r statusRoutes) live(context.Context, *none) (h wire.Health, err error) {
	beat := r.daemon.LastPassEnd()
	if !beat.IsZero() && time.Since(beat) > aliveWithin {
		return h, failure(http.StatusServiceUnavailable, wire.CodeNotReady, "", "no pass has completed since %s", beat.UTC().Format(time.RFC3339))
	}
	return wire.Health{Status: "ok"}, nil
}

func (r statusRoutes) ready(ctx context.Context, _ *none) (wire.Health, error) {
	if why := r.daemon.NotReady(); why != "" {
		w := callOf(ctx).w
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		return wire.Health{}, writeJSON(w, wire.Health{Status: "not ready", Why: why, Waits: r.daemon.ProvidersNeverListed()})
	}
	return wire.Health{Status: "ok", Notes: r.daemon.Configuration().Notes()}, nil
}

func (r statusRoutes) metrics(ctx context.Context, _ *none) (string, error) {
	if r.exporter == nil {
		return "", notFound("", "this daemon exports no metrics")
	}
	c := callOf(ctx)
	r.exporter.ServeHTTP(c.w, c.r)
	return "", nil
}

func (r statusRoutes) status(context.Context, *none) (wire.Status, error) {
	pass := r.daemon.Last()
	w := providerRoutes{r.daemon}.fleet()
	w.Observed.Now = r.daemon.Engine.Now()
	s := w.Status(pass.Plan)
	s.Version, s.PID, s.Host, s.Started, s.Now = r.version, os.Getpid(), state.HostName(), r.started, time.Now()
	s.Running = len(r.daemon.Runner().Running())
	if h := r.suspender(); h != nil {
		s.SuspendedBy = h.Operation + " by " + h.UserHost
	}
	s.PassSeconds, s.PassAt = pass.Took.Seconds(), r.daemon.LastPassEnd()
	if counts := r.daemon.Comparisons(); counts != nil { // this daemon is a shadow
		s.Shadow = map[string]int{}
		for result, n := range counts {
			s.Shadow[string(result)] = n
		}
	}
	c := r.daemon.Configuration()
	s.Config = wire.Configuration{LoadedAt: c.LoadedAt, RejectedAt: c.RejectedAt, Error: c.Error, ConsentRequired: c.ConsentRequired, StateOutdated: c.StateOutdated}
	for i := range c.PendingDeletions {
		s.Config.PendingDeletions = append(s.Config.PendingDeletions, string(c.PendingDeletions[i].Address))
	}
	s.NotReady = r.daemon.NotReady()
	s.Ready = s.NotReady == ""
	return s, nil
}

func (r statusRoutes) plan(ctx context.Context, _ *none) (json.RawMessage, error) {
	pass := r.daemon.Last()
	if pass.Observed.Now.IsZero() {
		return nil, failure(http.StatusServiceUnavailable, wire.CodeNotReady, "", "no pass has completed yet")
	}
	opt := plan.Options{HonorBackoff: true}
	pass.Plan.Describe(pass.Desired, pass.Observed, opt)
	report, err := render.Report(pass.Plan, plan.Meta{NpctlVersion: r.version, Lineage: pass.Observed.Installation, Digest: string(pass.Desired.Digests.Current()),
		Created: pass.Observed.Now.UTC(), Options: opt})
	if err != nil {
		return nil, err
	}
	w := callOf(ctx).w
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(report) // unchanged; the error means that the client has disconnected
	return nil, nil
}

// snapshot writes a snapshot of the observed state, with the configuration in force.
func (r statusRoutes) snapshot(ctx context.Context, _ *none) (json.RawMessage, error) {
	engine, seen, err := r.daemon.Observer().Observe()
	if err != nil {
		return nil, failure(http.StatusServiceUnavailable, wire.CodeNotReady, "", "the images directory cannot be read: %v", err)
	}
	s, err := engine.Snapshot(ctx, plan.Meta{NpctlVersion: r.version, Lineage: seen.Installation, Digest: string(engine.Desired.Digests.Current()), Created: seen.Now.UTC()}, &seen)
	if err != nil {
		return nil, err
	}
	return s.JSON()
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

// audit lists audit records.
func (r statusRoutes) audit(ctx context.Context, in *listAudit) (wire.AuditRecords, error) {
	found, err := audit.List(ctx, r.daemon.Engine.Store, in.After)
	if n := min(in.Limit, len(found)); in.After != "" {
		found = found[:n]
	} else {
		found = found[len(found)-n:]
	}
	return wire.AuditRecords{Records: append([]*resources.Audit{}, found...)}, err
}

// actor returns who calls: the name of the token and what the client says. Callers on the unix socket have all rights anyway.
func (c *call) actor(stated string) string {
	if c.role == local {
		return cmp.Or(stated, "a client on the socket")
	}
	who := "token " + c.who
	if stated != "" {
		who += " (" + stated + ")"
	}
	return who
}

func (r statusRoutes) reload(ctx context.Context, in *struct{ Body wire.Reload }) (done wire.Reloaded, err error) {
	p, err := r.daemon.Reload(ctx, watch.ReloadOptions{AllowDestroy: in.Body.AllowDestroy, From: resources.Hash(in.Body.From), To: resources.Hash(in.Body.To),
		Actor: callOf(ctx).actor(in.Body.Actor), Reviewed: in.Body.Reviewed, Overrides: in.Body.Overrides})
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

// eventsOfWhy is the maximum number of events in an explanation.
const eventsOfWhy = 50

// whyRoutes explains the state of objects.
type whyRoutes struct {
	daemon    *watch.Daemon
	slot      chan struct{} // one call at a time computes a plan
	suspender func() *state.Holder
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
	in.Now, in.Observed.LockHolder = in.Observed.Now, inspect.LockHolder(y.suspender())
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
