// Package zuul fetches images that Zuul jobs build.
//
// It relies on these facts about Zuul's REST API and about the artifacts of image jobs:
//
//  1. A build gets its ID when it starts, so a build with a low ID may end after one with a higher ID. New builds are
//     found by a window over the newest successes, never by a high-water mark.
//  2. Times are UTC without a zone. Before Zuul 10, the attributes of the ref were attributes of the build.
//  3. A build with a change contains code that is not merged. Its image is not used unless its pipeline is trusted.
//  4. Artifacts and their addresses come from a job. They are never used as file names, and the token is never sent to
//     them.
//  5. Checksums in an artifact's metadata are those of the decompressed file. Only the extension of its address
//     determines the compression.
package zuul

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/fetch"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/resources"
)

// Builder fetches images that Zuul built. Its zero value is ready to use.
type Builder struct {
	Fetch fetch.Client  // settings of downloads; the builder sets HTTP
	Wait  time.Duration // before the second attempt of an API call; half a second when 0
	mu    sync.Mutex
	roots map[string]root // guarded by mu; by address
}

var (
	_ builders.Builder   = (*Builder)(nil)
	_ builders.Versioned = (*Builder)(nil)
)

// Kind implements builders.Builder.
func (*Builder) Kind() string { return "zuul" }

// Versions implements builders.Versioned.
func (b *Builder) Versions(ctx context.Context, _ string, config cty.Value, baseDir string) ([]resources.Version, error) {
	source, err := b.open(config, baseDir)
	if err != nil {
		return nil, err
	}
	defer source.close()
	found, err := source.list(ctx)
	if err != nil {
		return nil, source.hide(err)
	}
	var versions []resources.Version
	for _, build := range found.usable[:min(len(found.usable), builders.MaxVersions)] {
		versions = append(versions, resources.Version{ID: build.UUID, Time: build.ended})
	}
	return versions, nil
}

// Build implements builders.Builder.
func (b *Builder) Build(ctx context.Context, job builders.Job, log io.Writer) (builders.Artifact, error) {
	source, err := b.open(job.Config, job.BaseDir)
	if err != nil {
		return builders.Artifact{}, err
	}
	defer source.close()
	ctx, cancel := process.WithTimeout(ctx, job.Timeout)
	defer cancel()
	if ctx.Err() != nil {
		return builders.Artifact{}, context.Cause(ctx)
	}
	made, err := source.build(ctx, job, &logger{to: log, source: source})
	if err != nil {
		return builders.Artifact{}, source.hide(err)
	}
	return made, nil
}

// source is one zuul_image block with the client for its Zuul.
type source struct {
	settings
	api     *api
	fetch   fetch.Client
	builder *Builder
}

func (b *Builder) open(config cty.Value, baseDir string) (*source, error) {
	s, err := b.read(config, baseDir)
	if err != nil {
		return nil, err
	}
	forAPI, forArtifacts, err := newTransports(s)
	if err != nil {
		return nil, err
	}
	client := b.Fetch
	client.HTTP = fetch.NewClient(forArtifacts)
	return &source{settings: s, api: newAPI(s, forAPI, b.Wait), fetch: client, builder: b}, nil
}

func (s *source) close() {
	s.api.client.CloseIdleConnections()
	s.fetch.HTTP.CloseIdleConnections()
}

// hide masks tokens in an error's text.
func (s *source) hide(err error) error {
	return &maskedError{text: s.mask().Text(err.Error()), cause: err}
}

func (s *source) mask() *process.Masker {
	return process.NewMasker(append(slices.Clone(s.secrets), s.api.token.returned()...))
}

type maskedError struct {
	text  string
	cause error
}

func (e *maskedError) Error() string { return e.text }
func (e *maskedError) Unwrap() error { return e.cause }

// build fetches one version.
func (s *source) build(ctx context.Context, job builders.Job, log *logger) (builders.Artifact, error) {
	log.tell(job, "querying Zuul", 0, 0)
	build, err := s.find(ctx, job.Version)
	if err != nil {
		return builders.Artifact{}, err
	}
	offered, err := s.offers(build)
	if err != nil {
		return builders.Artifact{}, err
	}
	chosen := choose(job.Formats, offered)
	log.printf("using build %s of job %s, project %q, pipeline %q, ended %s; logs: %s", build.UUID, build.Job, build.project(),
		build.Pipeline, build.ended.Format(time.RFC3339), shownText(build.LogURL))
	files, extra, err := s.download(ctx, job, chosen, log)
	if err != nil {
		return builders.Artifact{}, fmt.Errorf("build %s: %w", build.UUID, err)
	}
	build.remember(extra)
	return builders.Artifact{Files: files, Extra: extra}, nil
}

// find returns the build with that ID, or the newest if id is empty.
func (s *source) find(ctx context.Context, id string) (*build, error) {
	if id == "" {
		found, err := s.list(ctx)
		if err != nil {
			return nil, err
		}
		if len(found.usable) == 0 {
			return nil, found.nothing(s.settings)
		}
		id = found.usable[0].UUID
	}
	if !uuidForm.MatchString(id) {
		return nil, fmt.Errorf("%q is not the ID of a Zuul build", id)
	}
	build, err := s.show(ctx, id)
	if err != nil {
		return nil, err
	}
	if why := s.refuse(build); why != "" {
		return nil, fmt.Errorf("build %s is not used: %s", id, why)
	}
	if build.UUID != id {
		return nil, fmt.Errorf("request build %s: Zuul returned another build (%s)", id, build.UUID)
	}
	return build, nil
}
