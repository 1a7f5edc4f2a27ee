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

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/keyscan"
	"github.com/npctl/npctl/resources"
)

const (
	bootTimeout  = 5 * time.Minute  // where boot_timeout does not say
	scanTimeout  = 10 * time.Second // of one connection
	scanPause    = time.Second
	scansAtOnce  = 100
	hostKeyCheck = "host_key_checking" // of labels of drivers whose nodes are reached by SSH
)

// reach waits until the node answers and, where it is reached by SSH, its host keys are known.
func (l *launching) reach(ctx context.Context, instance *resources.Instance) error {
	how := howToReach(l.node.Login, l.offer.Config)
	if how == notReached {
		return nil
	}
	port := cmp.Or(l.node.Login.ConnectionPort, defaultPorts[how])
	address := net.JoinHostPort(instance.Addresses.Interface, strconv.FormatInt(port, 10))
	limit := cmp.Or(l.provider.BootTimeout, bootTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s %w (%s)", address, ErrBootTimeout, limit))
	defer cancel()
	started := l.Now()
	l.progress(l.step)("waiting for "+address+" to answer", 0, 0)
	for {
		keys, err := l.knock(ctx, how, address)
		if err == nil {
			instance.HostKeys, l.node.Phases.Keyscan = keys, l.Now().Sub(started).Seconds()
			l.node.Checked = l.Now()
			return nil
		}
		select {
		case <-time.After(scanPause):
		case <-ctx.Done():
			if errors.Is(err, ErrInterrupted) { // time was over before the connection was tried; the launch is not interrupted
				return context.Cause(ctx)
			}
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// reaching is a way to see that a node answers.
type reaching int

const (
	notReached reaching = iota
	bySSH
	byConnection
)

var defaultPorts = map[reaching]int64{bySSH: 22, byConnection: 5986}

func howToReach(login resources.Login, config cty.Value) reaching {
	if !checksHostKeys(config) {
		return notReached
	}
	return loginReach(login)
}

// loginReach is how a node with that login is reached, when it is to be looked at.
func loginReach(login resources.Login) reaching {
	switch {
	case login.OverSSH():
		return bySSH
	case slices.Contains([]string{"winrm", "psrp", "netconf", "httpapi"}, login.ConnectionType):
		return byConnection
	default:
		return notReached
	}
}

func checksHostKeys(config cty.Value) bool {
	if config == cty.NilVal || config.IsNull() || !config.Type().IsObjectType() || !config.Type().HasAttribute(hostKeyCheck) {
		return false
	}
	v, _ := config.GetAttr(hostKeyCheck).Unmark()
	return v.IsKnown() && !v.IsNull() && v.Type() == cty.Bool && v.True()
}

// knock looks once.
func (x *execution) knock(ctx context.Context, how reaching, address string) ([]string, error) {
	release, err := x.place(ctx, "scan", scansAtOnce)
	if err != nil {
		return nil, err
	}
	defer release()
	if how == bySSH {
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
