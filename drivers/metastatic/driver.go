// Package metastatic is the driver of nodes that are slots on other nodes.
//
// A backing node is a node of another provider of the same npctl, which the driver obtains by an ordinary request and
// which is in use by the driver while it has slots. The ID of a slot is REQUEST-NUMBER: the backing node keeps the ID of
// the request from which it came. All state is in records: the requests, the backing nodes, and the nodes that name a
// slot. A slot that no record names is free, so nothing has to be recovered after a crash.
package metastatic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Driver is the metastatic driver.
type Driver struct {
	mu       sync.Mutex
	reserved map[string]*reservations // by installation and provider: after a reload a provider may be open twice
}

var _ drivers.Driver = (*Driver)(nil)

// New returns the driver.
func New() *Driver { return &Driver{reserved: map[string]*reservations{}} }

// Kind implements drivers.Driver.
func (*Driver) Kind() string { return "metastatic" }

// Open implements drivers.Driver. It makes no connection.
func (d *Driver) Open(ctx context.Context, env drivers.Env, _ cty.Value) (drivers.Cloud, error) {
	if env.Nodes == nil {
		return nil, fmt.Errorf("%w: there is no source of backing nodes here", drivers.ErrRejected)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := env.Installation + "\x00" + env.Provider
	if d.reserved[key] == nil {
		d.reserved[key] = newReservations()
	}
	return &Cloud{kind: d.Kind(), env: env, reserved: d.reserved[key], now: time.Now}, ctx.Err()
}

// Cloud is the slots of a provider.
type Cloud struct {
	kind     string
	env      drivers.Env
	reserved *reservations
	now      func() time.Time
}

var (
	_ drivers.Cloud    = (*Cloud)(nil)
	_ drivers.Resolver = (*Cloud)(nil)
	_ drivers.NodeUser = (*Cloud)(nil)
)

// Close implements drivers.Cloud.
func (*Cloud) Close() error { return nil }

// Quota implements drivers.Cloud. The quotas of the backing providers limit the backing nodes.
func (*Cloud) Quota(ctx context.Context) (resources.Quota, error) {
	return resources.Quota{Limit: resources.NoLimits()}, ctx.Err()
}

var errNotServed = errors.New("no backing node has a free slot, and only npctl watch requests another one")
