package zookeeper

import (
	"cmp"
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

// Options configures the connection to ZooKeeper and the identity of this process.
type Options struct {
	// Hosts are the servers of one ensemble, each host or host:port; the port is 2281 with TLS and 2181 without.
	Hosts []string
	// Chroot is the znode below which all data is stored, the same for all programs that share it. It must exist; empty
	// means the root.
	Chroot string
	// TLS configures TLS. Nil means plain text, which is for debugging: Nodepool and Zuul refuse it.
	TLS *TLS
	// SessionTimeout is how long a dead process keeps its locks; zero means 10 s. The server may grant another value.
	SessionTimeout time.Duration
	// OpenTimeout limits the time in which Open connects and reads the tree; zero means 30 s.
	OpenTimeout time.Duration

	// Private stores the records that concern only this process. The caller closes it, after the Store.
	Private state.Store
	// ReadOnly rejects every operation that would change a znode.
	ReadOnly bool
	// Lineage is the required lineage of the state. Empty means any; Open creates a state if there is none.
	Lineage string
	// HashKey is the key for a state that has none; empty means a random one.
	HashKey resources.HashKey
	// Importing marks the state as an import with that lineage, unless npctl has committed to a state of another
	// lineage there. Other processes cannot open the state until EndImport.
	Importing bool

	Host    string // name of this machine in registrations and locks; the host name if empty
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

// complete sets defaults and rejects invalid options.
func (o *Options) complete() error {
	if o.Private == nil {
		return errors.New("no private store: one is required for the records of this process")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.SessionTimeout = cmp.Or(o.SessionTimeout, defaultSession)
	o.OpenTimeout = cmp.Or(o.OpenTimeout, defaultOpen)
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

// withPort adds the port if host has none. An IPv6 address with a port is in brackets.
func withPort(host string, port int) (string, error) {
	if strings.Contains(host, "/") {
		return "", fmt.Errorf("host %q: set the chroot apart from the hosts", host)
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
		return "", fmt.Errorf("host %q: %q is not a port", host, given)
	}
	return host, nil
}
