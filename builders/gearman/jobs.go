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

// build handles image-build:<image>.
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
	log.Info("build started")
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
	// Before the answer, since its receiver may request an upload at once. Also if the answer reaches no client,
	// because the build exists.
	h.offer(context.WithoutCancel(ctx), id)
	log.Info("build is ready", "took", time.Since(begun).Round(time.Millisecond))
	return toJSON(buildAnswer{ID: request.ID, Npctl: &buildResult{h.name, files}}), nil
}

func (h *Host) makeImage(ctx context.Context, image string, request buildRequest, talk *jobReport) ([]resources.ImageFile, error) {
	if seconds := request.Npctl.Timeout; seconds > 0 {
		limit := min(time.Duration(seconds), longestBuild) * time.Second
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("timeout after %s: %w", limit, context.DeadlineExceeded))
		defer cancel()
	}
	stop := h.follow(ctx, string(request.ID), talk)
	defer stop()
	return h.service.Build(ctx, builders.RemoteBuild{Image: image, BuildID: string(request.ID), Version: request.Npctl.Version,
		Formats: request.Npctl.Formats, Progress: talk.progress})
}

// longestBuild is the longest timeout in seconds: a year, so that no number overflows.
const longestBuild = 365 * 24 * 3600

// upload handles image-upload:<id>.
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
	log.Info("upload started")
	talk, extra := h.talk(task, request.Npctl.Reports), request.Npctl
	external, err := h.service.Upload(ctx, builders.UploadJob{
		BuildID: id, Image: request.Image, Provider: request.Provider, Format: extra.Format, Name: extra.Name,
		Marks: resources.OwnerTags(extra.Marks), Properties: extra.Properties, Tags: extra.Tags, Progress: task.Progress,
	})
	if err == nil && external == "" {
		err = errors.New("the cloud returned no image ID")
	}
	if err != nil {
		log.Warn("upload failed", "took", time.Since(begun).Round(time.Millisecond), "error", err)
		return nil, talk.fail(err)
	}
	log.Info("upload is ready", "took", time.Since(begun).Round(time.Millisecond), "external", external)
	return toJSON(sendAnswer{text(external)}), nil
}

// remove handles image-delete:<id>. It stops a running build first. The worker withdraws the functions after the
// answer, because gearmand would otherwise drop the answer.
func (h *Host) remove(ctx context.Context, task *protocol.Task) ([]byte, error) {
	id := strings.TrimPrefix(task.Function, deletePrefix)
	h.stop(id)
	unlock, err := h.locks.exclusive(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := h.service.Remove(ctx, id); err != nil {
		h.log.Warn("build cannot be removed", "build", id, "error", err)
		return nil, err // as an exception, because the request has no field to ask for the reason
	}
	h.withdraw(id)
	h.log.Info("build removed", "build", id)
	return nil, nil
}

// failWithdrawn fails a job that a server sent before this host withdrew its function.
func (h *Host) failWithdrawn(_ context.Context, task *protocol.Task) ([]byte, error) {
	err := fmt.Errorf("%s no longer offers %s: %w", h.name, task.Function, builders.ErrHostUnavailable)
	return nil, h.talk(task, requestsReports(task.Data)).fail(err)
}

// refuse answers an invalid request: with WORK_FAIL where the original did so, otherwise with an exception.
func (h *Host) refuse(task *protocol.Task, err error) error {
	h.log.Warn("gearman job rejected", "function", task.Function, "error", err)
	if errors.Is(err, errRefused) {
		return fmt.Errorf("%w: %w", protocol.ErrFailed, err)
	}
	return err
}
