package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/requestvalues"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state"
)

// launchTimeout is the time limit of a launch attempt if launch_timeout is not set.
const launchTimeout = time.Hour

// The time limits that end a launch attempt.
var (
	ErrLaunchTimeout = errors.New("not ready within launch_timeout")     // the limit of the whole attempt
	ErrBootTimeout   = errors.New("does not answer within boot_timeout") // the instance exists and does not answer
)

// nodeLaunch is the launch of one node, from its intent to its ready state.
type nodeLaunch struct {
	x          *execution
	step       plan.Step
	provider   *resources.Provider
	pool       *resources.Pool
	offer      *resources.Offer
	resolved   plan.OfferView // the offer, as the cloud resolves it
	attempts   int64          // maximum number of attempts
	cloud      drivers.Cloud
	node       *resources.Node
	started    time.Time
	acceptedAt time.Time          // when the cloud had accepted the creation
	created    resources.Instance // as the cloud returned it at acceptedAt
	properties map[string]string  // with the values of the request

	isReplacement bool // the node replaces a node that this run failed to launch
}

// unreachableBackoff is the first pause before a plan that is executed once retries a provider that does not respond. A
// daemon plans its retries.
const unreachableBackoff = 5 * time.Second

// launch creates a node, or resumes the launch of an earlier run.
func (x *execution) launch(ctx context.Context, s plan.Step) (string, error) {
	l, err := x.intendLaunch(ctx, s)
	if err != nil {
		return "", err
	}
	return l.finish(ctx)
}

// finish launches the node and returns the ID of its record. While the provider does not respond, an apply makes up to
// launch_attempts tries; after that, the next run resumes the node.
func (l *nodeLaunch) finish(ctx context.Context) (string, error) {
	pause := unreachableBackoff
	for left := l.attempts; ; left-- {
		err := l.run(ctx)
		if l.x.continuous || left <= 1 || !errors.Is(err, ErrProviderUnreachable) {
			return l.node.ID, err
		}
		if waits.Sleep(ctx, pause) != nil {
			return l.node.ID, ErrInterrupted
		}
		pause *= 2
	}
}

// intendLaunch writes the record of the node that run launches, in a provider, pool and offer of the configuration.
func (x *execution) intendLaunch(ctx context.Context, s plan.Step) (*nodeLaunch, error) {
	l := &nodeLaunch{x: x, step: s, started: x.Now()}
	var ok bool
	if l.provider, ok = x.Desired.Provider(s.Provider); !ok {
		return nil, fmt.Errorf("provider %s is not configured", s.Provider)
	}
	if l.pool = l.provider.Pool(s.Pool); l.pool != nil {
		l.offer = l.pool.Offer(s.Label)
	}
	if l.offer == nil {
		return nil, fmt.Errorf("pool %s of provider %s does not offer label %s", s.Pool, s.Provider, s.Label)
	}
	l.resolved = x.seen.Providers[s.Provider].Offers[plan.OfferKey{Pool: s.Pool, Label: s.Label}]
	l.attempts = max(l.provider.LaunchAttempts, 1)
	if err := l.intend(ctx); err != nil {
		return l, err
	}
	return l, l.fillProperties()
}

// fillProperties fills the placeholders of request_properties.
func (l *nodeLaunch) fillProperties() error {
	var from drivers.RequestProperties
	if err := schema.Decode(l.offer.Config, &from); err != nil {
		return fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	var r *resources.Request
	if l.node.Request != "" {
		var ok bool
		if r, ok = get[resources.Request](l.x.cache, resources.Key{Kind: resources.KindRequest, ID: l.node.Request}); !ok { // canceled since
			r = &resources.Request{ID: l.node.Request, Labels: l.node.Labels, Tenant: l.node.Tenant, Requestor: l.node.Requestor}
		}
	}
	l.properties = map[string]string{}
	for key, template := range from.RequestProperties {
		l.properties[key] = requestvalues.Fill(template, r)
	}
	return nil
}

// run makes attempts until the node is ready or no attempt is left.
func (l *nodeLaunch) run(ctx context.Context) error {
	cloud, release, err := l.x.cloud(ctx, l.provider.Name, nil)
	defer release()
	if l.cloud = cloud; isUnreachable(err) {
		return l.postpone(ctx, err)
	} else if err != nil {
		return l.giveUp(ctx, err)
	}
	for {
		if err := l.awaitCapacity(ctx); errors.Is(err, drivers.ErrQuota) {
			return l.giveUp(ctx, fmt.Errorf("launch node %s: %w", l.node.ID, err))
		} else if err != nil {
			return ErrInterrupted
		}
		err := l.attempt(ctx)
		if errors.Is(err, drivers.ErrCapacity) {
			l.x.shortages.Add(l.address(), l.node.Zone)
		}
		switch {
		case err == nil:
			l.x.shortages.Remove(l.address(), l.node.Zone)
			if l.node.Validates == "" {
				l.x.books.recordDuration("launch/"+l.step.Provider+"/"+l.step.Label, l.node.Seconds)
			}
			return nil
		case l.x.cache.claims.isDisconnected(err):
			return fmt.Errorf("%w: %w", ErrInterrupted, err)
		case errors.Is(err, errChanged) && l.node.ExternalID == "":
			return err
		case ctx.Err() != nil:
			return ErrInterrupted // the record stays building; the next run resumes it
		case isUnreachable(err):
			return l.postpone(ctx, err)
		}
		if path := l.console(ctx); path != "" {
			err = fmt.Errorf("%w (console: %s)", err, path)
		}
		made := l.node.Attempt - l.node.UnansweredAttempts - l.node.ReturnedAttempts
		l.log("launch attempt failed", "node", l.node.ID, "attempt", made, "error", err)
		if err := l.failed(ctx, err, made); err != nil {
			return err
		}
	}
}

// log logs a warning of a daemon. The events of an apply report the same.
func (l *nodeLaunch) log(message string, facts ...any) {
	level := slog.LevelDebug
	if l.x.continuous {
		level = slog.LevelWarn
	}
	l.x.Log.Log(context.Background(), level, message, facts...)
}

// failed ends a failed attempt, and the launch without an error if another attempt is to follow. When launches return to an
// older build, attempts from the newer one do not count.
func (l *nodeLaunch) failed(ctx context.Context, cause error, made int64) error {
	if l.step.Kind == plan.KindValidate {
		return l.testFailed(ctx, cause, made)
	}
	trial := l.countLaunch(ctx, cause)
	defer trial.release()
	returns := trial.boot.IsReturn() && trial.boot.Upload.ID != l.node.Upload
	if !returns && (made >= l.attempts || rejected(cause) || errors.Is(cause, drivers.ErrQuota)) {
		return l.giveUp(ctx, fmt.Errorf("launch node %s, attempt %d of %d: %w", l.node.ID, made, l.attempts, cause), trial.changed...)
	}
	event := Event{Kind: EventRetry, Step: l.step, ID: l.node.ID, Err: cause, Done: made, Total: l.attempts}
	next := *l.node
	if returns {
		event.Return, event.Step.Image = trial.boot.Upload.Build, trial.boot.Upload.Image
		l.log("launches return to an older build", "image", event.Step.Image, "provider", l.provider.Name, "build", event.Return, "failed", trial.boot.Bad[0].Build)
		bootFrom(&next, trial.boot.Upload)
		next.ReturnedAttempts = next.Attempt - next.UnansweredAttempts
	}
	l.x.report(event)
	return l.continueWithNewNode(ctx, next, cause, trial.changed...)
}

// intend writes the record of the node, which identifies its instance as ours from now on.
func (l *nodeLaunch) intend(ctx context.Context) error {
	if l.step.Record.Kind != "" {
		node, at := find[resources.Node](l.x.cache, l.step.Record)
		if node == nil {
			return fmt.Errorf("%s is not in the state any more", l.step.Record)
		}
		if err := l.x.asPlanned(l.step, at); err != nil {
			return err
		}
		l.node = node
		l.node.State = resources.StateBuilding
		return l.x.cache.claim(ctx, l.step.ID, l.node, at)
	}
	now, amounts := l.x.Now(), l.resolved.Resources
	amounts.Instances = 1
	l.node = &resources.Node{State: resources.StateBuilding, StateTime: now, Created: now, Provider: l.provider.Name,
		Pool: l.pool.Name, Labels: []string{l.offer.Label}, Hash: l.offer.Hashes.Current(), Image: l.offer.Image.String(),
		Attributes: l.pool.NodeAttributes, Resources: amounts, Replaces: l.step.ReplacesNode}
	if l.step.Request != "" { // the node belongs to the request from the start
		r, ok := get[resources.Request](l.x.cache, resources.Key{Kind: resources.KindRequest, ID: l.step.Request})
		if !ok { // it was canceled
			return fmt.Errorf("request %s: %w", l.step.Request, errChanged)
		}
		l.node.Request, l.node.Tenant, l.node.Requestor, l.node.Zone = r.ID, r.Tenant, r.Requestor, l.step.Zone
	}
	if err := l.chooseImage(ctx); err != nil {
		return err
	}
	if rule := l.validation(); rule != nil {
		l.node.Validates, l.attempts = l.node.Upload, int64(rule.Attempts)
	}
	if l.x.cache.claims.store != nil {
		l.node.State = resources.StateInit // create claims it; other processes ignore it until then
	}
	return l.x.cache.putFor(ctx, l.step.ID, append([]resources.Record{l.node}, l.x.cache.template(l.node.Hash, l.offer.Static, nil)...)...)
}

// chooseImage selects the upload to boot from, or the image that the cloud_image block resolves to.
func (l *nodeLaunch) chooseImage(ctx context.Context) (err error) {
	ref := l.offer.Image
	switch {
	case ref == (resources.ImageRef{}):
		return nil
	case ref.Kind == resources.CloudImage:
		l.node.ImageID, l.node.Login, err = l.x.cloudImage(ctx, l.provider, ref)
		return err
	}
	id := l.step.Upload
	if made := l.x.results.id(ref.Name, l.provider.Name); made != "" && (id == "" || !l.isPinned(id) && l.mayBoot(made)) { // created by this run
		id = made
	}
	upload, ok := get[resources.Upload](l.x.cache, resources.Key{Kind: resources.KindUpload, ID: id})
	if !ok {
		return fmt.Errorf("image %s is not in provider %s", ref, l.provider.Name)
	}
	bootFrom(l.node, upload)
	return nil
}

// spec returns the description of the node for the driver.
func (l *nodeLaunch) spec(retried bool) drivers.Spec {
	return drivers.Spec{
		Marks: resources.OwnerTags{Installation: l.x.seen.Installation, Kind: resources.KindNode, ID: l.node.ID,
			Provider: l.node.Provider, Pool: l.node.Pool, Label: l.offer.Label, Image: l.node.Image, Hash: l.node.Hash},
		Hostname: "np" + l.node.ID, ImageID: l.node.ImageID, Zone: l.node.Zone, Config: l.offer.Config, Properties: l.properties, MaybeCreated: retried,
	}
}

// zone distributes nodes over the available zones and selects another zone at each attempt. Zones in which the offer had no
// capacity lately come last. The plan sets the zone if the nodes of a request must be in the same one.
func (l *nodeLaunch) zone() string {
	if l.step.Zone != "" {
		return l.step.Zone
	}
	zones := l.resolved.Zones
	if len(zones) == 0 {
		return ""
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(l.node.ID))
	first := (uint64(h.Sum32()) + uint64(l.node.Attempt)) % uint64(len(zones))
	return l.x.shortages.Order(l.address(), slices.Concat(zones[first:], zones[:first]))[0]
}

// address is the scope of shortages: the zones of an offer.
func (l *nodeLaunch) address() string {
	return string(plan.OfferAddress(l.provider.Name, l.pool.Name, l.offer.Label))
}

// attempt creates the instance, unless an earlier run did, and waits until it is ready. It ends after launch_timeout.
func (l *nodeLaunch) attempt(ctx context.Context) (err error) {
	limit := cmp.Or(l.provider.LaunchTimeout, launchTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w (%s)", ErrLaunchTimeout, limit))
	defer cancel()
	defer func() {
		cause := context.Cause(ctx)
		if err != nil && errors.Is(cause, ErrLaunchTimeout) && !errors.Is(err, ErrLaunchTimeout) && !errors.Is(err, ErrBootTimeout) {
			err = fmt.Errorf("%w: %w", cause, err) // the error itself only states that a deadline has passed
		}
	}()
	if l.node.ExternalID == "" {
		if err := l.create(ctx); err != nil {
			return err
		}
	}
	l.x.slots.releaseEarly(l.step.ID)
	instance := l.created
	if instance.Status != resources.StatusReady || instance.Addresses.Interface == "" {
		if instance, err = l.x.awaitReady(ctx, l.step, l.cloud, l.spec(false), l.node.ExternalID); err != nil {
			return err
		}
	}
	l.node.Phases.Boot = l.x.Now().Sub(l.acceptedAt).Seconds()
	l.node.Login = instance.Login.WithDefaults(l.node.Login)
	if err := l.awaitReachable(ctx, &instance); err != nil {
		return errors.Join(l.nodeError(ctx, instance.ID, err), l.reportUnreachable(ctx, instance.ID, err))
	}
	node := l.described(instance)
	if node.Access, err = access(ctx, l.cloud, instance.ID); err != nil {
		return err
	}
	if err := l.x.hooks().runFor(ctx, hookLaunched, &node); err != nil {
		return l.nodeError(ctx, instance.ID, err)
	}
	if l.step.Kind == plan.KindValidate {
		return l.tested(ctx, &node)
	}
	if err := l.ready(ctx, node); err != nil {
		return err
	}
	if l.x.hooks().of(l.provider.Name, hookReady) != nil {
		l.x.cache.clearRecordBusy(ctx, l.node.Key()) // the hook does not delay the use of the node
		l.x.hooks().notify(ctx, hookReady, l.node)
	}
	return nil
}

// create writes the intent of the attempt, creates the instance and writes its ID. The first attempt also claims the node.
func (l *nodeLaunch) create(ctx context.Context) error {
	retried := l.node.Attempt > 0
	l.node.Zone = l.zone()
	l.node.Attempt++
	now, at := find[resources.Node](l.x.cache, l.node.Key())
	if now == nil || now.State != l.node.State || now.Request != l.node.Request { // it has changed while the step waited for a slot
		return fmt.Errorf("%s: %w", l.node.Key(), errChanged)
	}
	l.node.State = resources.StateBuilding
	if err := l.x.cache.claim(ctx, l.step.ID, l.node, at); err != nil {
		return err
	}
	l.x.progress(l.step)("creating", 0, 0)
	if err := l.x.cache.claims.awaitConnected(ctx, l.step.ID); err != nil {
		return err
	}
	started := l.x.Now()
	instance, err := l.cloud.Create(ctx, l.spec(retried))
	if err != nil {
		if isUnreachable(err) {
			l.node.UnansweredAttempts++
		}
		return err
	}
	l.acceptedAt = l.x.Now()
	l.node.Phases = resources.Phases{Create: l.acceptedAt.Sub(started).Seconds()}
	l.node.ExternalID, l.created = instance.ID, instance
	return l.x.cache.put(ctx, l.node)
}

// access returns the credentials of an instance, "" if its cloud has none.
func access(ctx context.Context, cloud drivers.Cloud, id string) (string, error) {
	accessor, ok := drivers.AccessorOf(cloud)
	if !ok {
		return "", nil
	}
	return accessor.Access(ctx, id)
}

// described returns the node with the attributes of its instance.
func (l *nodeLaunch) described(i resources.Instance) resources.Node {
	n := *l.node
	n.Addresses, n.Zone, n.Cloud, n.Region, n.HostID = i.Addresses, i.Zone, i.Cloud, i.Region, i.HostID
	n.Hostname, n.HostKeys = i.Name, i.HostKeys
	if i.Slot != nil {
		n.Shares, n.Slot = true, *i.Slot
	}
	if len(i.Attributes) > 0 {
		n.Attributes = maps.Clone(i.Attributes)
		maps.Copy(n.Attributes, l.node.Attributes)
	}
	if i.Resources.Instances > 0 {
		n.Resources = i.Resources
	}
	return n
}

// ready records the node as ready and releases its claim. In a daemon, the same commit fulfills the request of the node if this was
// the last of its nodes.
func (l *nodeLaunch) ready(ctx context.Context, described resources.Node) error {
	now := l.x.Now()
	*l.node = described
	n := l.node
	n.State, n.StateTime, n.Seconds, n.Error = resources.StateReady, now, now.Sub(l.started).Seconds(), ""
	trial := l.countLaunch(ctx, nil)
	defer trial.release()
	ops := l.x.cache.ops(append([]resources.Record{n}, trial.changed...))
	ops[0].Release = l.x.cache.claims.store != nil
	if r, ok := get[resources.Request](l.x.cache, resources.Key{Kind: resources.KindRequest, ID: n.Request}); ok && len(r.Labels) > 1 {
		l.x.joint.Lock() // nodes often become ready at the same moment, and the last one must see the others
		defer l.x.joint.Unlock()
	}
	if request, serve, ok := (requestRecords{l.x.cache, l.x.Now}).fulfillment(n); ok && l.x.continuous {
		_, err := l.x.cache.commit(ctx, "", slices.Concat(ops, []state.Op{request}))
		if err == nil {
			l.x.report(Event{Kind: EventStart, Step: serve})
			l.x.reportEnd(serve, serve.Request, nil, l.x.Now().Sub(now), 0)
		}
		if !errors.Is(err, state.ErrConflict) {
			return err
		}
	} // otherwise the request has changed; the next plan serves it
	_, err := l.x.cache.commit(ctx, "", ops)
	return err
}

// postpone leaves the state of the node unchanged until the provider responds again, because an outage is not a failure
// of the node. If the provider created an instance without responding, the next attempt finds it.
func (l *nodeLaunch) postpone(ctx context.Context, cause error) error {
	l.node.Error = cause.Error()
	err := fmt.Errorf("launch node %s: %w: %w", l.node.ID, ErrProviderUnreachable, cause)
	return errors.Join(err, l.x.cache.put(ctx, l.node))
}

// giveUp ends the launch and passes the instance of the last attempt to cleanUp. The record of a node for a request
// shows the planner that another pool has to serve the request or, in state aborted, that the provider had no capacity.
func (l *nodeLaunch) giveUp(ctx context.Context, cause error, counted ...resources.Record) error {
	l.node.State, l.node.StateTime, l.node.Error = resources.StateFailed, l.x.Now(), cause.Error()
	if errors.Is(cause, drivers.ErrQuota) {
		l.node.State = resources.StateAborted
	}
	if err := l.x.cache.put(ctx, append(counted, l.node)...); err != nil {
		return errors.Join(cause, err)
	}
	switch {
	case l.node.Attempt > 0:
		l.x.cleaner.cleanUp(l.node)
		return cause
	case l.node.Request != "":
		return cause
	default: // no request was sent to the cloud
		return errors.Join(cause, l.x.cache.drop(ctx, l.node.Key()))
	}
}

// console writes the console output of the instance, the best evidence of a failed boot, beside the build logs.
func (l *nodeLaunch) console(ctx context.Context) (path string) {
	console, ok := drivers.ConsoleOf(l.cloud)
	if !ok || l.node.ExternalID == "" {
		return ""
	}
	text, err := console.ConsoleLog(ctx, l.node.ExternalID)
	if err != nil || text == "" {
		return ""
	}
	dir, err := l.x.logDir()
	if err != nil {
		return ""
	}
	path = filepath.Join(dir, consoleName(l.node))
	pruneConsoles(dir, time.Now()) // the dates of files are from the clock of this host
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return ""
	}
	return path
}

const (
	// capacityTimeout is how long the next launch attempt waits for the capacity that the failed instance uses.
	capacityTimeout = time.Minute
	// capacityPoll is the time between two checks.
	capacityPoll = time.Second
)

// continueWithNewNode passes the record of a failed attempt to cleanUp and continues the launch with a new record, so
// that the next attempt does not wait for the deletion. One commit writes both: the request always has a node.
func (l *nodeLaunch) continueWithNewNode(ctx context.Context, next resources.Node, cause error, counted ...resources.Record) error {
	now := l.x.Now()
	left := *l.node
	left.State, left.StateTime, left.Error = resources.StateDeleting, now, cause.Error()
	left.Request, left.Tenant, left.Requestor = "", "", ""
	next.ID, next.StateTime, next.Created, next.Error = "", now, now, cause.Error()
	next.ExternalID, next.Phases = "", resources.Phases{}
	l.created = resources.Instance{}
	if l.x.cache.claims.store != nil {
		next.State = resources.StateInit // create claims it; other processes ignore it until then
	}
	if err := l.x.cache.putFor(ctx, l.step.ID, append([]resources.Record{&left, &next}, counted...)...); err != nil {
		return err
	}
	l.node = &next
	l.x.cache.clearRecordBusy(ctx, left.Key())
	l.x.cleaner.cleanUp(&left)
	l.isReplacement = true
	return nil
}

// awaitCapacity waits, before an attempt that follows a failed one, until the limits of the pool and the quota have
// capacity for the node in addition to the instances being deleted. An earlier run may have ended during this wait.
func (l *nodeLaunch) awaitCapacity(ctx context.Context) error {
	if l.node.Attempt == 0 || l.node.ExternalID != "" {
		return nil
	}
	limit, cancel := context.WithTimeout(ctx, capacityTimeout)
	defer cancel()
	for {
		why := l.lacksCapacity(limit)
		if why == "" {
			return nil
		}
		l.x.progress(l.step)("waiting for capacity for the next attempt", 0, 0)
		select {
		case <-time.After(capacityPoll):
		case <-limit.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w: no capacity for the next attempt while failed instances are being deleted: %s", drivers.ErrQuota, why)
		}
	}
}

// lacksCapacity returns the limit that leaves no capacity for the node, or "".
func (l *nodeLaunch) lacksCapacity(ctx context.Context) string {
	var use resources.ResourceAmounts
	for _, n := range all[resources.Node](l.x.cache) {
		if n.Provider == l.node.Provider && n.Pool == l.node.Pool && n.ID != l.node.ID && !n.Static {
			use = use.Plus(plan.Amounts(n))
		}
	}
	if why := plan.OverLimits(&l.pool.Limits, use, plan.Amounts(l.node)); why != "" || l.pool.IgnoreProviderQuota || !l.isReplacement {
		return why // unless this run has replaced the node, an earlier run may have created the instance, and the quota counts it
	}
	quota, err := l.cloud.Quota(ctx)
	if err != nil {
		return "" // the cloud itself rejects a node that exceeds the quota
	}
	return plan.OverQuota(quota, plan.Amounts(l.node))
}
