package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// statusEvery is the maximum interval between two status messages to systemd.
const statusEvery = 5 * time.Second

// notifier sends notifications to systemd. It does nothing if npctl does not run under systemd.
type notifier struct{ log *slog.Logger }

func newNotifier(log *slog.Logger) *notifier { return &notifier{log} }

func (n *notifier) send(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		n.log.Warn("systemd could not be notified", "state", state, "error", err)
	}
}

func (n *notifier) ready() { n.send(daemon.SdNotifyReady) }
func (n *notifier) stopping() {
	n.send(daemon.SdNotifyStopping + "\nSTATUS=waiting for running steps to end")
}

// reloading notifies systemd of a reload and its start time, which Type=notify-reload requires.
func (n *notifier) reloading() {
	now, ok := host.Monotonic()
	if !ok {
		return // only systems without CLOCK_MONOTONIC
	}
	n.send(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Microseconds()))
}

// keep reports that the service is ready after the first pass. From then on it reports the status when it changes and
// feeds the watchdog while passes complete.
func (n *notifier) keep(ctx context.Context, d *watch.Daemon) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		n.log.Warn("the watchdog interval of systemd is not valid; no watchdog notifications", "error", err)
	}
	every := statusEvery
	if limit > 0 {
		every = min(every, limit/3)
	}
	ready, status := false, ""
	for {
		if beat := d.LastPassEnd(); !beat.IsZero() {
			if !ready {
				n.ready()
				ready = true
			}
			if limit > 0 && time.Since(beat) < limit {
				n.send(daemon.SdNotifyWatchdog)
			}
			if now := statusOf(d); now != status {
				n.send("STATUS=" + now)
				status = now
			}
		}
		wait := every
		if !ready {
			wait = 20 * time.Millisecond
		}
		if waits.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// statusOf returns the status line of systemctl status.
func statusOf(d *watch.Daemon) string {
	pass := d.Last()
	fleet := inspect.Fleet{Observed: pass.Observed}
	status := fleet.Status(pass.Plan)
	waiting := status.Requests[resources.StateRequested] + status.Requests[resources.StatePending]
	answering := 0
	for i := range pass.Desired.Providers {
		if view := pass.Observed.Providers[pass.Desired.Providers[i].Name]; view.Err == "" && !view.ListedAt.IsZero() {
			answering++
		}
	}
	line := fmt.Sprintf("%s, %s ready, %d in use, %d of %s", text.Count(waiting, "request waits", "requests wait"), text.Count(status.Nodes[resources.StateReady], "node", "nodes"),
		status.Nodes[resources.StateInUse], answering, text.Count(len(pass.Desired.Providers), "provider answers", "providers answer"))
	if lasts := d.Stalled(); lasts > 0 {
		line = fmt.Sprintf("STALLED for %s: %s", lasts.Round(time.Minute), line)
	}
	return line
}
