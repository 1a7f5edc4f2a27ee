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
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

const (
	bootTimeout = 5 * time.Minute  // the default of boot_timeout
	scanTimeout = 10 * time.Second // of one connection
	scanPause   = time.Second
	scansAtOnce = 100
)

// checksHostKeys reads the attribute of drivers.Reach. A driver without it, and a node without an offer, need no check.
func checksHostKeys(offer *resources.Offer) (bool, error) {
	var reach struct {
		HostKeyChecking bool `config:"host_key_checking"`
	}
	if offer == nil {
		return false, nil
	}
	if err := schema.Decode(offer.Config, &reach); err != nil {
		return false, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	return reach.HostKeyChecking, nil
}

// awaitReachable waits until the node answers and, if it is reached by SSH, its host keys are known.
func (l *nodeLaunch) awaitReachable(ctx context.Context, instance *resources.Instance) error {
	how := probeOf(l.node.Login)
	if check, err := checksHostKeys(l.offer); how == probeNone || !check {
		return err
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

// reportUnreachable reports an instance that does not answer to a cloud with instances on other nodes.
func (l *nodeLaunch) reportUnreachable(ctx context.Context, id string, reason error) error {
	user, ok := drivers.NodeUserOf(l.cloud)
	if !ok || !errors.Is(reason, ErrBootTimeout) {
		return nil
	}
	return user.Unreachable(ctx, id)
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

// lookupTimeout bounds the lookup of a machine's address by its name.
const lookupTimeout = 2 * time.Second

// registerStatic writes or updates the record of a static node. The node is ready once its machine answers.
func (x *execution) registerStatic(ctx context.Context, s plan.Step) (string, error) {
	provider, ok := x.Desired.Provider(s.Provider)
	if !ok {
		return "", fmt.Errorf("%s is not configured", s.Address)
	}
	pool, node := staticNode(provider, s.Pool, s.Node)
	if node == nil {
		return "", fmt.Errorf("%s is not configured", s.Address)
	}
	now, shared := x.Now(), x.cache.claims.store != nil
	record := &resources.Node{Created: now, Static: true}
	var left []resources.Key
	if s.Record.Kind != "" {
		old, ok := get[resources.Node](x.cache, s.Record)
		if !ok {
			return "", fmt.Errorf("%s is not in the state any more", s.Record)
		}
		record = old
		// A machine returns to service under a new record if other processes have used the old one: they know it by its
		// ID, for instance as a node that they have held, and have written their own data to it.
		if shared && (old.State == resources.StateUsed || old.State == resources.StateFailed) {
			left = append(left, old.Key())
		}
	}
	put := func(left ...resources.Key) (id string, err error) { // the store assigns the ID of a new record
		err = x.cache.replaceAll(ctx, left, append([]resources.Record{record}, x.cache.template(record.Hash, node.Static, nil)...)...)
		return record.ID, err
	}
	record.Provider, record.Pool, record.Labels, record.Hash = s.Provider, s.Pool, node.Labels, node.Hashes.Current()
	record.Hostname, record.Slot, record.HostKeys, record.Login = node.Name, s.Slot, node.HostKeys, node.Login
	record.ExternalID, record.Attributes, record.Addresses = node.Name, pool.NodeAttributes, resources.Addresses{Interface: node.Address}
	if shared {
		record.Addresses = addressesOf(ctx, node.Address)
	}
	if record.State.IsInService() || record.State == resources.StateReady && record.Request != "" {
		return put() // in use
	}
	keys, unreachable := x.checkStatic(ctx, s.Provider, node)
	record.Request, record.Tenant, record.Requestor, record.Lease, record.Comment = "", "", "", nil, ""
	record.HoldUntil = time.Time{}
	if unreachable != nil {
		record.Error, record.Attempt, record.StateTime = unreachable.Error(), record.Attempt+1, now
		if record.State == "" || record.State == resources.StateUsed || record.State == resources.StateReady {
			record.State = resources.StateFailed
		}
		id, err := put()
		return id, errors.Join(unreachable, err)
	}
	record.Error, record.Attempt, record.VerifiedAt = "", 0, now
	if len(keys) > 0 {
		record.HostKeys = keys
	}
	if record.State != resources.StateReady {
		record.State, record.StateTime = resources.StateReady, now
	}
	if len(left) > 0 {
		record.ID, record.Created = "", now
	}
	return put(left...)
}

// addressesOf resolves a machine's address for a shared store, because its users need it by address family.
func addressesOf(ctx context.Context, address string) resources.Addresses {
	a := resources.Addresses{Interface: address}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", address)
	if err != nil || len(found) == 0 { // a client that connects reports the error
		return a
	}
	if ip := found[0].Unmap(); ip.Is4() {
		a.PublicIPv4 = ip.String()
	} else {
		a.PublicIPv6 = ip.String()
	}
	return a
}

// checkStatic checks whether a machine answers, if its driver supports the check. It returns the host keys.
func (x *execution) checkStatic(ctx context.Context, provider string, node *resources.StaticNode) ([]string, error) {
	cloud, release, err := x.cloud(ctx, provider, nil)
	defer release()
	if err != nil {
		return nil, err
	}
	checker, ok := drivers.CheckerOf(cloud)
	if !ok {
		return nil, nil
	}
	return checker.Check(ctx, *node)
}

// staticNode returns a configured static node and its pool, or nil.
func staticNode(p *resources.Provider, pool, name string) (*resources.Pool, *resources.StaticNode) {
	if where := p.Pool(pool); where != nil {
		if node := where.Node(name); node != nil {
			return where, node
		}
	}
	return nil, nil
}
