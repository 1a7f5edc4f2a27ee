package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/watch"
	"github.com/npctl/npctl/watch/httpapi"
	"github.com/npctl/npctl/watch/metrics"
	"github.com/npctl/npctl/watch/statsd"
)

// watchOperation is the operation in the state lock of npctl watch.
const watchOperation = "watch"

// statsdPort is the default port of statsd.
const statsdPort = "8125"

// stepStopTimeout is the time that cancelled steps have to end before the process exits.
const stepStopTimeout = 10 * time.Second

// errStepsStuck is the error if npctl exits while steps are running.
var errStepsStuck = errors.New("interrupted steps did not end; the next npctl watch resumes them")

// withStateLock runs work under the lock of the state.
func (c *watchCommand) withStateLock(ctx context.Context, s *session, work func(context.Context) error) error {
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

// takeLockOver releases the lock of a predecessor in another container. npctl cannot check whether that process is
// alive; with -take-over the operator confirms that it is not.
func (c *watchCommand) takeLockOver(ctx context.Context, s *session) error {
	if !c.takeOver {
		return nil
	}
	holder, err := s.store.Holder(ctx, stateLock)
	if err != nil || holder == nil || holder.Operation != watchOperation {
		return err
	}
	if host, err := os.Hostname(); err != nil || holder.Host != host {
		return nil //nolint:nilerr // the lock error names the holder
	}
	_, err = s.store.ForceUnlock(ctx, holder.ID)
	if err == nil {
		c.log.Warn("lock taken over", "holder", holder.UserHost, "pid", holder.PID, "since", holder.Since)
	}
	return err
}

// serve runs the daemon with its listeners and metrics until ctx is done.
func (c *watchCommand) serve(ctx context.Context, s *session) error {
	m := metrics.New(metrics.Options{Version: version(), Classify: errorKind})
	s.engine.OnCall = func(r drivers.Report) { m.Call(r.Provider, r.Name, r.Took, r.Err) }
	s.engine.ReadOnly = c.shadow
	s.engine.Store = m.Timed(s.store)
	onPass, onStep := m.Pass, m.Step
	stats := c.newStatsd()
	if stats != nil {
		onPass = func(p watch.Pass) { m.Pass(p); stats.Pass(p) }
		onStep = func(e reconcile.Event) { m.Step(e); stats.Step(e) }
	}
	d, err := watch.New(ctx, watch.Options{Engine: s.engine, Load: c.loadConfiguration, Providers: c.providers, Tasks: c.does(), Refresh: c.refresh, MaxListingAge: c.listingAge, Log: c.log,
		AllowDestroy: c.allowDestroy, Stall: c.stall, Shadow: c.shadow, Compared: m.Compared, ThreadTime: host.ThreadTime(), OnPass: onPass, OnStep: onStep, OnTaken: m.RequestTaken, RequestRefused: m.RequestRefused, Reloaded: c.reloaded(m)})
	if err != nil {
		return err
	}
	if err := c.auditDone(ctx, s.store, resources.Audit{Operation: watchOperation, Configuration: s.config.Desired.Digests.Current(), Summary: "start"}); err != nil {
		return err
	}
	m.Watch(d)
	if stats != nil {
		stats.Running = d.Runner().Running
	}
	w := &service{watchCommand: c, session: s, daemon: d, metrics: m, statsd: stats}
	return w.run(ctx)
}

// service is a daemon with its listeners and helpers.
type service struct {
	*watchCommand
	session *session
	daemon  *watch.Daemon
	metrics *metrics.Metrics
	statsd  *statsd.Reporter // nil: none
}

// newStatsd returns a reporter for the server of -statsd or, as for Nodepool, of STATSD_HOST and STATSD_PORT. It returns
// nil without one.
func (c *watchCommand) newStatsd() *statsd.Reporter {
	address := c.statsd
	if address == "" {
		host, _ := c.lookupEnv("STATSD_HOST")
		if host == "" {
			return nil
		}
		port, _ := c.lookupEnv("STATSD_PORT")
		address = net.JoinHostPort(host, cmp.Or(port, statsdPort))
	} else if _, _, err := net.SplitHostPort(address); err != nil {
		address = net.JoinHostPort(address, statsdPort)
	}
	return statsd.New(statsd.Options{Address: address, Prefix: c.statsdPrefix, Classify: errorKind, Log: c.log})
}

// run opens the listeners first and closes them last, so that clients get responses while the daemon stops.
func (w *service) run(ctx context.Context) error {
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
				stop(err) // end the process: an unreachable daemon must be restarted
			}
			return err
		})
	}
	side, endSide := context.WithCancel(ctx)
	defer endSide()
	var helpers errgroup.Group
	helpers.Go(func() error {
		(&reloader{hints: w.reloads, inputs: w.inputs, log: w.log, reload: w.reload}).run(side)
		return nil
	})
	tell := newNotifier(w.log)
	helpers.Go(func() error { tell.keep(side, w.daemon); return nil })
	if w.statsd != nil {
		helpers.Go(func() error { w.statsd.Run(side); return nil })
	}
	w.log.Info("watching", "version", version(), "state", w.place.String(), "providers", len(w.session.config.Desired.Providers),
		"addresses", front.addresses())
	if w.shadow {
		w.log.Info("shadow: comparing the requests that other processes serve, changing nothing")
	}
	err = w.untilEnd(ctx, tell)
	endSide()
	_ = helpers.Wait() // helpers return no errors
	endServing()
	err = errors.Join(err, servers.Wait())
	w.log.Info("stopped")
	return err
}

// untilEnd runs the daemon. If steps do not end after their cancellation, untilEnd returns errStepsStuck, and the next
// daemon resumes them from their records.
func (w *service) untilEnd(ctx context.Context, tell *notifier) error {
	ended := make(chan error, 1)
	go func() { ended <- w.daemon.Run(ctx, w.grace) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	w.log.Info("stopping: starting no more steps", "running", len(w.daemon.Runner().Running()), "grace", w.grace)
	tell.stopping()
	select {
	case err := <-ended:
		return err
	case <-time.After(w.grace + stepStopTimeout):
		return errStepsStuck
	}
}

// api serves the API on its listeners.
type api interface {
	Serve(ctx context.Context, l net.Listener) error
}

func (w *service) newAPI() (api, error) {
	options := httpapi.Options{Version: version(), State: w.place.File, Metrics: w.metrics.Handler(), InvalidToken: w.metrics.InvalidToken, Log: w.log}
	if store, shared := w.session.store.(*sharedStore); shared {
		options.Unlock = store.Store.ForceUnlock // the daemon holds the lock in the file itself
	}
	if w.tokens != "" {
		tokens, err := httpapi.ReadTokens(w.tokens, w.log)
		if err != nil {
			return nil, err
		}
		options.Tokens = tokens
	}
	return httpapi.New(w.daemon, options), nil
}

func (w *service) bindSocket(f *listeners, api api) error {
	path, link, err := w.ownSocket()
	if err != nil {
		return err
	}
	mode, err := w.mode()
	if err != nil {
		return err
	}
	l, err := httpapi.ListenUnix(path, mode)
	if err != nil {
		return hint(err, "-socket names another path")
	}
	f.add(l, api.Serve)
	remove, err := link()
	if err != nil {
		return err
	}
	f.closers = append(f.closers, remove)
	return nil
}

func (w *service) bindTCP(ctx context.Context, f *listeners, api api) error {
	if w.listen == "" {
		return nil
	}
	l, err := httpapi.ListenTCP(ctx, w.listen, httpapi.TLS{Cert: w.cert, Key: w.key, ClientCA: w.clientCA}, w.log)
	if err != nil {
		return hint(err, "-listen needs an address of this machine and a free port, such as :8443")
	}
	f.add(l, api.Serve)
	return nil
}
