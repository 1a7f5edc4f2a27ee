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

// tracedDrivers returns drivers whose calls are counted and timed.
func tracedDrivers(all map[string]drivers.Driver, m *metrics.Metrics) map[string]drivers.Driver {
	traced := make(map[string]drivers.Driver, len(all))
	for kind, d := range all {
		traced[kind] = tracedDriver{d, m}
	}
	return traced
}

// tracedDriver is a driver whose clouds report their calls.
type tracedDriver struct {
	drivers.Driver
	metrics *metrics.Metrics
}

// Open implements drivers.Driver. What is put around the cloud later, such as retries, is around this too.
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

// lookingDrivers returns drivers whose clouds can be looked at, and not changed.
func lookingDrivers(all map[string]drivers.Driver) map[string]drivers.Driver {
	looking := make(map[string]drivers.Driver, len(all))
	for kind, d := range all {
		looking[kind] = lookingDriver{d}
	}
	return looking
}

type lookingDriver struct{ drivers.Driver }

// Open implements drivers.Driver.
func (l lookingDriver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	cloud, err := l.Driver.Open(ctx, env, config)
	if err != nil {
		return nil, err
	}
	return drivers.Wrap(cloud, drivers.LookOnly()), nil
}

// errorKind says in one word why a cloud did not do what it was asked for; see metrics.Reasons.
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
