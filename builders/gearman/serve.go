package gearman

import (
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

// ServeOptions say what a build host offers, and where.
type ServeOptions struct {
	Gearman  protocol.Options // Name is set by NewHost; Drain is how long jobs in hand may go on after ctx has ended
	Workshop builders.Workshop
	// BuildWorkers and UploadWorkers are how many builds, and how many uploads and removals, go on at a time; 1 and 4
	// when 0.
	BuildWorkers, UploadWorkers int
	// Host is what this host is called to others; the machine's name when "".
	Host string
	// Kinds are errors of the workshop that Builders recognise by errors.Is, under these names.
	Kinds map[string]error
	// Refresh is how often Workshop.Kept is asked, for builds that come or go without gearman; one minute when 0.
	Refresh time.Duration
	// Settle is how long the host builds nothing for a server that was lost and is back, so that builds are not made again
	// which another host has and will offer in a moment; five seconds when 0.
	Settle time.Duration
	Log    *slog.Logger
}

// Logs is a Workshop that lets others follow its builds' logs.
type Logs interface {
	// OpenLog opens the log of a build, which may still grow: what is written after the end was read is read by the next
	// Read. The error wraps fs.ErrNotExist while there is none.
	OpenLog(ctx context.Context, id string) (io.ReadCloser, error)
}

// Host is a build host at work.
type Host struct {
	workshop      builders.Workshop
	servers, name string
	builds        *protocol.Worker // makes images
	uploads       *protocol.Worker // sends and removes them
	kinds         map[string]error
	every         time.Duration
	log           *slog.Logger
	locks         locks

	reloading sync.Mutex // held while images are offered and withdrawn
	images    []string   // guarded by reloading: offered

	mu      sync.Mutex
	offered map[string]bool                    // guarded by mu: ids of builds
	changes int                                // guarded by mu: counts offers and withdrawals
	making  map[string]context.CancelCauseFunc // guarded by mu: by ids of builds
}

// Serve makes, uploads and removes images for whoever asks by gearman, until ctx ends. Then it takes no new jobs, finishes
// those in hand within Gearman.Drain, and returns nil; what takes longer is stopped and left to other hosts. Servers that
// cannot be reached are tried again for ever.
func (h *Host) Serve(ctx context.Context) error {
	kept, err := h.workshop.Kept(ctx)
	if err != nil {
		return fmt.Errorf("list the builds that are kept here: %w", err)
	}
	if err := h.offerImages(ctx); err != nil {
		return err
	}
	for _, id := range kept {
		h.offer(ctx, id)
	}
	h.log.Info("offering images by gearman", "servers", h.servers, "host", h.name, "images", len(h.workshop.Images()), "builds", len(kept))
	var work sync.WaitGroup
	work.Go(func() { h.uploads.Run(ctx) })
	work.Go(func() {
		select { // so that a build that ends at once can be offered at once
		case <-h.uploads.Ready():
		case <-ctx.Done():
		}
		h.builds.Run(ctx)
	})
	work.Go(func() { h.refresh(ctx) })
	work.Wait()
	return nil
}

// offerImages begins to offer the images of the workshop.
func (h *Host) offerImages(ctx context.Context) error {
	h.reloading.Lock()
	defer h.reloading.Unlock()
	images := h.workshop.Images()
	if err := checkImages(images); err != nil {
		return err
	}
	h.images = images
	return h.addImages(ctx, images)
}

func checkImages(images []string) error {
	for _, image := range images {
		if err := checkName(image); err != nil {
			return fmt.Errorf("image %q cannot be offered by gearman: %w", image, err)
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

// Reload offers other images. Those that are no longer among them are withdrawn, then use makes the workshop know the new
// ones, then these are offered. Builds that run go on. After an error of use the images before are offered again.
func (h *Host) Reload(ctx context.Context, images []string, use func(context.Context) error) error {
	if err := checkImages(images); err != nil {
		return err
	}
	h.reloading.Lock()
	defer h.reloading.Unlock()
	gone, added := without(h.images, images), without(images, h.images)
	for _, image := range gone {
		if err := h.builds.Withdraw(ctx, buildPrefix+image); err != nil {
			h.log.Warn("gearman servers may not know yet that an image is withdrawn", "image", image, "error", err)
		}
	}
	if err := use(ctx); err != nil {
		if again := h.addImages(ctx, gone); again != nil {
			h.log.Warn("gearman servers may not know yet of images that are offered again", "error", again)
		}
		return err
	}
	h.images = slices.Clone(images)
	if err := h.addImages(ctx, added); err != nil {
		h.log.Warn("gearman servers may not know yet of new images", "error", err)
	}
	return nil
}

// without returns the names that are not among the others.
func without(names, others []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(others, name) })
}

// NewHost returns a host that offers nothing until Serve is called.
func NewHost(o ServeOptions) (*Host, error) {
	if len(o.Gearman.Servers) == 0 {
		return nil, errors.New("there is no gearman server: name at least one in the gearman block")
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
		workshop: o.Workshop, servers: strings.Join(o.Gearman.Servers, ", "), name: name, kinds: allKinds(o.Kinds), log: o.Log, every: orElse(o.Refresh, time.Minute),
		offered: map[string]bool{}, making: map[string]context.CancelCauseFunc{},
	}
	builds, uploads := named(o.Gearman, name, building), named(o.Gearman, name, uploading)
	builds.Settle = orElse(o.Settle, 5*time.Second)
	uploads.Retry = builds.Settle / 3 // with jitter, half as much again: every host that is up has offered by then
	h.builds = protocol.NewWorker(builds, orElse(o.BuildWorkers, 1))
	h.uploads = protocol.NewWorker(uploads, orElse(o.UploadWorkers, 4))
	return h, nil
}

func hostName(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find out this machine's name: %w", err)
	}
	return name, nil
}

func named(o protocol.Options, host, what string) protocol.Options {
	o.Name = workerName(host, what)
	return o
}

func orElse[T comparable](value, other T) T {
	var zero T
	if value == zero {
		return other
	}
	return value
}
