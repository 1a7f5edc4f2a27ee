package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// launchTimeout is how long an attempt may take where launch_timeout does not say.
const launchTimeout = time.Hour

// Why an attempt to launch a node was given up that took too long.
var (
	ErrLaunchTimeout = errors.New("not ready within launch_timeout")     // the whole of it
	ErrBootTimeout   = errors.New("does not answer within boot_timeout") // there is a machine, and nobody answers in it
)

// launching is one node on its way from intent to ready.
type launching struct {
	*execution
	step     plan.Step
	provider *resources.Provider
	pool     *resources.Pool
	offer    *resources.Offer
	cloud    drivers.Cloud
	node     *resources.Node
	started  time.Time
	asked    time.Time          // when the cloud had accepted it
	made     resources.Instance // as it was then

	successor bool // the node took the place of one that this run failed to launch
}

// awayPause is how long a plan that is carried out once waits, at first, for a provider that does not answer. A daemon plans
// when to try again.
const awayPause = 5 * time.Second

// launch makes a node, or goes on with one that an earlier run began. Where nobody answers it tries as often as it would
// where launches fail: the next run goes on with the node.
func (x *execution) launch(ctx context.Context, s plan.Step) (string, error) {
	l, err := x.intendLaunch(ctx, s)
	if err != nil {
		return "", err
	}
	pause := awayPause
	for left := l.attempts(); ; left-- {
		err = l.run(ctx)
		if left <= 1 || !errors.Is(err, ErrAway) {
			return l.node.ID, err
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return l.node.ID, ErrInterrupted
		}
	}
}

// attempts is how many of them there may be.
func (l *launching) attempts() int64 { return max(l.provider.LaunchAttempts, 1) }

// intendLaunch writes the record of a node that run then makes.
func (x *execution) intendLaunch(ctx context.Context, s plan.Step) (*launching, error) {
	l := &launching{execution: x, step: s, started: x.Now()}
	if err := l.find(); err != nil {
		return nil, err
	}
	return l, l.intend(ctx)
}

// run tries until the node is ready, or no attempt is left.
func (l *launching) run(ctx context.Context) error {
	cloud, release, err := l.execution.cloud(ctx, l.provider.Name, nil)
	defer release()
	if l.cloud = cloud; away(err) {
		return l.putOff(ctx, err)
	} else if err != nil {
		return l.giveUp(ctx, err)
	}
	for {
		if err := l.awaitRoom(ctx); errors.Is(err, drivers.ErrQuota) {
			return l.giveUp(ctx, fmt.Errorf("launch node %s: %w", l.node.ID, err))
		} else if err != nil {
			return ErrInterrupted
		}
		err := l.attempt(ctx)
		switch {
		case err == nil:
			l.took("launch/"+l.step.Provider+"/"+l.step.Label, l.node.Seconds)
			return nil
		case l.ledger.claims.severed(err):
			return fmt.Errorf("%w: %w", ErrInterrupted, err)
		case errors.Is(err, errChanged) && l.node.ExternalID == "":
			return err
		case ctx.Err() != nil:
			return ErrInterrupted // the record stays building; the next run goes on with it
		case away(err):
			return l.putOff(ctx, err)
		}
		if path := l.console(ctx); path != "" {
			err = fmt.Errorf("%w (console: %s)", err, path)
		}
		made := l.node.Attempt - l.node.Unanswered
		l.logFailure(made, err)
		if made >= l.attempts() || rejected(err) || errors.Is(err, drivers.ErrQuota) {
			return l.giveUp(ctx, fmt.Errorf("launch node %s, attempt %d of %d: %w", l.node.ID, made, l.attempts(), err))
		}
		l.report(Event{Kind: EventRetry, Step: l.step, ID: l.node.ID, Err: err, Done: made, Total: l.attempts()})
		if err := l.succeed(ctx, err); err != nil {
			return err
		}
	}
}

// logFailure logs a failed attempt. Where a plan is executed once, events report it.
func (l *launching) logFailure(made int64, cause error) {
	level := slog.LevelDebug
	if l.unending {
		level = slog.LevelWarn
	}
	l.Log.Log(context.Background(), level, "launch attempt failed", "node", l.node.ID, "attempt", made, "error", cause)
}

// find looks up what the configuration says about the node.
func (l *launching) find() error {
	var ok bool
	if l.provider, ok = l.execution.provider(l.step.Provider); !ok {
		return fmt.Errorf("provider %s is not configured", l.step.Provider)
	}
	for i := range l.provider.Pools {
		if pool := &l.provider.Pools[i]; pool.Name == l.step.Pool {
			l.pool, l.offer = pool, pool.Offer(l.step.Label)
		}
	}
	if l.offer == nil {
		return fmt.Errorf("pool %s of provider %s does not offer label %s", l.step.Pool, l.step.Provider, l.step.Label)
	}
	return nil
}

// intend writes the record that makes the node ours, whatever happens next.
func (l *launching) intend(ctx context.Context) error {
	if l.step.Record.Kind != "" {
		node, at := find[resources.Node](l.ledger, l.step.Record)
		if node == nil {
			return fmt.Errorf("%s is gone from the state", l.step.Record)
		}
		if err := l.asPlanned(l.step, at); err != nil {
			return err
		}
		l.node = node
		l.node.State = resources.StateBuilding
		return l.ledger.claim(ctx, l.step.ID, l.node, at)
	}
	now := l.Now()
	l.node = &resources.Node{State: resources.StateBuilding, StateTime: now, Created: now, Provider: l.provider.Name,
		Pool: l.pool.Name, Labels: []string{l.offer.Label}, Hash: l.offer.Hashes.Current(), Image: l.offer.Image.String(),
		Attributes: l.pool.NodeAttributes, Resources: l.amounts()}
	if err := l.dedicate(); err != nil {
		return err
	}
	if err := l.chooseImage(ctx); err != nil {
		return err
	}
	if l.ledger.claims.store != nil {
		l.node.State = resources.StateInit // create claims it; other processes leave it alone until then
	}
	return l.ledger.putFor(ctx, l.step.ID, append([]resources.Record{l.node}, l.template(l.node.Hash, l.offer.Static, nil)...)...)
}

// dedicate makes the node its request's, which may have been cancelled meanwhile.
func (l *launching) dedicate() error {
	if l.step.Request == "" {
		return nil
	}
	r, ok := get[resources.Request](l.ledger, resources.Key{Kind: resources.KindRequest, ID: l.step.Request})
	if !ok {
		return fmt.Errorf("request %s: %w", l.step.Request, errChanged)
	}
	l.node.Request, l.node.Tenant, l.node.Requestor, l.node.Zone = r.ID, r.Tenant, r.Who, l.step.Zone
	return nil
}

func (l *launching) resolved() plan.OfferView {
	return l.seen.Providers[l.provider.Name].Offers[plan.OfferKey{Pool: l.pool.Name, Label: l.offer.Label}]
}

func (l *launching) amounts() resources.Amounts {
	a := l.resolved().Resources
	a.Instances = 1
	return a
}

// chooseImage takes the newest usable upload, or what the cloud_image block means.
func (l *launching) chooseImage(ctx context.Context) (err error) {
	ref := l.offer.Image
	if ref.Kind == resources.CloudImage {
		l.node.ImageID, l.node.Login, err = l.cloudImage(ctx, l.provider, ref)
		return err
	}
	upload := l.uploadOf(ref.Name)
	if upload == nil {
		return fmt.Errorf("image %s is not in provider %s", ref, l.provider.Name)
	}
	l.node.ImageID, l.node.Upload, l.node.Login = upload.ExternalID, upload.ID, upload.Login
	return nil
}

// uploadOf is the upload to boot from: the one that this run has made, or the one that the plan names.
func (l *launching) uploadOf(image string) *resources.Upload {
	l.results.Lock()
	id, made := l.uploaded[uploadedTo{image, l.provider.Name}]
	l.results.Unlock()
	if !made {
		id = l.step.Upload
	}
	upload, _ := get[resources.Upload](l.ledger, resources.Key{Kind: resources.KindUpload, ID: id})
	return upload
}

// spec describes the node to the driver.
func (l *launching) spec(retried bool) drivers.Spec {
	return drivers.Spec{
		Marks: resources.Marks{Installation: l.seen.Installation, Kind: resources.KindNode, ID: l.node.ID,
			Provider: l.node.Provider, Pool: l.node.Pool, Label: l.offer.Label, Image: l.node.Image, Hash: l.node.Hash},
		Hostname: "np" + l.node.ID, ImageID: l.node.ImageID, Zone: l.node.Zone, Config: l.offer.Config, Retried: retried,
	}
}

// zone spreads nodes over the zones there are, and takes another one at each attempt, unless the nodes of a request have
// to be together.
func (l *launching) zone() string {
	if l.step.Zone != "" {
		return l.step.Zone
	}
	zones := l.resolved().Zones
	if len(zones) == 0 {
		return ""
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(l.node.ID))
	return zones[(uint64(h.Sum32())+uint64(l.node.Attempt))%uint64(len(zones))]
}

// attempt asks for the instance, unless an earlier run did, and sees it through to ready.
func (l *launching) attempt(ctx context.Context) error {
	limit := cmp.Or(l.provider.LaunchTimeout, launchTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w (%s)", ErrLaunchTimeout, limit))
	defer cancel()
	if err := l.try(ctx); err != nil {
		return timed(ctx, err)
	}
	return nil
}

// timed names the time limit that an error is due to, where the error itself only says that time was over.
func timed(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ErrLaunchTimeout) && !errors.Is(err, ErrLaunchTimeout) && !errors.Is(err, ErrBootTimeout) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// try is an attempt as long as its time lasts.
func (l *launching) try(ctx context.Context) error {
	if l.node.ExternalID == "" {
		if err := l.create(ctx); err != nil {
			return err
		}
	}
	l.waits(l.step)
	instance := l.made
	if instance.Status != resources.StatusReady || instance.Addresses.Interface == "" {
		l.progress(l.step)("waiting for the instance to be ready", 0, 0)
		var err error
		if instance, err = l.awaitReady(ctx, l.cloud, l.spec(false), l.node.ExternalID); err != nil {
			return err
		}
	}
	l.node.Phases.Boot = l.Now().Sub(l.asked).Seconds()
	if err := l.reach(ctx, &instance); err != nil {
		return err
	}
	return l.ready(ctx, instance)
}

// claim writes the intent of an attempt. The first one claims the node, unless somebody has changed it while it waited for a
// place.
func (l *launching) claim(ctx context.Context) error {
	now, at := find[resources.Node](l.ledger, l.node.Key())
	if now == nil || now.State != l.node.State || now.Request != l.node.Request {
		return fmt.Errorf("%s: %w", l.node.Key(), errChanged)
	}
	l.node.State = resources.StateBuilding
	return l.ledger.claim(ctx, l.step.ID, l.node, at)
}

func (l *launching) create(ctx context.Context) error {
	retried := l.node.Attempt > 0
	l.node.Zone = l.zone()
	l.node.Attempt++
	if err := l.claim(ctx); err != nil {
		return err
	}
	l.progress(l.step)("creating", 0, 0)
	if err := l.ledger.claims.secured(ctx, l.step.ID); err != nil {
		return err
	}
	started := l.Now()
	instance, err := l.cloud.Create(ctx, l.spec(retried))
	if err != nil {
		if away(err) {
			l.node.Unanswered++
		}
		return err
	}
	l.asked = l.Now()
	l.node.Phases = resources.Phases{Create: l.asked.Sub(started).Seconds()}
	l.node.ExternalID, l.made = instance.ID, instance
	return l.ledger.put(ctx, l.node)
}

// ready writes the result.
func (l *launching) ready(ctx context.Context, i resources.Instance) error {
	now := l.Now()
	n := l.node
	n.State, n.StateTime, n.Seconds, n.Error = resources.StateReady, now, now.Sub(l.started).Seconds(), ""
	n.Addresses, n.Zone, n.Cloud, n.Region, n.HostID = i.Addresses, i.Zone, i.Cloud, i.Region, i.HostID
	n.Hostname, n.HostKeys = i.Name, i.HostKeys
	if i.Resources.Instances > 0 {
		n.Resources = i.Resources
	}
	return l.ledger.putLast(ctx, n)
}

// putOff leaves the node as it is until the provider is there again: that nobody answers is no fault of the node. What the
// provider may have made without telling is found by the next attempt.
func (l *launching) putOff(ctx context.Context, cause error) error {
	l.node.Error = cause.Error()
	err := fmt.Errorf("launch node %s: %w: %w", l.node.ID, ErrAway, cause)
	return errors.Join(err, l.ledger.put(ctx, l.node))
}

// giveUp ends the launch and leaves the server of the last attempt to clean-up. The record of a node that was made for a
// request tells the planner that another pool has to serve the request, or, when it is aborted, that there was no room.
func (l *launching) giveUp(ctx context.Context, cause error) error {
	l.node.State, l.node.StateTime, l.node.Error = resources.StateFailed, l.Now(), cause.Error()
	if errors.Is(cause, drivers.ErrQuota) {
		l.node.State = resources.StateAborted
	}
	if err := l.ledger.put(ctx, l.node); err != nil {
		return errors.Join(cause, err)
	}
	switch {
	case l.node.Attempt > 0:
		l.cleanUp(l.node)
		return cause
	case l.node.Request != "":
		return cause
	default: // the cloud was asked for nothing
		return errors.Join(cause, l.ledger.drop(ctx, l.node.Key()))
	}
}

// console keeps what the machine said last, the best evidence there is, beside the build logs.
func (l *launching) console(ctx context.Context) (path string) {
	console, ok := drivers.Consoles(l.cloud)
	if !ok || l.node.ExternalID == "" {
		return ""
	}
	text, err := console.ConsoleLog(ctx, l.node.ExternalID)
	if err != nil || text == "" {
		return ""
	}
	dir, err := l.logDir()
	if err != nil {
		return ""
	}
	path = filepath.Join(dir, fmt.Sprintf("node-%s-attempt-%d"+consoleEnd, l.node.ID, l.node.Attempt))
	pruneConsoles(dir, time.Now()) // files have the machine's time
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return ""
	}
	return path
}
