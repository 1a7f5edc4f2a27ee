package gearman

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	protocol "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/resources"
)

// versionsTimeout limits a query of versions, at the client and at the host.
const versionsTimeout = time.Minute

// Versions implements builders.Versioned. It lets a build host query the external source of the image. No host offers
// the function if the host is down, is of an older npctl or not of npctl, or if the image has no external source there.
func (b *Builder) Versions(ctx context.Context, image string, config cty.Value, _ string) ([]resources.Version, error) {
	image, err := b.hostImage(image, config)
	if err != nil {
		return nil, err
	}
	function := versionsPrefix + image
	ctx, cancel := context.WithTimeoutCause(ctx, versionsTimeout, fmt.Errorf("no response within %s", versionsTimeout))
	defer cancel()
	var why failure
	data, err := b.client.Do(ctx, protocol.Job{
		Function: function, Precheck: failIfNoVersions(function),
		Output: func(data []byte) { why = why.or(data) },
	})
	if errors.Is(err, protocol.ErrNoWorker) { // it has gone since the check
		err = fmt.Errorf("%w: %w", builders.ErrNoVersions, err)
	}
	switch {
	case errors.Is(err, builders.ErrNoVersions):
		if _, again := b.unversioned.LoadOrStore(image, true); !again {
			b.log.Info("build hosts report no versions of an image, so new versions of an external source are not noticed; "+
				"if a zuul_image of a build host has this name, the host has to be up and to run this version of npctl", "image", image)
		}
		return nil, err
	case err != nil:
		return nil, b.explain(fmt.Errorf("list versions of %s: %w", image, err), why)
	}
	b.unversioned.Delete(image)
	return readVersions(data)
}

func failIfNoVersions(function string) func(map[string]protocol.Function) error {
	return func(functions map[string]protocol.Function) error {
		if functions[function].Workers == 0 {
			return fmt.Errorf("no build host offers %s: %w", function, builders.ErrNoVersions)
		}
		return nil
	}
}

// hostImage returns the name of an image at the build hosts.
func (b *Builder) hostImage(image string, config cty.Value) (string, error) {
	var own block
	if _, err := builders.Decode(config, b.Schema(), &own); err != nil {
		return "", err
	}
	image = cmp.Or(own.Image, image)
	if err := checkName(image); err != nil {
		return "", fmt.Errorf("%q is not a valid image name for build hosts: %w", image, err)
	}
	return image, nil
}

// versions handles image-versions:<image>.
func (h *Host) versions(ctx context.Context, task *protocol.Task) ([]byte, error) {
	image := strings.TrimPrefix(task.Function, versionsPrefix)
	ctx, cancel := context.WithTimeout(ctx, versionsTimeout)
	defer cancel()
	found, err := h.service.Versions(ctx, image)
	if err != nil {
		h.log.Warn("the versions of an image cannot be listed", "image", image, "error", err)
		return nil, h.talk(task, true).fail(err)
	}
	answer := versionsAnswer{Versions: []version{}}
	for _, v := range found {
		answer.Versions = append(answer.Versions, version(v))
	}
	return toJSON(answer), nil
}

// offerVersions offers the versions of the images that have an external source, and withdraws the others. Requires
// reloading.
func (h *Host) offerVersions(ctx context.Context) {
	now := h.service.VersionedImages()
	for _, image := range without(h.versioned, now) {
		h.queries.Remove(versionsPrefix + image)
	}
	for _, image := range without(now, h.versioned) {
		if err := h.queries.Add(ctx, h.versions, versionsPrefix+image); err != nil {
			h.log.Warn("the versions of an image are not registered at all gearman servers", "image", image, "error", err)
		}
	}
	h.versioned = now
}
