package gearman

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/npctl/npctl/builders"
	protocol "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/resources"
)

// build does image-build:<image>.
func (h *Host) build(ctx context.Context, task *protocol.Task) ([]byte, error) {
	image := strings.TrimPrefix(task.Function, buildPrefix)
	request, err := readBuildRequest(task.Data)
	if err != nil {
		return nil, h.refuse(task, err)
	}
	id := string(request.ID)
	unlock, err := h.locks.exclusive(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	ctx, end := h.begin(ctx, id)
	defer end()
	begun := time.Now()
	log := h.log.With("image", image, "build", id)
	log.Info("build begins")
	talk := h.talk(task, request.Npctl.Reports)
	files, err := h.makeImage(ctx, image, request, talk)
	if err != nil {
		if errors.Is(context.Cause(ctx), errRemoved) {
			err = errRemoved
		}
		log.Warn("build failed", "took", time.Since(begun).Round(time.Millisecond), "error", err)
		end()
		return nil, talk.fail(err)
	}
	// Before the answer, since whoever gets it may ask for an upload at once. Also when the answer will reach nobody:
	// the build is here.
	h.offer(context.WithoutCancel(ctx), id)
	log.Info("build is ready", "took", time.Since(begun).Round(time.Millisecond))
	return toJSON(buildAnswer{ID: request.ID, Npctl: &buildFed{h.name, files}}), nil
}

func (h *Host) makeImage(ctx context.Context, image string, request buildRequest, talk *talk) ([]resources.ImageFile, error) {
	if seconds := request.Npctl.Timeout; seconds > 0 {
		limit := min(time.Duration(seconds), longestBuild) * time.Second
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("timeout after %s: %w", limit, context.DeadlineExceeded))
		defer cancel()
	}
	stop := h.follow(ctx, string(request.ID), talk)
	defer stop()
	return h.workshop.Make(ctx, image, string(request.ID), request.Npctl.Formats, talk.progress)
}

// longestBuild is in seconds: a year, so that no number overflows.
const longestBuild = 365 * 24 * 3600

// upload does image-upload:<id>.
func (h *Host) upload(ctx context.Context, task *protocol.Task) ([]byte, error) {
	id := strings.TrimPrefix(task.Function, uploadPrefix)
	request, err := readSendRequest(task.Data)
	if err != nil {
		return nil, h.refuse(task, err)
	}
	unlock, err := h.locks.shared(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	begun := time.Now()
	log := h.log.With("build", id, "provider", request.Provider)
	log.Info("upload begins")
	talk, extra := h.talk(task, request.Npctl.Reports), request.Npctl
	external, err := h.workshop.Send(ctx, builders.Sending{
		BuildID: id, Image: request.Image, Provider: request.Provider, Format: extra.Format, Name: extra.Name,
		Marks: resources.Marks(extra.Marks), Properties: extra.Properties, Tags: extra.Tags, Progress: task.Progress,
	})
	if err == nil && external == "" {
		err = errors.New("the cloud gave the image no id")
	}
	if err != nil {
		log.Warn("upload failed", "took", time.Since(begun).Round(time.Millisecond), "error", err)
		return nil, talk.fail(err)
	}
	log.Info("upload is ready", "took", time.Since(begun).Round(time.Millisecond), "external", external)
	return toJSON(sendAnswer{text(external)}), nil
}

// remove does image-delete:<id>. A build that is being made is stopped first. The functions are taken back after the answer, by the worker: gearmand would drop the
// answer otherwise.
func (h *Host) remove(ctx context.Context, task *protocol.Task) ([]byte, error) {
	id := strings.TrimPrefix(task.Function, deletePrefix)
	h.stop(id)
	unlock, err := h.locks.exclusive(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := h.workshop.Remove(ctx, id); err != nil {
		h.log.Warn("build cannot be removed", "build", id, "error", err)
		return nil, err // as an exception: the request has no room to ask for the reason in another way
	}
	h.withdraw(id)
	h.log.Info("build removed", "build", id)
	return nil, nil
}

// refuse answers a request that is wrong: WORK_FAIL where the original did so, and else an exception.
func (h *Host) refuse(task *protocol.Task, err error) error {
	h.log.Warn("gearman job refused", "function", task.Function, "error", err)
	if errors.Is(err, errRefused) {
		return fmt.Errorf("%w: %w", protocol.ErrFailed, err)
	}
	return err
}
