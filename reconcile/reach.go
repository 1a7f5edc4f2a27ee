package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/keyscan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

const (
	bootTimeout = 5 * time.Minute  // the default of boot_timeout
	scanTimeout = 10 * time.Second // of one connection
	scanPause   = time.Second
	scansAtOnce = 100
)

// awaitReachable waits until the node answers and, if it is reached by SSH, its host keys are known.
func (l *nodeLaunch) awaitReachable(ctx context.Context, instance *resources.Instance) error {
	var reach drivers.Reach
	if err := schema.Decode(l.offer.Config, &reach); err != nil {
		return fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	how := probeOf(l.node.Login)
	if how == probeNone || !reach.HostKeyChecking {
		return nil
	}
	port := cmp.Or(l.node.Login.ConnectionPort, defaultPorts[how])
	address := net.JoinHostPort(instance.Addresses.Interface, strconv.FormatInt(port, 10))
	limit := cmp.Or(l.provider.BootTimeout, bootTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s %w (%s)", address, ErrBootTimeout, limit))
	defer cancel()
	started := l.x.Now()
	l.x.progress(l.step)("waiting for "+address+" to answer", 0, 0)
	for {
		keys, err := l.x.probe(ctx, how, address)
		if err == nil {
			instance.HostKeys, l.node.Phases.Keyscan = keys, l.x.Now().Sub(started).Seconds()
			l.node.VerifiedAt = l.x.Now()
			return nil
		}
		select {
		case <-time.After(scanPause):
		case <-ctx.Done():
			if errors.Is(err, ErrInterrupted) { // the deadline passed before a connection was tried; the launch is not interrupted
				return context.Cause(ctx)
			}
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// probeKind is a method to check whether a node answers.
type probeKind int

const (
	probeNone probeKind = iota
	probeSSH
	probeTCP
)

var defaultPorts = map[probeKind]int64{probeSSH: 22, probeTCP: 5986}

// probeOf returns how to probe a node with the given login.
func probeOf(login resources.Login) probeKind {
	switch {
	case login.OverSSH():
		return probeSSH
	case slices.Contains([]string{"winrm", "psrp", "netconf", "httpapi"}, login.ConnectionType):
		return probeTCP
	default:
		return probeNone
	}
}

// probe makes one connection.
func (x *execution) probe(ctx context.Context, how probeKind, address string) ([]string, error) {
	release, err := x.slots.acquire(ctx, "scan", scansAtOnce)
	if err != nil {
		return nil, err
	}
	defer release()
	if how == probeSSH {
		return keyscan.Scan(ctx, address, scanTimeout)
	}
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return nil, conn.Close()
}
