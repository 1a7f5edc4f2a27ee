package gearman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/npctl/npctl/builders"
	protocol "github.com/npctl/npctl/internal/gearman"
)

// ServeOptions configures a build host.
type ServeOptions struct {
	Gearman      protocol.Options // NewHost sets Name; Drain limits how long running jobs may continue after ctx is done
	BuildService builders.BuildService
	// BuildWorkers and UploadWorkers are the numbers of concurrent builds, and of concurrent uploads and removals; 1
	// and 4 when 0.
	BuildWorkers, UploadWorkers int
	// Host is the name of this host for clients; the machine's name when "".
	Host string
	// Kinds are errors of the BuildService that Builders recognize with errors.Is, under these names.
	Kinds map[string]error
	// Refresh is the interval between calls of BuildService.ListBuilds, for builds that appear or disappear without
	// gearman; one minute when 0.
	Refresh time.Duration
	// Settle is the time without builds after a lost server returns, so that this host does not repeat builds which
	// another host has and is about to offer; five seconds when 0.
	Settle time.Duration
	Log    *slog.Logger
}

// Logs is implemented by a BuildService that lets clients follow its build logs.
type Logs interface {
	// OpenLog opens the log of a build, which may still grow: a Read after the end returns data written since. The
	// error wraps fs.ErrNotExist while there is no log.
	OpenLog(ctx context.Context, id string) (io.ReadCloser, error)
}

// Host is a build host.
type Host struct {
	service       builders.BuildService
	servers, name string
	builds        *protocol.Worker // builds images
	uploads       *protocol.Worker // uploads and removes them
	queries       *protocol.Worker // lists versions
	kinds         map[string]error
	every         time.Duration
	log           *slog.Logger
	locks         locks

	reloading sync.Mutex // held while images are offered and withdrawn
	images    []string   // guarded by reloading: offered
	versioned []string   // guarded by reloading: images with offered versions

	mu            sync.Mutex
	offered       map[string]bool                    // guarded by mu: ids of builds
	changes       int                                // guarded by mu: counts offers and withdrawals
	runningBuilds map[string]context.CancelCauseFunc // guarded by mu: by build ID
}

// Serve builds, uploads and removes images for gearman clients until ctx is done. Then it accepts no new jobs, finishes
// running jobs within Gearman.Drain, and returns nil; it stops jobs that take longer and leaves them to other hosts. It
// retries unreachable servers indefinitely.
func (h *Host) Serve(ctx context.Context) error {
	kept, err := h.service.ListBuilds(ctx)
	if err != nil {
		return fmt.Errorf("list the builds of this host: %w", err)
	}
	if err := h.offerImages(ctx); err != nil {
		return err
	}
	for _, id := range kept {
		h.offer(ctx, id)
	}
	h.log.Info("offering images through gearman", "servers", h.servers, "host", h.name, "images", len(h.service.Images()), "builds", len(kept))
	var work sync.WaitGroup
	work.Go(func() { h.uploads.Run(ctx) })
	work.Go(func() {
		select { // until then, a build that ends at once could not be offered
		case <-h.uploads.Ready():
		case <-ctx.Done():
		}
		h.builds.Run(ctx)
	})
	work.Go(func() { h.queries.Run(ctx) })
	work.Go(func() { h.refresh(ctx) })
	work.Wait()
	return nil
}

// offerImages starts to offer the images of the service.
func (h *Host) offerImages(ctx context.Context) error {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	images := h.service.Images()
	if err := checkImages(images); err != nil {
		return err
	}
	h.images = images
	h.offerVersions(ctx)
	return h.addImages(ctx, images)
}

func checkImages(images []string) error {
	for _, image := range images {
		if err := checkName(image); err != nil {
			return fmt.Errorf("image %q cannot be offered through gearman: %w", image, err)
		}
	}
	return nil
}

func (h *Host) addImages(ctx context.Context, images []string) error {
	for _, image := range images {
		if err := h.builds.Add(ctx, h.build, buildPrefix+image); err != nil {
			return err
		}
	}
	return nil
}

// Reload replaces the offered images. It withdraws images that are not in the list, calls use to configure the service,
// and then offers the new ones. Running builds continue. After an error of use it offers the previous images again.
func (h *Host) Reload(ctx context.Context, images []string, use func(context.Context) error) error {
	if err := checkImages(images); err != nil {
		return err
	}
	h.reloading.Lock()
	defer h.reloading.Unlock()
	gone, added := without(h.images, images), without(images, h.images)
	for _, image := range gone {
		if err := h.builds.Withdraw(ctx, buildPrefix+image); err != nil {
			h.log.Warn("an image is not unregistered from all gearman servers", "image", image, "error", err)
		}
	}
	if err := use(ctx); err != nil {
		if again := h.addImages(ctx, gone); again != nil {
			h.log.Warn("images that are offered again are not registered at all gearman servers", "error", again)
		}
		return err
	}
	h.images = slices.Clone(images)
	h.offerVersions(ctx)
	if err := h.addImages(ctx, added); err != nil {
		h.log.Warn("new images are not registered at all gearman servers", "error", err)
	}
	return nil
}

// without returns the names that are not in others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// NewHost returns a host that offers nothing until Serve is called.
func NewHost(o ServeOptions) (*Host, error) {
	if len(o.Gearman.Servers) == 0 {
		return nil, errors.New("there is no gearman server: write at least one in the gearman block")
	}
	name, err := hostName(o.Host)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Gearman.Log == nil {
		o.Gearman.Log = o.Log
	}
	h := &Host{
		service: o.BuildService, servers: strings.Join(o.Gearman.Servers, ", "), name: name, kinds: allKinds(o.Kinds), log: o.Log, every: cmp.Or(o.Refresh, time.Minute),
		offered: map[string]bool{}, runningBuilds: map[string]context.CancelCauseFunc{},
	}
	o.Gearman.Withdrawn = h.failWithdrawn
	builds, uploads := named(o.Gearman, name, building), named(o.Gearman, name, uploading)
	builds.Settle = cmp.Or(o.Settle, 5*time.Second)
	uploads.Retry = builds.Settle / 3 // up to 1.5 times as long with jitter: every host that is up has offered by then
	h.builds = protocol.NewWorker(builds, cmp.Or(o.BuildWorkers, 1))
	h.uploads = protocol.NewWorker(uploads, cmp.Or(o.UploadWorkers, 4))
	h.queries = protocol.NewWorker(named(o.Gearman, name, querying), queryWorkers)
	return h, nil
}

// queryWorkers is the number of concurrent queries of versions.
const queryWorkers = 2

func hostName(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("read the host name: %w", err)
	}
	return name, nil
}

func named(o protocol.Options, host, what string) protocol.Options {
	o.Name = workerName(host, what)
	return o
}
