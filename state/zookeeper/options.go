package zookeeper

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Options say where ZooKeeper is and who we are.
type Options struct {
	// Hosts are the servers of one ensemble, each host or host:port; the port is 2281 with TLS and 2181 without.
	Hosts []string
	// Chroot is the znode under which everything lies, the same for all who share; empty for the root. It must exist.
	Chroot string
	// TLS is how the servers are spoken to; nil for plain text, which is for debugging: Nodepool and Zuul refuse it.
	TLS *TLS
	// SessionTimeout is how long a lost process keeps its locks; 10 s when zero. The server may give another.
	SessionTimeout time.Duration
	// OpenTimeout is how long Open may take to connect and to read everything; 30 s when zero.
	OpenTimeout time.Duration

	// Private keeps what concerns this process alone. The caller closes it, after the Store.
	Private state.Store
	// ReadOnly refuses everything that would change a znode.
	ReadOnly bool
	// Lineage is that of the state that must be there; empty: any, and one is made when there is none.
	Lineage string
	// HashKey is the key that a state without one gets; empty: a random one.
	HashKey resources.HashKey
	// Arriving makes the state there one of that lineage, unless npctl has written to another there, and keeps everybody
	// else out until Arrived is called: for somebody who brings a state from elsewhere.
	Arriving bool

	Host    string // name of this machine in registrations and locks; asked of the system when empty
	Version string // of npctl
	Log     *slog.Logger
	Now     func() time.Time
}

const (
	defaultSession = 10 * time.Second
	defaultOpen    = 30 * time.Second
	plainPort      = 2181
	tlsPort        = 2281 // Nodepool's default; its documentation says 2181
)

// complete fills in what was left out and refuses what cannot work.
func (o *Options) complete() error {
	if o.Private == nil {
		return errors.New("no private store: one is needed for what concerns this process alone")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.SessionTimeout == 0 {
		o.SessionTimeout = defaultSession
	}
	if o.OpenTimeout == 0 {
		o.OpenTimeout = defaultOpen
	}
	if o.Host == "" {
		var err error
		if o.Host, err = os.Hostname(); err != nil {
			return fmt.Errorf("name of this machine: %w", err)
		}
	}
	if o.Chroot = strings.TrimSuffix(o.Chroot, "/"); o.Chroot != "" && path.Clean(o.Chroot) != o.Chroot || o.Chroot != "" && o.Chroot[0] != '/' {
		return fmt.Errorf("chroot %q: it must be a path such as /zuul", o.Chroot)
	}
	return o.completeHosts()
}

func (o *Options) completeHosts() error {
	if len(o.Hosts) == 0 {
		return errors.New("no hosts: at least one ZooKeeper server is needed")
	}
	o.Hosts = slices.Clone(o.Hosts)
	port := plainPort
	if o.TLS != nil {
		port = tlsPort
	}
	for i, host := range o.Hosts {
		address, err := withPort(host, port)
		if err != nil {
			return err
		}
		o.Hosts[i] = address
	}
	return nil
}

// withPort adds the port where there is none. IPv6 addresses stand in brackets when a port follows.
func withPort(host string, port int) (string, error) {
	if strings.Contains(host, "/") {
		return "", fmt.Errorf("host %q: a chroot is given once, apart from the hosts", host)
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if ip := net.ParseIP(bare); ip != nil || !strings.Contains(host, ":") {
		if bare == "" {
			return "", errors.New("an empty host")
		}
		return net.JoinHostPort(bare, strconv.Itoa(port)), nil
	}
	name, given, err := net.SplitHostPort(host)
	if err != nil || name == "" {
		return "", fmt.Errorf("host %q: it must be host or host:port", host)
	}
	if n, err := strconv.Atoi(given); err != nil || n <= 0 || n > 65535 {
		return "", fmt.Errorf("host %q: %q is no port", host, given)
	}
	return host, nil
}
