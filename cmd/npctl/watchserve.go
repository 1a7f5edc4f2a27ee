package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/metrics"
)

// watchOperation is what the lock of the state is held for.
const watchOperation = "watch"

// cutAfter is how long steps that were cut off have to end before the process does.
const cutAfter = 10 * time.Second

// errStuck is why npctl ends though steps are running.
var errStuck = errors.New("steps that were cut off did not end; the next npctl watch goes on with them")

// alone runs work while nobody else may work on the state.
func (c *watchCommand) alone(ctx context.Context, s *session, work func(context.Context) error) error {
	if err := c.takeLockOver(ctx, s); err != nil {
		return err
	}
	return c.locked(ctx, s.store, watchOperation, c.lockTimeout, func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() {
			if errors.Is(context.Cause(ctx), state.ErrLost) {
				c.log.Error("the lock of the state was taken away: stopping")
			}
		})()
		return work(ctx)
	})
}

// takeLockOver ends the lock of a predecessor in another container, of which nobody can tell whether it lives: whoever
// gave -take-over vouches that it does not.
func (c *watchCommand) takeLockOver(ctx context.Context, s *session) error {
	if !c.takeOver {
		return nil
	}
	holder, err := s.store.Holder(ctx, stateLock)
	if err != nil || holder == nil || holder.Operation != watchOperation {
		return err
	}
	if host, err := os.Hostname(); err != nil || holder.Host != host {
		return nil //nolint:nilerr // then it is left to the lock to say who has it
	}
	_, err = s.store.ForceUnlock(ctx, holder.ID)
	if err == nil {
		c.log.Warn("lock taken over", "holder", holder.Who, "pid", holder.PID, "since", holder.Since)
	}
	return err
}

// serve runs the daemon and everything around it until ctx ends.
func (c *watchCommand) serve(ctx context.Context, s *session) error {
	m := metrics.New(metrics.Options{Version: version(), Classify: errorKind})
	s.engine.Drivers = tracedDrivers(s.engine.Drivers, m)
	if c.shadow {
		s.engine.Drivers = lookingDrivers(s.engine.Drivers)
	}
	s.engine.Store = m.Timed(s.store)
	d, err := watch.New(ctx, watch.Options{Engine: s.engine, Load: c.reread, Providers: c.providers, Tasks: c.does(), Refresh: c.refresh, Log: c.log,
		AllowDestroy: c.allowDestroy, Stall: c.stall, Shadow: c.shadow, Compared: m.Compared, Observe: m.Pass, Step: m.Step, Taken: m.Taken, RequestRefused: m.RequestRefused, Reloaded: c.reloaded(m)})
	if err != nil {
		return err
	}
	m.Watch(d)
	w := &watching{watchCommand: c, session: s, daemon: d, metrics: m}
	return w.run(ctx)
}

// watching is a daemon with its listeners and those who look after it.
type watching struct {
	*watchCommand
	session *session
	daemon  *watch.Daemon
	metrics *metrics.Metrics
}

// run binds the listeners first and closes them last: whoever asks while the daemon ends gets an answer.
func (w *watching) run(ctx context.Context) error {
	front, err := w.bind(ctx)
	if err != nil {
		return err
	}
	defer front.close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	serving, endServing := context.WithCancel(context.WithoutCancel(ctx))
	defer endServing()
	var servers errgroup.Group
	for _, one := range front.servers {
		servers.Go(func() error {
			err := one.serve(serving)
			if err != nil {
				err = fmt.Errorf("serve %s: %w", one.address, err)
				stop(err) // a daemon that nobody can reach is better begun anew
			}
			return err
		})
	}
	side, endSide := context.WithCancel(ctx)
	defer endSide()
	var helpers errgroup.Group
	helpers.Go(func() error { reloadOnHangup(side, w.reloads, w.log, w.reload); return nil })
	tell := newNotifier(w.log)
	helpers.Go(func() error { tell.keep(side, w.daemon); return nil })
	w.log.Info("watching", "version", version(), "state", w.place.String(), "providers", len(w.session.config.Desired.Providers),
		"addresses", front.addresses())
	if w.shadow {
		w.log.Info("shadow: nothing is changed, requests that others serve are compared")
	}
	err = w.untilEnd(ctx, tell)
	endSide()
	_ = helpers.Wait() // they return no errors
	endServing()
	err = errors.Join(err, servers.Wait())
	w.log.Info("stopped")
	return err
}

// untilEnd runs the daemon. Steps that do not even end when they are cut off are left behind: the next daemon finds
// their records.
func (w *watching) untilEnd(ctx context.Context, tell *notifier) error {
	ended := make(chan error, 1)
	go func() { ended <- w.daemon.Run(ctx, w.grace) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	w.log.Info("stopping: nothing more is begun", "running", len(w.daemon.Runner().Running()), "grace", w.grace)
	tell.stopping()
	select {
	case err := <-ended:
		return err
	case <-time.After(w.grace + cutAfter):
		return errStuck
	}
}
