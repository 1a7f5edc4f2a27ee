package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/resources"
)

// pageSize is the number of entries that the client requests per page of a list.
const pageSize = 5000

// CreateRequest creates a request for nodes.
func (c *Client) CreateRequest(ctx context.Context, r wire.NewRequest) (wire.Request, error) {
	return fetch[wire.Request](ctx, c, http.MethodPost, at("requests"), nil, r)
}

// Request returns a request.
func (c *Client) Request(ctx context.Context, id string) (wire.Request, error) {
	return fetch[wire.Request](ctx, c, http.MethodGet, at("requests", id), nil, nil)
}

// WaitRequest returns a request when it is fulfilled or failed. It waits for a daemon that restarts.
func (c *Client) WaitRequest(ctx context.Context, id string) (r wire.Request, err error) {
	err = retryWhileRestarting(ctx, func() (bool, error) {
		now, err := fetch[wire.Request](ctx, c, http.MethodGet, at("requests", id), waiting(nil, longestWait), nil)
		if err == nil {
			r = now
		}
		return err == nil && r.IsDone(), err
	})
	return r, err
}

// Requests lists requests, sorted by ID.
func (c *Client) Requests(ctx context.Context, f wire.RequestFilter) (all []wire.Request, err error) {
	query := values("state", strings.Join(f.States, ","), "label", f.Label, "tenant", f.Tenant, "requestor", f.Requestor)
	err = pages(query, func() (string, error) {
		page, err := fetch[wire.Requests](ctx, c, http.MethodGet, at("requests"), query, nil)
		all = append(all, page.Requests...)
		return page.Next, err
	})
	return all, err
}

// CancelRequest cancels a request.
func (c *Client) CancelRequest(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, at("requests", id), nil, nil, nil)
}

// TakeRequest takes the nodes of a fulfilled request.
func (c *Client) TakeRequest(ctx context.Context, id, holder string, lease time.Duration) ([]wire.Node, error) {
	taken, err := fetch[wire.Nodes](ctx, c, http.MethodPost, at("requests", id, "take"), nil, wire.Take{Holder: holder, Lease: int64((lease + time.Second - 1) / time.Second)})
	return taken.Nodes, err
}

// Nodes lists nodes, sorted by ID.
func (c *Client) Nodes(ctx context.Context, f wire.NodeFilter) (all []wire.Node, err error) {
	query := values("state", strings.Join(f.States, ","), "label", f.Label, "provider", f.Provider, "pool", f.Pool, "request", f.Request, "tenant", f.Tenant)
	err = pages(query, func() (string, error) {
		page, err := fetch[wire.Nodes](ctx, c, http.MethodGet, at("nodes"), query, nil)
		all = append(all, page.Nodes...)
		return page.Next, err
	})
	return all, err
}

// Node returns a node.
func (c *Client) Node(ctx context.Context, id string) (wire.Node, error) {
	return fetch[wire.Node](ctx, c, http.MethodGet, at("nodes", id), nil, nil)
}

// WaitNode returns a node when it is in one of the states. It waits for a daemon that restarts.
func (c *Client) WaitNode(ctx context.Context, id string, states ...resources.State) (n wire.Node, err error) {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	err = retryWhileRestarting(ctx, func() (bool, error) {
		now, err := fetch[wire.Node](ctx, c, http.MethodGet, at("nodes", id), waiting(values("state", strings.Join(words, ",")), longestWait), nil)
		if err != nil {
			return false, err
		}
		n = now
		return slices.Contains(states, n.State), nil
	})
	return n, err
}

// node performs an action on a node.
func (c *Client) node(ctx context.Context, id, what string, send any) (wire.Node, error) {
	return fetch[wire.Node](ctx, c, http.MethodPost, at("nodes", id, what), nil, send)
}

// AccessNode returns the credentials of a node in use.
func (c *Client) AccessNode(ctx context.Context, id, holder string) (wire.Access, error) {
	return fetch[wire.Access](ctx, c, http.MethodGet, at("nodes", id, "access"), values("holder", holder), nil)
}

// RenewNode prolongs the lease of a node in use.
func (c *Client) RenewNode(ctx context.Context, id, holder string) (wire.Node, error) {
	return c.node(ctx, id, "renew", wire.Renew{Holder: holder})
}

// ReturnNode returns a node after use.
func (c *Client) ReturnNode(ctx context.Context, id string) (wire.Node, error) {
	return c.node(ctx, id, "return", nil)
}

// HoldNode holds a node for debugging. A zero until means the maximum time that the configuration allows.
func (c *Client) HoldNode(ctx context.Context, id, reason string, until time.Time) (wire.Node, error) {
	return c.node(ctx, id, "hold", wire.Hold{Reason: reason, Until: until})
}

// ReleaseNode ends a hold.
func (c *Client) ReleaseNode(ctx context.Context, id string) (wire.Node, error) {
	return c.node(ctx, id, "release", nil)
}

// DeleteNode gives up a node. The daemon deletes it, or checks and reuses a static node.
func (c *Client) DeleteNode(ctx context.Context, id, reason string, force bool) (n wire.Node, err error) {
	query := values("reason", reason)
	if force {
		query.Set("force", "true")
	}
	err = c.call(ctx, http.MethodDelete, at("nodes", id), query, nil, &n)
	return n, err
}

// Labels lists labels with the pools that offer them.
func (c *Client) Labels(ctx context.Context) ([]wire.Label, error) {
	list, err := fetch[wire.Labels](ctx, c, http.MethodGet, at("labels"), nil, nil)
	return list.Labels, err
}

// Images lists images with their builds and uploads.
func (c *Client) Images(ctx context.Context) ([]wire.Image, error) {
	list, err := fetch[wire.Images](ctx, c, http.MethodGet, at("images"), nil, nil)
	return list.Images, err
}

// PauseImage stops builds of an image.
func (c *Client) PauseImage(ctx context.Context, name, reason string) (wire.Image, error) {
	return fetch[wire.Image](ctx, c, http.MethodPost, at("images", name, "pause"), nil, wire.Pause{Reason: reason})
}

// UnpauseImage allows builds of an image again.
func (c *Client) UnpauseImage(ctx context.Context, name string) (wire.Image, error) {
	return fetch[wire.Image](ctx, c, http.MethodPost, at("images", name, "unpause"), nil, nil)
}

// Providers lists providers.
func (c *Client) Providers(ctx context.Context) ([]wire.Provider, error) {
	list, err := fetch[wire.Providers](ctx, c, http.MethodGet, at("providers"), nil, nil)
	return list.Providers, err
}

// FreezeProvider stops all actions in a provider.
func (c *Client) FreezeProvider(ctx context.Context, name string) (wire.Provider, error) {
	return fetch[wire.Provider](ctx, c, http.MethodPost, at("providers", name, "freeze"), nil, nil)
}

// ThawProvider ends a freeze of a provider.
func (c *Client) ThawProvider(ctx context.Context, name string) (wire.Provider, error) {
	return fetch[wire.Provider](ctx, c, http.MethodPost, at("providers", name, "thaw"), nil, nil)
}

// Steps lists the running steps.
func (c *Client) Steps(ctx context.Context) ([]wire.Step, error) {
	list, err := fetch[wire.Steps](ctx, c, http.MethodGet, at("steps"), nil, nil)
	return list.Steps, err
}

// Events returns the events after a cursor, or the newest events if after is empty.
func (c *Client) Events(ctx context.Context, after, subject string, limit int) (e wire.Events, err error) {
	query := values("after", after, "subject", subject)
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	err = c.call(ctx, http.MethodGet, at("events"), query, nil, &e)
	return e, err
}

// Follow calls tell for each event after a cursor. It returns when ctx is done or tell returns an error, and waits for
// a daemon that restarts.
func (c *Client) Follow(ctx context.Context, after, subject string, tell func(wire.Event) error) error {
	return retryWhileRestarting(ctx, func() (bool, error) {
		e, err := fetch[wire.Events](ctx, c, http.MethodGet, at("events"), waiting(values("after", after, "subject", subject), longestWait), nil)
		if err != nil {
			return false, err
		}
		after = e.Next
		for _, one := range e.Events {
			if err := tell(one); err != nil {
				return true, err
			}
		}
		return false, nil
	})
}

// Why explains the state of an object.
func (c *Client) Why(ctx context.Context, subject string) (wire.Why, error) {
	return fetch[wire.Why](ctx, c, http.MethodGet, at("why"), values("subject", subject), nil)
}

// Snapshot returns a snapshot, see package plan/snapshot.
func (c *Client) Snapshot(ctx context.Context) (json.RawMessage, error) {
	return fetch[json.RawMessage](ctx, c, http.MethodGet, at("snapshot"), nil, nil)
}

// Status returns a summary of the daemon's state.
func (c *Client) Status(ctx context.Context) (wire.Status, error) {
	return fetch[wire.Status](ctx, c, http.MethodGet, at("status"), nil, nil)
}

// Reload makes the daemon reload its configuration.
func (c *Client) Reload(ctx context.Context, o wire.Reload) (wire.Reloaded, error) {
	return fetch[wire.Reloaded](ctx, c, http.MethodPost, at("reload"), nil, o)
}

// Ready reports whether the daemon has listed all its providers at least once.
func (c *Client) Ready(ctx context.Context) (ready bool, err error) {
	err = c.call(ctx, http.MethodGet, "/readyz", nil, nil, nil)
	var no *Error
	if errors.As(err, &no) && no.Status == http.StatusServiceUnavailable {
		return false, nil
	}
	return err == nil, err
}

// values returns a query of pairs of names and values, without empty values.
func values(pairs ...string) url.Values {
	query := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return query
}

// pages calls get for each page of a list.
func pages(query url.Values, get func() (next string, err error)) error {
	query.Set("limit", strconv.Itoa(pageSize))
	for {
		next, err := get()
		if err != nil || next == "" {
			return err
		}
		query.Set("after", next)
	}
}
