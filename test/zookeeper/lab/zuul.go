package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Request is a node request of Zuul. The peer sets zero members: priority 200, tenant acme, pipeline check, job unit.
type Request struct {
	Labels           []string `json:"labels"`
	Priority         int      `json:"priority,omitempty"`
	RelativePriority int      `json:"relative_priority,omitempty"`
	Provider         string   `json:"provider,omitempty"`
	Tenant           string   `json:"tenant,omitempty"`
	Pipeline         string   `json:"pipeline,omitempty"`
	Job              string   `json:"job,omitempty"`
}

// Submitted is a request that was sent. RequestorData is the sent data, by which Zuul finds the job of the request.
type Submitted struct {
	ID            string          `json:"request"`
	RequestorData json.RawMessage `json:"requestor_data"`
}

// Outcome is how a request ended: fulfilled, failed, or deleted.
type Outcome struct {
	State         string          `json:"state"`
	Nodes         []string        `json:"nodes"`
	RequestorData json.RawMessage `json:"requestor_data"`
}

// Held is one request of a run, with the times between which its nodes were held.
type Held struct {
	Request  string  `json:"request"`
	State    string  `json:"state"`
	Error    string  `json:"error"`
	Nodes    []Used  `json:"nodes"`
	Latency  float64 `json:"latency"`  // seconds
	Held     float64 `json:"held"`     // seconds since the epoch; 0 if the nodes were never held
	Returned float64 `json:"returned"` // seconds since the epoch
	Gone     float64 `json:"gone"`     // seconds from the return until no record is left
}

// Used is a node of a run.
type Used struct {
	ID          string          `json:"id"`
	Provider    string          `json:"provider"`
	Type        []string        `json:"type"`
	ExternalID  json.RawMessage `json:"external_id"`
	Hostname    string          `json:"hostname"`
	InterfaceIP string          `json:"interface_ip"`
	Slot        *int            `json:"slot"`
}

// Run configures concurrent clients. Each client makes Each requests one after the other and keeps the nodes for Use.
type Run struct {
	Labels  []string
	Clients int
	Each    int
	Use     time.Duration
	Timeout time.Duration // for each request; a minute when 0
}

// Record is a znode with its data and metadata.
type Record struct {
	Data     string `json:"data"`
	Version  int    `json:"version"`
	Mzxid    int64  `json:"mzxid"`
	Owner    int64  `json:"owner"`
	Children int    `json:"children"`
}

// Hello identifies a peer.
type Hello struct {
	System  string `json:"system"` // the requestor of its requests
	Session int64  `json:"session"`
	State   string `json:"state"` // kazoo's: CONNECTED, SUSPENDED, LOST
	Zuul    string `json:"zuul"`
	Kazoo   string `json:"kazoo"`
}

// Pool is a registered pool.
type Pool struct {
	ID     string   `json:"id"`
	Labels []string `json:"labels"`
}

type members = map[string]any

// Hello returns the identity of the peer and the state of its session.
func (p *Peer) Hello(ctx context.Context) (Hello, error) { return ask[Hello](ctx, p, "hello", nil) }

// Request sends a request as the scheduler does.
func (p *Peer) Request(ctx context.Context, r Request) (Submitted, error) {
	given, err := toMembers(r)
	if err != nil {
		return Submitted{}, err
	}
	return ask[Submitted](ctx, p, "request", given)
}

// Wait waits until the scheduler receives the end of a request. It receives each end once.
func (p *Peer) Wait(ctx context.Context, request string, timeout time.Duration) (Outcome, error) {
	return ask[Outcome](ctx, p, "wait", members{"request": request, "timeout": timeout.Seconds()})
}

// Revise changes the relative priority, and reports whether it could: a locked request cannot.
func (p *Peer) Revise(ctx context.Context, request string, relativePriority int) (bool, error) {
	a, err := ask[struct{ Revised bool }](ctx, p, "revise", members{"request": request, "relative_priority": relativePriority})
	return a.Revised, err
}

// Cancel deletes a request.
func (p *Peer) Cancel(ctx context.Context, request string) error {
	return p.Do(ctx, "cancel", members{"request": request}, nil)
}

// Accept locks the nodes of a fulfilled request, within 30 s each, deletes the request, and returns the nodes in Zuul's
// form. The member "label" has the requested label.
func (p *Peer) Accept(ctx context.Context, request string) ([]map[string]any, error) {
	a, err := ask[struct{ Nodes []map[string]any }](ctx, p, "accept", members{"request": request})
	return a.Nodes, err
}

// Use sets the nodes of an accepted request to in-use.
func (p *Peer) Use(ctx context.Context, request string) error {
	return p.Do(ctx, "use", members{"request": request}, nil)
}

// Return sets nodes that are in use to used, and unlocks them.
func (p *Peer) Return(ctx context.Context, request string) error {
	return p.Do(ctx, "return", members{"request": request}, nil)
}

// Hold ends a build and keeps its nodes for the given time (0 means indefinitely), and returns Zuul's hold request.
func (p *Peer) Hold(ctx context.Context, request, reason string, expiration time.Duration) (string, error) {
	given := members{"request": request, "reason": reason, "expiration": int(expiration.Seconds())}
	a, err := ask[struct{ Hold string }](ctx, p, "hold", given)
	return a.Hold, err
}

// EndHold deletes a hold request: its nodes become used.
func (p *Peer) EndHold(ctx context.Context, hold string) error {
	return p.Do(ctx, "end_hold", members{"hold": hold}, nil)
}

// Launchers returns the registered pools.
func (p *Peer) Launchers(ctx context.Context) ([]Pool, error) {
	return ask[[]Pool](ctx, p, "launchers", nil)
}

// AwaitPools waits until exactly count pools are registered.
func (p *Peer) AwaitPools(ctx context.Context, count int) ([]Pool, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		pools, err := p.Launchers(ctx)
		if err != nil || len(pools) == count {
			return pools, err
		}
		select {
		case <-ctx.Done():
			return pools, fmt.Errorf("%d pools are registered, want %d: %v", len(pools), count, pools)
		case <-again.C:
		}
	}
}

// Run runs concurrent clients and returns the result of each request.
func (p *Peer) Run(ctx context.Context, r Run) ([]Held, error) {
	timeout := r.Timeout
	if timeout == 0 {
		timeout = time.Minute
	}
	a, err := ask[struct{ Requests []Held }](ctx, p, "run", members{"labels": r.Labels, "clients": r.Clients, "each": r.Each,
		"use": r.Use.Seconds(), "timeout": timeout.Seconds()})
	return a.Requests, err
}

// AwaitConnected waits until the server answers, in the same session or a new one.
func (p *Peer) AwaitConnected(ctx context.Context) (Hello, error) {
	return ask[Hello](ctx, p, "connect", nil)
}

// Cut closes the connection under the session.
func (p *Peer) Cut(ctx context.Context) error { return p.Do(ctx, "cut", nil, nil) }

// Expire ends the session, as the server does when a client does not respond: its locks are lost.
func (p *Peer) Expire(ctx context.Context) error { return p.Do(ctx, "expire", nil, nil) }

func ask[T any](ctx context.Context, p *Peer, command string, given members) (T, error) {
	var result T
	err := p.Do(ctx, command, given, &result)
	return result, err
}

func toMembers(v any) (members, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var m members
	return m, json.Unmarshal(text, &m)
}
