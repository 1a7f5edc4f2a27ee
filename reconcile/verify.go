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
	// verifyAfter is how long it is believed that a machine which has answered still does.
	verifyAfter = 30 * time.Second
	// verifyTimeout is for all machines of a request together: somebody waits for them.
	verifyTimeout = 5 * time.Second
)

// unverified lists the nodes that a step gives away and that nobody has looked at for a while. Those that never were,
// because their configuration forbids it, are none of them.
func (x *execution) unverified(s plan.Step) (nodes []*resources.Node) {
	if s.Action != plan.ActionServe {
		return nil
	}
	for _, id := range s.Nodes {
		n, ok := get[resources.Node](x.ledger, resources.Key{Kind: resources.KindNode, ID: id})
		if ok && n.State == resources.StateReady && n.Request == "" && !n.Checked.IsZero() && x.Now().Sub(n.Checked) > verifyAfter {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// verify looks whether machines still answer, and sorts out those that do not: the plan was made for others.
func (x *execution) verify(ctx context.Context, nodes []*resources.Node) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	silent := make([]error, len(nodes))
	done := make(chan struct{})
	for i, n := range nodes {
		go func() {
			silent[i] = x.answers(ctx, n)
			done <- struct{}{}
		}()
	}
	for range nodes {
		<-done
	}
	var errs []error
	for i, before := range nodes {
		n, at := find[resources.Node](x.ledger, before.Key())
		if n == nil || n.State != resources.StateReady || n.Request != "" {
			return fmt.Errorf("node %s: %w", before.ID, errChanged)
		}
		n.Checked = x.Now()
		if silent[i] != nil {
			x.sortOut(n, silent[i])
			errs = append(errs, fmt.Errorf("node %s: %w: %w", n.ID, errChanged, silent[i]))
		}
		if err := x.ledger.replace(ctx, state.Op{Record: n, Revision: at}); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sortOut takes a machine that does not answer out of service: one that exists anyway is looked at again later, any other
// is removed.
func (x *execution) sortOut(n *resources.Node, why error) {
	x.Log.Warn("a ready node does not answer and is not given away", "node", n.ID, "error", why)
	n.StateTime, n.Error, n.Comment = x.Now(), why.Error(), "it did not answer when it was to be given away"
	if n.Static {
		n.State = resources.StateFailed
		n.Attempt++
		return
	}
	n.State = resources.StateUsed
}

// answers reports why a machine is not to be given away.
func (x *execution) answers(ctx context.Context, n *resources.Node) error {
	if n.Static {
		_, machine, err := x.staticNode(plan.Step{Provider: n.Provider, Pool: n.Pool, Node: n.Hostname})
		if err != nil {
			return nil //nolint:nilerr // it is configured no more, which is no reason to take it from who waits
		}
		_, err = x.checkStatic(ctx, n.Provider, machine)
		return err
	}
	how := loginReach(n.Login)
	if how == notReached {
		return nil
	}
	port := cmp.Or(n.Login.ConnectionPort, defaultPorts[how])
	keys, err := x.knock(ctx, how, net.JoinHostPort(n.Addresses.Interface, strconv.FormatInt(port, 10)))
	if err != nil {
		return err
	}
	if len(n.HostKeys) > 0 && !slices.ContainsFunc(keys, func(key string) bool { return slices.Contains(n.HostKeys, key) }) {
		return errors.New("its host keys are others than at its launch")
	}
	return nil
}
