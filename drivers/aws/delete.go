package aws

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Delete implements drivers.Cloud. Deletions that start at about the same time share one DescribeInstances, which reads
// the ownership tags, and one TerminateInstances. EC2 deletes the root volume and the network interface, List deletes the dedicated
// host and the launch template without instances.
func (c *Cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	return c.deletion.do(ctx, id, expected)
}

// deleteBatch deletes instances and stores the error of each.
func (c *Cloud) deleteBatch(ctx context.Context, batch []*deleteOrder) {
	fail := func(err error, orders []*deleteOrder) {
		for _, o := range orders {
			o.err = err
		}
	}
	var ids []string
	for _, o := range batch {
		ids = append(ids, o.id)
	}
	found, err := c.describe(ctx, []types.Filter{filter("instance-id", ids...)})
	if err != nil {
		fail(err, batch)
		return
	}
	byID := map[string]types.Instance{}
	for _, i := range found {
		byID[aws.ToString(i.InstanceId)] = i
	}
	var ours []*deleteOrder
	for _, o := range batch {
		i, exists := byID[o.id]
		if !exists || i.State != nil && i.State.Name == types.InstanceStateNameTerminated {
			c.endings.forget(o.id)
			c.end(i)
			continue
		}
		if o.err = drivers.CheckOwner("instance", o.id, drivers.DecodeTags(tagMap(i.Tags)), o.expected); o.err == nil {
			ours = append(ours, o)
		}
	}
	defer func() {
		for _, o := range ours {
			if o.err == nil {
				c.end(byID[o.id])
			}
		}
	}()
	if err := c.terminate(ctx, ours); err == nil || len(ours) == 1 || errors.Is(err, drivers.ErrThrottled) || errors.Is(err, drivers.ErrUnavailable) {
		fail(err, ours)
		return
	}
	for _, o := range ours { // EC2 deletes all or none: a protected instance must not keep the others
		o.err = c.terminate(ctx, []*deleteOrder{o})
	}
}

// end notes the objects that List deletes after a deleted instance.
func (c *Cloud) end(i types.Instance) {
	c.ended.add(i)
	c.templates.end(i)
}

// terminate deletes instances with one call.
func (c *Cloud) terminate(ctx context.Context, orders []*deleteOrder) error {
	if len(orders) == 0 {
		return nil
	}
	var ids []string
	for _, o := range orders {
		ids = append(ids, o.id)
	}
	_, err := c.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
	if err = wrap("delete instances", err); err == nil {
		for _, id := range ids {
			c.endings.forget(id)
		}
		return nil
	}
	if isMissing(err) && len(ids) == 1 {
		return nil
	}
	return err
}

// The size and the collecting time of a batch.
const (
	maxBatch    = 50
	batchWindow = 100 * time.Millisecond
)

// deleteOrder is one call of Delete.
type deleteOrder struct {
	id       string
	expected resources.OwnerTags
	err      error // set when the batch is done
}

// deletion collects calls of Delete in batches.
type deletion struct {
	execute func(context.Context, []*deleteOrder)
	running sync.WaitGroup

	mu   sync.Mutex
	open *deleteBatch // guarded by mu; the batch that still collects
}

type deleteBatch struct {
	orders []*deleteOrder // guarded by deletion.mu until full is closed
	full   chan struct{}
	done   chan struct{}
}

func newDeletion(execute func(context.Context, []*deleteOrder)) *deletion {
	return &deletion{execute: execute}
}

// do adds an order to a batch and waits for the end of the batch.
func (d *deletion) do(ctx context.Context, id string, expected resources.OwnerTags) error {
	if err := context.Cause(ctx); err != nil {
		return unsentError{err}
	}
	order := &deleteOrder{id: id, expected: expected}
	batch := d.join(ctx, order)
	select {
	case <-batch.done:
		return order.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// join adds an order to the open batch, or opens one. The batch outlives a caller that stops waiting: the others still
// wait. The limit of time is that of the caller that opened it.
func (d *deletion) join(ctx context.Context, order *deleteOrder) *deleteBatch {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.open; b != nil {
		if b.orders = append(b.orders, order); len(b.orders) == maxBatch {
			d.open = nil
			close(b.full)
		}
		return b
	}
	b := &deleteBatch{orders: []*deleteOrder{order}, full: make(chan struct{}), done: make(chan struct{})}
	d.open = b
	limit := sharedLimit
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), limit, errBatchTimeout)
	d.running.Go(func() {
		defer cancel()
		d.run(ctx, b)
	})
	return b
}

var errBatchTimeout = errors.New("the calls of a batch of deletions took too long")

func (d *deletion) run(ctx context.Context, b *deleteBatch) {
	select {
	case <-b.full:
	case <-time.After(batchWindow):
		d.mu.Lock()
		if d.open == b {
			d.open = nil
		}
		d.mu.Unlock()
	}
	d.execute(ctx, b.orders)
	close(b.done)
}

func (d *deletion) wait() { d.running.Wait() }
