package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// statusEvery is how often systemd is told what the daemon is doing.
const statusEvery = 5 * time.Second

// notifier tells systemd how the service is, where it runs under systemd.
type notifier struct{ log *slog.Logger }

func newNotifier(log *slog.Logger) *notifier { return &notifier{log} }

func (n *notifier) send(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		n.log.Warn("systemd could not be told", "state", state, "error", err)
	}
}

func (n *notifier) ready() { n.send(daemon.SdNotifyReady) }
func (n *notifier) stopping() {
	n.send(daemon.SdNotifyStopping + "\nSTATUS=waiting for running steps to end")
}

// reloading tells when the reload began, too, as Type=notify-reload wants it.
func (n *notifier) reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return // only systems without that clock
	}
	n.send(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/int64(time.Microsecond)))
}

// keep says that the service is ready once the daemon has made its first pass, then now and then what it is doing, and
// that it is alive for as long as passes follow each other.
func (n *notifier) keep(ctx context.Context, d *watch.Daemon) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		n.log.Warn("systemd's watchdog is set in a way that is not understood, so it is not fed", "error", err)
	}
	every := statusEvery
	if limit > 0 {
		every = min(every, limit/3)
	}
	ready, status := false, ""
	for {
		if beat := d.Beat(); !beat.IsZero() {
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
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// statusOf is the line that systemctl status shows.
func statusOf(d *watch.Daemon) string {
	pass := d.Last()
	waiting, inUse, ready, answering := 0, 0, 0, 0
	for _, r := range pass.Seen.Records.Requests {
		if r.Waits() {
			waiting++
		}
	}
	for _, node := range pass.Seen.Records.Nodes {
		switch node.State {
		case resources.StateReady:
			ready++
		case resources.StateInUse:
			inUse++
		}
	}
	for i := range pass.Desired.Providers {
		if view := pass.Seen.Providers[pass.Desired.Providers[i].Name]; view.Err == "" && !view.ListedAt.IsZero() {
			answering++
		}
	}
	text := fmt.Sprintf("%s, %s ready, %d in use, %d of %s", countWord(waiting, "request waits", "requests wait"), countWord(ready, "node", "nodes"),
		inUse, answering, countWord(len(pass.Desired.Providers), "provider answers", "providers answer"))
	if lasts := d.Stalled(); lasts > 0 {
		text = fmt.Sprintf("STALLED for %s: %s", lasts.Round(time.Minute), text)
	}
	return text
}
