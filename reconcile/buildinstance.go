package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// instanceProvider provides instances to the builder of one build. It provides one at a time, because everything in the
// cloud carries the build ID, by which it is found and removed.
type instanceProvider struct {
	x     *execution
	step  plan.Step
	build string

	lending sync.Mutex // guards inUse
	inUse   bool
}

var _ builders.Instances = (*instanceProvider)(nil)

// Boot implements builders.Instances. It makes as many attempts as a launch in that provider and removes the instance
// of a failed attempt before the next one.
func (m *instanceProvider) Boot(ctx context.Context, provider, pool, label string) (builders.Instance, error) {
	b, err := m.find(provider, pool, label)
	if err != nil {
		return nil, err
	}
	if err := b.boot(ctx); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

func (b *buildInstance) boot(ctx context.Context) error {
	if err := b.connect(ctx); err != nil {
		return err
	}
	if err := b.x.books.rememberProvider(ctx, b.x.Engine, b.provider.Name, b.x.seen.Providers[b.provider.Name].Location); err != nil {
		return err
	}
	if !b.take() {
		return fmt.Errorf("build %s has an instance already", b.build)
	}
	attempts := max(b.provider.LaunchAttempts, 1)
	for attempt := int64(1); ; attempt++ {
		err := b.attempt(ctx, attempt)
		if err == nil {
			return nil
		}
		b.x.Log.Warn("boot of a build instance failed", "build", b.build, "provider", b.provider.Name, "label", b.offer.Label, "attempt", attempt, "error", err)
		clear, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
		left := b.remove(clear)
		cancel()
		if ctx.Err() != nil || left != nil || attempt >= attempts || rejected(err) || errors.Is(err, drivers.ErrQuota) {
			b.releaseInstance()
			return errors.Join(fmt.Errorf("attempt %d of %d: %w", attempt, attempts, err), left)
		}
		b.external = ""
	}
}

func (m *instanceProvider) take() bool {
	m.lending.Lock()
	defer m.lending.Unlock()
	free := !m.inUse
	m.inUse = true
	return free
}

func (m *instanceProvider) releaseInstance() {
	m.lending.Lock()
	defer m.lending.Unlock()
	m.inUse = false
}

// find finds the provider, pool and offer of the instance in the configuration.
func (m *instanceProvider) find(provider, pool, label string) (*buildInstance, error) {
	p, ok := m.x.Desired.Provider(provider)
	if !ok {
		return nil, fmt.Errorf("%w: provider %s is not configured%s", drivers.ErrRejected, provider, m.providersThereAre())
	}
	where, offer, err := offerOf(p, pool, label)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	return &buildInstance{instanceProvider: m, provider: p, pool: where, offer: offer}, nil
}

// connect opens the provider until release is called, and checks that it supports snapshots and images.
func (b *buildInstance) connect(ctx context.Context) (err error) {
	if b.cloud, b.release, err = b.x.cloud(ctx, b.provider.Name, nil); err != nil {
		return err
	}
	var ok bool
	if b.snapshots, ok = drivers.SnapshotterOf(b.cloud); !ok {
		return fmt.Errorf("%w: provider %s does not support snapshots: %w", drivers.ErrRejected, b.provider.Name, drivers.ErrNotSupported)
	}
	if b.images, ok = drivers.ImagesOf(b.cloud); !ok {
		return fmt.Errorf("%w: provider %s does not store images: %w", drivers.ErrRejected, b.provider.Name, drivers.ErrNotSupported)
	}
	if checker, ok := drivers.As[drivers.SnapshotChecker](b.cloud); ok {
		if err := checker.CheckSnapshot(b.offer.Config); err != nil {
			return fmt.Errorf("label %s of pool %s: %w", b.offer.Label, b.pool.Name, err)
		}
	}
	return b.chooseImage(ctx)
}

func (m *instanceProvider) providersThereAre() string {
	var names []string
	for _, p := range m.x.Desired.Providers {
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return "; there are " + strings.Join(names, ", ")
}

// offerOf returns the offer for a label from the named pool or, if pool is empty, from the first pool that has one.
func offerOf(p *resources.Provider, pool, label string) (*resources.Pool, *resources.Offer, error) {
	named := false
	for i := range p.Pools {
		where := &p.Pools[i]
		if pool != "" && where.Name != pool {
			continue
		}
		named = true
		if offer := where.Offer(label); offer != nil {
			return where, offer, nil
		}
	}
	switch {
	case !named && pool != "":
		return nil, nil, fmt.Errorf("provider %s has no pool %s", p.Name, pool)
	case pool != "":
		return nil, nil, fmt.Errorf("pool %s of provider %s does not offer label %s: add a label block for it there", pool, p.Name, label)
	default:
		return nil, nil, fmt.Errorf("no pool of provider %s offers label %s: add a label block for it to one", p.Name, label)
	}
}

// chooseImage selects the newest ready upload, or the image that the cloud_image block resolves to.
func (b *buildInstance) chooseImage(ctx context.Context) (err error) {
	ref := b.offer.Image
	if ref.Kind == resources.CloudImage {
		b.image, b.login, err = b.x.cloudImage(ctx, b.provider, ref)
		return err
	}
	var newest *resources.Upload
	for _, u := range all[resources.Upload](b.x.cache) {
		usable := u.Image == ref.Name && u.Provider == b.provider.Name && u.State == resources.StateReady && u.ExternalID != ""
		if usable && (newest == nil || cmp.Or(u.Created.Compare(newest.Created), cmp.Compare(u.ID, newest.ID)) > 0) {
			newest = u
		}
	}
	if newest == nil {
		return fmt.Errorf("label %s boots from %s, which is not in provider %s yet", b.offer.Label, ref, b.provider.Name)
	}
	b.image, b.login = newest.ExternalID, newest.Login
	return nil
}

// zone selects another zone at each attempt.
func (b *buildInstance) zone(attempt int64) string {
	zones := b.x.seen.Providers[b.provider.Name].Offers[plan.OfferKey{Pool: b.pool.Name, Label: b.offer.Label}].Zones
	if len(zones) == 0 {
		return ""
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(b.build))
	return zones[(uint64(h.Sum32())+uint64(attempt))%uint64(len(zones))] //nolint:gosec // attempts are counted from 1
}

// buildInstance is an instance that one builder uses exclusively.
type buildInstance struct {
	*instanceProvider
	provider  *resources.Provider
	pool      *resources.Pool
	offer     *resources.Offer
	cloud     drivers.Cloud
	release   func() // called when the cloud is no longer used
	snapshots drivers.Snapshotter
	images    drivers.ImageStore

	image    string // the cloud's ID of the image that the instance boots from
	login    resources.Login
	external string // the cloud's ID of the instance, once it is known
	instance resources.Instance
	captured bool // an image of the instance may exist in the cloud
}

var _ builders.Instance = (*buildInstance)(nil)

// Address implements builders.Instance.
func (b *buildInstance) Address() string { return b.instance.Addresses.Interface }

// Login implements builders.Instance.
func (b *buildInstance) Login() resources.Login { return b.login }

// HostKeys implements builders.Instance.
func (b *buildInstance) HostKeys() []string { return b.instance.HostKeys }

// marks returns the ownership tags of the instance and of its image: both belong to the build and are deleted when it
// ends.
func (b *buildInstance) marks() resources.OwnerTags {
	return resources.OwnerTags{Installation: b.x.seen.Installation, Kind: resources.KindBuild, ID: b.build, Provider: b.provider.Name,
		Pool: b.pool.Name, Label: b.offer.Label, Image: b.step.Image}
}

// name returns the name of the instance and of its image in the cloud.
func (b *buildInstance) name() string { return "npctl-build-" + b.build[:min(12, len(b.build))] }

// attempt creates the instance and waits until it is ready.
func (b *buildInstance) attempt(ctx context.Context, number int64) error {
	limit := cmp.Or(b.provider.LaunchTimeout, launchTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not ready within launch_timeout (%s)", limit))
	defer cancel()
	spec := drivers.Spec{Marks: b.marks(), Hostname: b.name(), ImageID: b.image, Zone: b.zone(number), Config: b.offer.Config, MaybeCreated: number > 1}
	made, err := b.cloud.Create(ctx, spec)
	if err != nil {
		return err
	}
	b.external = made.ID
	b.instance, err = b.x.awaitReady(ctx, b.step, b.cloud, spec, b.external)
	return err
}

// Console implements builders.Instance.
func (b *buildInstance) Console(ctx context.Context) string {
	console, ok := drivers.ConsoleOf(b.cloud)
	if !ok || b.external == "" {
		return ""
	}
	text, err := console.ConsoleLog(ctx, b.external)
	if err != nil {
		return fmt.Sprintf("(it cannot be read: %v)\n", err)
	}
	return text
}

// Close implements builders.Instance.
func (b *buildInstance) Close(ctx context.Context) error {
	defer b.releaseInstance()
	defer b.release()
	return b.remove(ctx)
}

// remove deletes the instance and its image, each even if deleting the other fails, and waits until listings show
// neither.
func (b *buildInstance) remove(ctx context.Context) error {
	err := b.x.instanceRemover(b.step, b.cloud).remove(ctx, deletionTarget{external: b.external, marks: b.marks(), record: b.build})
	if b.captured {
		err = errors.Join(err, b.x.imageRemover(b.images).remove(ctx, b.marks()))
	}
	return err
}

// Limits for the creation of a snapshot.
const (
	busyLimit   = 2 * time.Minute // how long a machine may be busy after it was shut down
	unseenLimit = 2 * time.Minute // from the request until a listing shows the image
	readsAtMost = 3               // attempts to download it
)

// Capture implements builders.Instance: the cloud creates a snapshot with ownership tags, and Capture downloads its
// content. The snapshot exists until Close.
func (b *buildInstance) Capture(ctx context.Context, path string, progress func(phase string, done, total int64)) (string, error) {
	b.captured = true // even if the request fails
	asked, err := b.requestSnapshot(ctx)
	if err != nil {
		return "", err
	}
	image, err := b.awaitSnapshot(ctx, asked)
	if err != nil {
		return "", err
	}
	if err := imagefile.CheckFree(filepath.Dir(path), image.Size); err != nil {
		return "", err
	}
	for try := 1; ; try++ {
		err := b.fetch(ctx, image, path, progress)
		if err == nil {
			return image.Format, nil
		}
		err = fmt.Errorf("fetch snapshot %s: %w", image.ID, err)
		if left := os.Remove(path); !errors.Is(left, os.ErrNotExist) {
			err = errors.Join(err, left)
		}
		if ctx.Err() != nil || try == readsAtMost || !drivers.IsTransient(err) || errors.Is(err, imagefile.ErrNoSpace) {
			return "", err
		}
		b.x.Log.Info("fetching a snapshot failed; retrying", "build", b.build, "image", image.ID, "error", err)
	}
}

// requestSnapshot requests the snapshot and returns its ID, or "" if the answer was lost. The cloud refuses while the
// machine is busy, for example while it shuts down.
func (b *buildInstance) requestSnapshot(ctx context.Context) (string, error) {
	deadline := time.Now().Add(busyLimit)
	for {
		id, err := b.snapshots.Snapshot(ctx, b.external, b.name(), b.marks())
		switch {
		case err == nil:
			return id, nil
		case ctx.Err() != nil || !drivers.IsTransient(err):
			return "", err
		case !drivers.IsNothingDone(err):
			b.x.Log.Info("it is unknown whether a snapshot is being created; searching for it", "build", b.build, "error", err)
			return "", nil
		case time.Now().After(deadline):
			return "", err
		}
		if err := waits.Sleep(ctx, pollMost); err != nil {
			return "", err
		}
	}
}

// awaitSnapshot waits until the image is ready. If an image disappears from the listings, the cloud has abandoned it.
func (b *buildInstance) awaitSnapshot(ctx context.Context, asked string) (resources.RemoteImage, error) {
	asking, missing := time.Now(), 0
	var last error
	seen := false
	for pause := pollLeast; ; pause = min(2*pause, pollMost) {
		found, err := imagesMarked(ctx, b.images, b.marks())
		switch i := slices.IndexFunc(found, func(i resources.RemoteImage) bool { return asked == "" || i.ID == asked }); {
		case err != nil && (rejected(err) || ctx.Err() != nil):
			return resources.RemoteImage{}, err
		case err != nil:
			last = err // a failed listing does not mean that the image is gone
		case i >= 0 && found[i].Status == resources.StatusReady:
			return found[i], nil
		case i >= 0 && found[i].Status != resources.StatusPending:
			return resources.RemoteImage{}, fmt.Errorf("the snapshot %s is %s", found[i].ID, found[i].Status)
		case i >= 0:
			seen, missing = true, 0
		default:
			missing++
		}
		if seen && missing > 2 {
			return resources.RemoteImage{}, errors.New("the cloud could not create the snapshot: its image has disappeared")
		}
		if !seen && time.Since(asking) > unseenLimit {
			return resources.RemoteImage{}, errors.Join(fmt.Errorf("no snapshot is listed %s after it was requested", unseenLimit), last)
		}
		if err := waits.Sleep(ctx, pause); err != nil {
			return resources.RemoteImage{}, err
		}
	}
}

// fetch writes the content of an image to a new file.
func (b *buildInstance) fetch(ctx context.Context, image resources.RemoteImage, path string, progress func(phase string, done, total int64)) (err error) {
	content, told, err := b.snapshots.ReadImage(ctx, image.ID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	sparse := imagefile.NewSparseWriter(file)
	counted := &counter{to: sparse, tell: func(n int64) { progress("fetching the snapshot", n, told.Size) }}
	_, err = io.Copy(counted, io.LimitReader(content, told.Size+1))
	if err == nil && counted.n != told.Size {
		err = fmt.Errorf("it has %d bytes, expected %d", counted.n, told.Size)
	}
	if err == nil {
		err = sparse.Finish()
	}
	return errors.Join(err, file.Close())
}

// counter reports the number of bytes written through it.
type counter struct {
	to   io.Writer
	n    int64
	tell func(int64)
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.to.Write(p)
	c.n += int64(n)
	c.tell(c.n)
	return n, err
}
