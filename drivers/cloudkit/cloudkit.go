// Package cloudkit has the common parts of drivers of clouds beside the contract: errors of responses, the reader of their
// blocks, the newest list. It knows no cloud and no SDK. A driver keeps the parts of its cloud, such as the codes of errors.
package cloudkit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Decode reads a block of the configuration, see schema.Decode. Its error is an ErrRejected of which nothing was sent.
func Decode(config cty.Value, into any) error {
	if err := schema.Decode(config, into); err != nil {
		return drivers.Rejectf("%w", err)
	}
	return nil
}

// CheckAdoptable rejects an object with the ownership tags of another record than marks. The tags may equal replaced.
func CheckAdoptable(what, id string, found, marks, replaced resources.OwnerTags) error {
	if found.Installation == "" || found.SameRecord(marks) || found == replaced {
		return nil
	}
	return fmt.Errorf("%s %s: %w: it has %s", what, id, drivers.ErrNotOurs, drivers.DescribeOwner(found))
}

// NodepoolPrefix starts the names of the tags by which Nodepool finds its instances and images, which it deletes without a
// record in its ZooKeeper. So Adopt removes them.
const NodepoolPrefix = "nodepool_"

// NodepoolText describes Nodepool's tags, or returns "" if there are none.
func NodepoolText(tags map[string]string) string {
	provider := tags[NodepoolPrefix+"provider_name"]
	id := cmp.Or(tags[NodepoolPrefix+"node_id"], tags[NodepoolPrefix+"upload_id"])
	switch {
	case provider == "" && id == "":
		return ""
	case id == "":
		return "Nodepool, provider " + provider
	default:
		return fmt.Sprintf("Nodepool, provider %s, ID %s", provider, id)
	}
}

// PlannedValues returns the Values of a resources.ResolvedOffer: strings, numbers and lists of strings as JSON.
func PlannedValues(values map[string]any) map[string]string {
	texts := make(map[string]string, len(values))
	for name, value := range values {
		text, _ := json.Marshal(value)
		texts[name] = string(text)
	}
	return texts
}

// ConsoleBytes is the maximum size of the result of Console.
const ConsoleBytes = 64 << 10

// Console returns the newest lines of the console output of an instance for drivers.Console, as valid UTF-8.
func Console(output string) string {
	output = strings.ToValidUTF8(output, "\uFFFD")
	if len(output) <= ConsoleBytes {
		return output
	}
	output = output[len(output)-ConsoleBytes:]
	if _, rest, ok := strings.Cut(output, "\n"); ok {
		output = rest
	}
	return strings.ToValidUTF8(output, "")
}

// RecentList keeps the newest list of instances for the quota. Its zero value is usable.
type RecentList struct {
	mu   sync.Mutex
	at   time.Time            // guarded by mu
	list []resources.Instance // guarded by mu
}

// recent is the age up to which the quota uses a list: the reconciler lists instances right before it reads the quota.
const recent = 5 * time.Second

// Set stores a list that has just been made.
func (r *RecentList) Set(list []resources.Instance) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.list = time.Now(), list
}

// Used returns the resources of all instances by the newest list, or by list if the newest is not recent.
func (r *RecentList) Used(ctx context.Context, list func(context.Context) ([]resources.Instance, error)) (used resources.ResourceAmounts, err error) {
	r.mu.Lock()
	all, ok := r.list, time.Since(r.at) < recent
	r.mu.Unlock()
	if !ok {
		all, err = list(ctx)
	}
	for _, i := range all {
		used = used.Plus(i.Resources)
	}
	return used, err
}

// Limits returns the limits of a configuration; nil is no limit.
func Limits(instances, cores, ram *int64) resources.ResourceAmounts {
	limits := resources.NoLimits()
	for limit, configured := range map[*int64]*int64{&limits.Instances: instances, &limits.Cores: cores, &limits.RAM: ram} {
		if configured != nil {
			*limit = *configured
		}
	}
	return limits
}

// Earlier searches with Spec.MaybeCreated for the instance of an earlier call of Create. done means that Create returns the results.
func Earlier(spec drivers.Spec, find func() (resources.Instance, bool, error)) (found resources.Instance, done bool, err error) {
	if !spec.MaybeCreated {
		return resources.Instance{}, false, nil
	}
	if found, done, err = find(); err != nil {
		return resources.Instance{}, true, drivers.Unsent(err)
	}
	return found, done, nil
}

// CheckQuota returns an ErrQuota if the amounts exceed a limit.
func CheckQuota(limits, sum resources.ResourceAmounts) error {
	for i, name := range resources.Dimensions {
		if limit, n := limits.Of(resources.Dimension(i)), sum.Of(resources.Dimension(i)); limit >= 0 && n > limit {
			return drivers.Unsent(fmt.Errorf("%w: the limit of %s is %d, and the instances would have %d", drivers.ErrQuota, name, limit, n))
		}
	}
	return nil
}

// Transport returns a transport of a Cloud that applies WrapTransport of the environment and drivers.BoundBodies, and the function
// that closes its idle connections. tune, if not nil, changes the settings of net/http.
func Transport(env drivers.Env, tune func(*http.Transport)) (http.RoundTripper, func()) {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // of package net/http
	if tune != nil {
		tune(transport)
	}
	used := http.RoundTripper(transport)
	if env.WrapTransport != nil {
		used = env.WrapTransport(transport)
	}
	return drivers.BoundBodies(used), transport.CloseIdleConnections
}

// CloseIdle closes the idle connections of a Cloud, which embeds it.
type CloseIdle func()

// Close implements drivers.Cloud.
func (c CloseIdle) Close() error {
	c()
	return nil
}

// CheckFilled returns the check of a list that needs an element, such as "instance type such as t3.micro".
func CheckFilled(element string) schema.Check {
	return func(v cty.Value) error {
		if v.LengthInt() == 0 {
			return fmt.Errorf("the list is empty; write at least one %s", element)
		}
		return nil
	}
}

// CheckBytes returns the check of the length of a text, such as "user data", which a node receives.
func CheckBytes(what, service string, limit int) schema.Check {
	return func(v cty.Value) error {
		if n := len(v.AsString()); n > limit {
			return fmt.Errorf("%s has %d bytes, %s accepts %d; download the rest from the node instead", what, n, service, limit)
		}
		return nil
	}
}

// LeftoversOf converts the objects of a list, except those without ownership tags. It passes on the error of the list.
func LeftoversOf[T any](leftover func(T) resources.Leftover) func([]T, error) ([]resources.Leftover, error) {
	return func(all []T, err error) (found []resources.Leftover, _ error) {
		for _, one := range all {
			if l := leftover(one); l.Marks.Installation != "" {
				found = append(found, l)
			}
		}
		return found, err
	}
}

// CheckLeftover returns ErrNotOurs if a leftover, as it is now, must not be deleted: it has lost its ownership tags since it was listed, or
// it is in use, except by the server that the list named, of which a plan knows that it is gone.
func CheckLeftover(listed, now resources.Leftover) error {
	switch {
	case !now.Marks.SameRecord(listed.Marks), listed.Marks.Installation == "":
		return fmt.Errorf("delete %s %s: %w: its ownership tags changed after it was listed; npctl does not delete it", listed.Type, listed.ID, drivers.ErrNotOurs)
	case now.InUse && (!listed.InUse || now.Server == "" || now.Server != listed.Server):
		return fmt.Errorf("delete %s %s: %w: another object uses it; npctl does not delete it", listed.Type, listed.ID, drivers.ErrNotOurs)
	}
	return nil
}

// Table is a map that several goroutines use. Its zero value is an empty one.
type Table[K comparable, V any] struct {
	mu  sync.Mutex
	all map[K]V // guarded by mu
}

// Get returns the value of a key.
func (t *Table[K, V]) Get(key K) (V, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	value, ok := t.all[key]
	return value, ok
}

// Set stores the value of a key.
func (t *Table[K, V]) Set(key K, value V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[K]V{}
	}
	t.all[key] = value
}

// Delete removes a key.
func (t *Table[K, V]) Delete(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, key)
}

// DeleteUnless removes the keys that keep does not accept.
func (t *Table[K, V]) DeleteUnless(keep func(K) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.all, func(key K, _ V) bool { return !keep(key) })
}

// Replace replaces all keys. The caller must not change all afterwards.
func (t *Table[K, V]) Replace(all map[K]V) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = all
}
