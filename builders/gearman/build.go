package gearman

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/npctl/npctl/builders"
	protocol "github.com/npctl/npctl/internal/gearman"
)

// errBuildExists ends a build that a build host already has.
var errBuildExists = errors.New("a build host has it already")

// Build implements builders.Builder. It makes a build host build the image, or waits for the host that already builds
// it. It does not repeat a build that a host has. The time limit starts when a host starts. When ctx is done, the host
// continues; a later Build with the same ID resumes waiting for it.
func (b *Builder) Build(ctx context.Context, job builders.Job, log io.Writer) (builders.Artifact, error) {
	image, err := b.image(job)
	if err != nil {
		return builders.Artifact{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &watch{job: job, log: &limited{to: log, left: logLimit}, cancel: cancel}
	defer w.stop()
	w.logf("requesting a build from gearman servers %s: %s%s", strings.Join(b.servers, ", "), buildPrefix, image)
	w.report("waiting for a build host", 0, 0)
	data, err := b.client.Do(ctx, protocol.Job{
		Function: buildPrefix + image, Unique: unique(job.BuildID), Data: b.request(job), Wait: b.wait,
		Precheck: failIfBuilt(job.BuildID), Waiting: w.waiting, Running: w.running, Progress: w.progress, Output: w.output,
	})
	if errors.Is(err, errBuildExists) {
		return b.found(ctx, job.BuildID, w)
	}
	if err != nil {
		return builders.Artifact{}, b.explain(fmt.Errorf("build: %w", err), w.failure)
	}
	made, err := readBuildAnswer(data, job.BuildID)
	if err != nil {
		return builders.Artifact{}, err
	}
	w.logf("built on %s", orUnknown(made.Host))
	return builders.Artifact{RemoteFiles: made.Files, Host: made.Host}, nil
}

func (b *Builder) image(job builders.Job) (string, error) {
	image, err := b.hostImage(job.Image, job.Config)
	if err != nil {
		return "", err
	}
	if err := checkName(job.BuildID); err != nil {
		return "", fmt.Errorf("%q is not a valid build ID for build hosts: %w", job.BuildID, err)
	}
	return image, nil
}

func (b *Builder) request(job builders.Job) []byte {
	return toJSON(buildRequest{ID: text(job.BuildID), Npctl: &buildExtra{
		Formats: job.Formats, Version: job.Version, Timeout: int64(job.Timeout / time.Second), Reports: true,
	}})
}

// unique returns the unique ID of the job: the build ID, or its digest if the ID is too long.
func unique(id string) string {
	if len(id) <= protocol.MaxUnique {
		return id
	}
	return digest([]byte(id))
}

func failIfBuilt(id string) func(map[string]protocol.Function) error {
	return func(functions map[string]protocol.Function) error {
		if functions[uploadPrefix+id].Workers > 0 {
			return errBuildExists
		}
		return nil
	}
}

// found returns the artifact of a build that was made before. Its list of files is unknown, because hosts report it
// only once.
func (b *Builder) found(ctx context.Context, id string, w *watch) (builders.Artifact, error) {
	peers, err := b.client.Peers(ctx)
	if err != nil {
		return builders.Artifact{}, err
	}
	host := hostOf(peers, uploadPrefix+id)
	w.logf("was built before, on %s", orUnknown(host))
	return builders.Artifact{Host: host}, nil
}

func orUnknown(host string) string {
	return cmp.Or(host, "a build host without a name")
}

// failure is the reason why a host could not do a job.
type failure struct{ text, kind string }

// explain returns the error for a failure that a host reported.
func (b *Builder) explain(err error, said failure) error {
	switch {
	case !errors.Is(err, protocol.ErrFailed):
		return err
	case said.text == "":
		return fmt.Errorf("%w without a reason: see its log", err)
	}
	if kind := b.kinds[said.kind]; kind != nil {
		return &hostError{said.text, kind}
	}
	return &hostError{said.text, protocol.ErrFailed}
}

// hostError is an error that occurred on a build host.
type hostError struct {
	text string
	kind error
}

func (e *hostError) Error() string { return e.text }
func (e *hostError) Unwrap() error { return e.kind }

// readReport parses WORK_DATA. Data that is not a report comes from another program and is ignored.
func readReport(data []byte) (r report, ok bool) {
	return r, json.Unmarshal(data, &r) == nil
}
