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

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

const (
	// verifyAfter is how long a successful check of a node is valid.
	verifyAfter = 30 * time.Second
	// verifyTimeout bounds the checks of all nodes of a request together, because its requestor waits for them.
	verifyTimeout = 5 * time.Second
)

// unverified returns the nodes that a step assigns and that were last checked more than verifyAfter ago. It omits nodes
// that were never checked because their configuration disables the check.
func (x *execution) unverified(s plan.Step) (nodes []*resources.Node) {
	if s.Action != plan.ActionServe {
		return nil
	}
	for _, id := range s.Nodes {
		n, ok := get[resources.Node](x.cache, resources.Key{Kind: resources.KindNode, ID: id})
		if ok && n.State == resources.StateReady && n.Request == "" && !n.VerifiedAt.IsZero() && x.Now().Sub(n.VerifiedAt) > verifyAfter {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// verify checks whether the nodes still answer, and takes silent nodes out of service. If there are any, it returns
// errChanged, because the plan is outdated.
func (x *execution) verify(ctx context.Context, nodes []*resources.Node) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	silent := make([]error, len(nodes))
	done := make(chan struct{})
	for i, n := range nodes {
		go func() {
			silent[i] = x.probeNode(ctx, n)
			done <- struct{}{}
		}()
	}
	for range nodes {
		<-done
	}
	var errs []error
	for i, before := range nodes {
		n, at := find[resources.Node](x.cache, before.Key())
		if n == nil || n.State != resources.StateReady || n.Request != "" {
			return fmt.Errorf("node %s: %w", before.ID, errChanged)
		}
		n.VerifiedAt = x.Now()
		if silent[i] != nil {
			x.Log.Warn("a ready node does not respond and is not assigned", "node", n.ID, "error", silent[i])
			n.StateTime, n.Error, n.Comment = x.Now(), silent[i].Error(), "it did not respond to the check before its assignment"
			if n.State = resources.StateUsed; n.Static { // it is checked again later; any other node is deleted
				n.State = resources.StateFailed
				n.Attempt++
			}
			errs = append(errs, fmt.Errorf("node %s: %w: %w", n.ID, errChanged, silent[i]))
		}
		if err := x.cache.replace(ctx, state.Op{Record: n, Revision: at}); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// probeNode returns the reason why a node must not be assigned, or nil.
func (x *execution) probeNode(ctx context.Context, n *resources.Node) error {
	if n.Static {
		provider, ok := x.provider(n.Provider)
		if !ok {
			return nil
		}
		_, machine := staticNode(provider, n.Pool, n.Hostname)
		if machine == nil {
			return nil // a node that is no longer configured may still be assigned
		}
		_, err := x.checkStatic(ctx, n.Provider, machine)
		return err
	}
	how := probeOf(n.Login)
	if how == probeNone {
		return nil
	}
	port := cmp.Or(n.Login.ConnectionPort, defaultPorts[how])
	keys, err := x.probe(ctx, how, net.JoinHostPort(n.Addresses.Interface, strconv.FormatInt(port, 10)))
	if err != nil {
		return err
	}
	if len(n.HostKeys) > 0 && !slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(n.HostKeys, key) }) {
		return errors.New("its host keys have changed since its launch")
	}
	return nil
}
