package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/location"
	"github.com/npctl/npctl/watch"
)

const watchDescription = `Maintains the nodes and images of the configuration, and serves node requests. It plans and applies
continuously, whenever a request, a cloud or the time requires it.

It has the lock of the state as long as it runs. Other commands reach it automatically through its unix
socket. Logs go to stderr, from level info on unless -log-level changes that; -log-format=json
writes one JSON object per line.

On SIGHUP (or npctl reload) it reloads its configuration, and with -reload-on-change also when one of its
files changes. It refuses a configuration that has errors or would delete many objects, and keeps the
previous one. On SIGTERM or ^C it starts no more steps and waits for running ones, at most -grace; the next
npctl watch resumes interrupted steps. A second signal quits at once, which is safe too.

With -shadow it changes nothing. It compares its decisions with those of the processes that serve the same
requests, such as Nodepool; see docs/zuul.md.

It serves nothing to the network without -listen, -metrics-listen or -nodepool-listen. It notifies systemd
of readiness, status and watchdog, and accepts sockets from systemd.

Examples:
  npctl watch
  npctl watch -provider=vexxhost -provider=lab         (skip all others)
  npctl watch -serve=images                            (a build host; other processes serve the nodes)
  npctl watch -shadow                                  (beside Nodepool, before a migration)
  npctl watch -metrics-listen=127.0.0.1:9107 -log-format=json
  npctl watch -listen=:8443 -tls-cert=cert.pem -tls-key=key.pem -token-file=tokens

docs/operations.md describes how to run it as a service.

Exit codes: 0 stopped by a signal, 1 error.`

// watchCommand implements npctl watch.
type watchCommand struct {
	*app
	variableOptions
	providers, tasks                    []string
	socket, socketMode                  string
	listen, cert, key, clientCA, tokens string
	metricsListen, nodepoolListen       string
	statsd, statsdPrefix                string
	refresh, grace, stall               time.Duration
	listingAge                          time.Duration
	lockTimeout                         time.Duration
	parallelism                         int
	takeOver, shadow, allowDestroy      bool
	place                               statePlace // of the newest configuration
	store                               state.Store
	reconnect                           func()          // uses the connection of the configuration that is being loaded; nil: no change
	reloads                             <-chan struct{} // receives a hint for each request to reload the configuration
}

func newWatchCommand(a *app) *cli.Command {
	c := &watchCommand{app: a}
	flags := []cli.Flag{
		&stringsFlag{cli.StringSliceFlag{Name: "provider", Category: categoryService, Destination: &c.providers, Usage: "serve only provider `NAME` and skip the others; may be given several times"}, providerNames},
		&cli.BoolFlag{Name: "allow-destroy", Category: categoryService, Destination: &c.allowDestroy, Usage: "delete objects that are not configured any more even if they are many, and leaks although the state is older than the clouds; until the next reload"},
		&stringsFlag{cli.StringSliceFlag{Name: "serve", Category: categoryService, Destination: &c.tasks, Usage: "serve `nodes` or images only; with a shared state, -provider alone means nodes"}, servedTasks.source},
		&cli.BoolFlag{Name: "shadow", Category: categoryService, Destination: &c.shadow, Usage: "change nothing: compare decisions about requests that other processes serve; needs a shared state"},
		&cli.DurationFlag{Name: "refresh", Category: categoryRun, Destination: &c.refresh, Value: time.Minute, Validator: atLeast(time.Second), Usage: "`DURATION` between two listings of an idle provider"},
		&cli.DurationFlag{Name: "max-listing-age", Category: categoryRun, Destination: &c.listingAge, Value: 2 * time.Minute, Validator: atLeast(time.Second), Usage: "hand out a ready node only if the newest listing of its provider is at most `DURATION` older than the request"},
		&cli.DurationFlag{Name: "grace", Category: categoryRun, Destination: &c.grace, Value: 30 * time.Second, Usage: "`DURATION` to wait for running steps after SIGTERM"},
		&cli.DurationFlag{Name: "stall", Category: categoryRun, Destination: &c.stall, Value: 15 * time.Minute, Validator: atLeast(time.Millisecond), Usage: "report a stall when requests wait for a `DURATION` in which nothing was launched or served"},
		c.reloadOnChangeFlag(categoryService),
		lockTimeoutFlag(&c.lockTimeout),
		&cli.BoolFlag{Name: "take-over", Category: categoryRun, Destination: &c.takeOver, Usage: "take the lock of an npctl watch that ran in another container with the same host name: only if two never run at once"},
		&cli.IntFlag{Name: "parallelism", DefaultText: parallelismDefault, Category: categoryRun, Destination: &c.parallelism, Usage: "at most `N` steps at a time in one provider, if its max_concurrency is not lower"},
		&cli.StringFlag{Name: "socket", Category: categoryListen, Destination: &c.socket, TakesFile: true, Usage: "unix socket `PATH` of the API, instead of the default one beside the state"},
		&cli.StringFlag{Name: "socket-mode", Category: categoryListen, Destination: &c.socketMode, Value: "0600", Usage: "permissions of the socket as an octal `MODE`; 0660 permits its group everything"},
		&cli.StringFlag{Name: "listen", Category: categoryListen, Destination: &c.listen, Usage: "serve the API at a TCP `ADDRESS` too, such as :8443; needs -token-file, and -tls-cert and -tls-key unless it is a loopback address"},
		&cli.StringFlag{Name: "tls-cert", Category: categoryListen, Destination: &c.cert, TakesFile: true, Usage: "certificate `FILE` (PEM) for -listen; npctl reads it again when it changes"},
		&cli.StringFlag{Name: "tls-key", Category: categoryListen, Destination: &c.key, TakesFile: true, Usage: "private key `FILE` (PEM) for -listen"},
		&cli.StringFlag{Name: "tls-client-ca", Category: categoryListen, Destination: &c.clientCA, TakesFile: true, Usage: "accept only clients with a certificate of the authority in `FILE` (PEM); they still need their token"},
		&cli.StringFlag{Name: "token-file", Category: categoryListen, Destination: &c.tokens, TakesFile: true, Usage: "`FILE` with bearer tokens for -listen"},
		&cli.StringFlag{Name: "metrics-listen", Category: categoryListen, Destination: &c.metricsListen, Usage: "serve /metrics, /livez and /readyz without authentication at a TCP `ADDRESS`, such as 127.0.0.1:9107"},
		&cli.StringFlag{Name: "nodepool-listen", Category: categoryListen, Destination: &c.nodepoolListen, Usage: "serve the web endpoints of nodepool-launcher, such as /node-list, read-only and without authentication at a TCP `ADDRESS`, such as 127.0.0.1:8005"},
		&cli.StringFlag{Name: "statsd", Category: categoryListen, Destination: &c.statsd, Usage: "send metrics under Nodepool's names to the statsd server at `HOST:PORT`; default: STATSD_HOST and STATSD_PORT, if set"},
		&cli.StringFlag{Name: "statsd-prefix", Category: categoryListen, Destination: &c.statsdPrefix, Usage: "`PREFIX` of the names for statsd, such as ci.west"},
	}
	return &cli.Command{
		Name: "watch", Category: categoryMain, Usage: "maintain nodes and images, and serve node requests", Description: watchDescription,
		Flags: append(flags, c.flags()...), Action: c.run,
	}
}

func (c *watchCommand) run(ctx context.Context, cmd *cli.Command) error {
	if runtime.GOOS == "windows" {
		return hint(errors.New("npctl watch does not run on Windows"), "run it on Linux; npctl builder builds images on Windows")
	}
	if err := c.check(); err != nil {
		return err
	}
	if err := c.logAsService(); err != nil {
		return err
	}
	reloads, forget := c.signals.hangupHints()
	defer forget()
	c.reloads = reloads
	config, err := c.loadAndWarn(c.variableOptions)
	if err != nil {
		return err
	}
	if err := c.checkProviders(config.Desired); err != nil {
		return err
	}
	may := exclusiveState
	if c.shadow {
		may = shadowState
		if err := c.checkShadow(config.Desired.Settings); err != nil {
			return err
		}
	}
	s, err := c.openSession(ctx, config, c.parallelism, may)
	if err != nil {
		return err
	}
	defer s.close()
	c.place, c.store = s.place, s.store
	return c.withStateLock(ctx, s, func(ctx context.Context) error { return c.serve(ctx, s) })
}

// servedTasks are the values of -serve.
var servedTasks = choices{string(watch.TaskNodes), string(watch.TaskImages)}

// check returns an error for invalid options.
func (c *watchCommand) check() error {
	switch {
	case c.listen != "" && c.tokens == "":
		return hint(errors.New("-listen needs -token-file"), "the unix socket needs no tokens; ssh can forward it to another machine")
	case c.listen == "" && c.cert+c.key+c.clientCA+c.tokens != "":
		return errors.New("-tls-cert, -tls-key, -tls-client-ca and -token-file need -listen")
	}
	for _, task := range c.tasks {
		if err := servedTasks.check("option -serve:", task); err != nil {
			return err
		}
	}
	if c.shadow && len(c.tasks) > 0 && !slices.Contains(c.tasks, string(watch.TaskNodes)) {
		return hint(errors.New("-shadow compares decisions about node requests, and -serve excludes them"), "remove -serve")
	}
	_, err := c.mode()
	return err
}

// checkShadow returns an error if the state is not shared, because a shadow compares itself with other processes.
func (c *watchCommand) checkShadow(s resources.Settings) error {
	place, err := c.stateOf(s)
	if err != nil || place.Shared != nil {
		return err
	}
	return hint(fmt.Errorf("-shadow needs other processes that serve the requests, and %s has none", place.File),
		fmt.Sprintf("write state %q in the configuration, and remove -state; npctl plan shows the changes without -shadow", location.ZooKeeper))
}

// does returns the tasks of -serve.
func (c *watchCommand) does() (tasks []watch.Task) {
	for _, task := range c.tasks {
		tasks = append(tasks, watch.Task(task))
	}
	return tasks
}

// checkProviders returns an error if -provider names an unknown provider.
func (c *watchCommand) checkProviders(want resources.Desired) error {
	var names []string
	for i := range want.Providers {
		names = append(names, want.Providers[i].Name)
	}
	for _, name := range c.providers {
		if slices.Contains(names, name) {
			continue
		}
		err := fmt.Errorf("option -provider: there is no provider %q in the configuration", name)
		return didYouMean(err, name, names, "there are "+text.And(names))
	}
	return nil
}

// logAsService sets the log level to info, unless an option or NPCTL_LOG sets it.
func (c *watchCommand) logAsService() error {
	if _, set := c.lookupEnv("NPCTL_LOG"); set || c.global.logLevel != "" {
		return nil
	}
	c.global.logLevel = "info"
	return c.openLog()
}
