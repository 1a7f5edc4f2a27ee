package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/watch/metrics"
)

// tracedDrivers returns drivers that count and time the calls of their clouds.
func tracedDrivers(all map[string]drivers.Driver, m *metrics.Metrics) map[string]drivers.Driver {
	traced := make(map[string]drivers.Driver, len(all))
	for kind, d := range all {
		traced[kind] = tracedDriver{d, m}
	}
	return traced
}

// tracedDriver counts and times the calls of the clouds that it opens.
type tracedDriver struct {
	drivers.Driver
	metrics *metrics.Metrics
}

// Open implements drivers.Driver. Wrappers that are added later, such as retries, are outside of this one.
func (t tracedDriver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	started := time.Now()
	cloud, err := t.Driver.Open(ctx, env, config)
	t.metrics.Call(env.Provider, "open", time.Since(started), err)
	if err != nil {
		return nil, err
	}
	return drivers.Wrap(cloud, drivers.Trace(env.Provider, slog.New(slog.DiscardHandler), func(r drivers.Report) {
		t.metrics.Call(r.Provider, r.Name, r.Took, r.Err)
	})), nil
}

// readOnlyDrivers returns drivers that open their clouds read-only.
func readOnlyDrivers(all map[string]drivers.Driver) map[string]drivers.Driver {
	looking := make(map[string]drivers.Driver, len(all))
	for kind, d := range all {
		looking[kind] = readOnlyDriver{d}
	}
	return looking
}

type readOnlyDriver struct{ drivers.Driver }

// Open implements drivers.Driver.
func (l readOnlyDriver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	cloud, err := l.Driver.Open(ctx, env, config)
	if err != nil {
		return nil, err
	}
	return drivers.Wrap(cloud, drivers.ReadOnly()), nil
}

// errorKind returns the kind of a cloud error for the metrics; see metrics.Reasons.
func errorKind(err error) string {
	switch {
	case errors.Is(err, drivers.ErrQuota):
		return "quota"
	case errors.Is(err, drivers.ErrCapacity):
		return "capacity"
	case errors.Is(err, drivers.ErrRejected):
		return "rejected"
	case errors.Is(err, drivers.ErrThrottled):
		return "throttled"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, reconcile.ErrLaunchTimeout), errors.Is(err, reconcile.ErrBootTimeout):
		return "timeout"
	case errors.Is(err, drivers.ErrUnavailable):
		return "unavailable"
	default:
		return "other"
	}
}
