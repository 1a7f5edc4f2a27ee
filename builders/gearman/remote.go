package gearman

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/builders"
	protocol "github.com/npctl/npctl/internal/gearman"
)

// Upload implements builders.Remote.
func (b *Builder) Upload(ctx context.Context, s builders.UploadJob) (string, error) {
	data := toJSON(sendRequest{Provider: s.Provider, Image: s.Image, Npctl: &sendExtra{
		Format: s.Format, Name: s.Name, Marks: marks(s.Marks), Properties: s.Properties, Tags: s.Tags, Reports: true,
	}})
	var why failure
	answer, err := b.client.Do(ctx, protocol.Job{
		Function: uploadPrefix + s.BuildID, Unique: digest(data), Data: data, Wait: b.wait, Precheck: b.failIfNoHost(uploadPrefix + s.BuildID),
		Progress: func(done, total int64) {
			if s.Progress != nil && done >= 0 && done <= total {
				s.Progress(done, total)
			}
		},
		Output: func(data []byte) { why = why.or(data) },
	})
	if err != nil {
		return "", b.explain(fmt.Errorf("upload build %s to %s: %w", s.BuildID, s.Provider, err), why)
	}
	return readSendAnswer(answer)
}

// or returns the failure in data if data is a report of one, otherwise f.
func (f failure) or(data []byte) failure {
	if r, ok := readReport(data); ok && r.Error != "" {
		return failure{r.Error, r.Kind}
	}
	return f
}

// failIfNoHost rejects a job that would wait for a host which may never return.
func (b *Builder) failIfNoHost(function string) func(map[string]protocol.Function) error {
	return func(functions map[string]protocol.Function) error {
		if functions[function].Workers > 0 {
			return nil
		}
		return fmt.Errorf("%w: no build host offers %s at %s; is npctl builder running on its host?", builders.ErrHostUnavailable, function, strings.Join(b.servers, ", "))
	}
}

// Remove implements builders.Remote. If several hosts have the build, it removes the build from all of them.
func (b *Builder) Remove(ctx context.Context, buildID string) error {
	for hosts := 0; ; hosts++ {
		err := b.removeOnce(ctx, buildID)
		if errors.Is(err, builders.ErrHostUnavailable) && hosts > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		if gone, err := b.isGone(ctx, buildID); gone || err != nil || hosts == mostHosts {
			return err
		}
	}
}

// mostHosts limits the removal of a build that reappears after each removal.
const mostHosts = 16

func (b *Builder) removeOnce(ctx context.Context, buildID string) error {
	var why failure
	_, err := b.client.Do(ctx, protocol.Job{
		Function: deletePrefix + buildID, Unique: unique(buildID), Wait: b.wait, Precheck: b.failIfNoHost(deletePrefix + buildID),
		Output: func(data []byte) { why = why.or(data) },
	})
	if err != nil {
		return b.explain(fmt.Errorf("delete build %s: %w", buildID, err), why)
	}
	return nil
}

// isGone waits up to two seconds for the host to withdraw its functions, which it does after its answer.
func (b *Builder) isGone(ctx context.Context, buildID string) (bool, error) {
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); {
		functions, err := b.client.Status(ctx)
		if err != nil {
			return false, err
		}
		if functions[deletePrefix+buildID].Workers == 0 {
			return true, nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	return false, nil
}

// ListBuilds implements builders.Remote.
func (b *Builder) ListBuilds(ctx context.Context) (map[string]bool, error) {
	functions, err := b.client.Status(ctx)
	if err != nil {
		return nil, err
	}
	held := map[string]bool{}
	for name, f := range functions {
		if id, ok := strings.CutPrefix(name, uploadPrefix); ok && f.Workers > 0 {
			held[id] = true
		}
	}
	return held, nil
}

// hostPrefix is the prefix of the names of npctl's workers, which contain the host: npctl:<host>:upload-<number>.
const hostPrefix = "npctl:"

// Up implements builders.HostStatus. A host that starts or stops lists no builds for a moment, so Up checks twice.
func (b *Builder) Up(ctx context.Context, host string) (bool, error) {
	for range 2 {
		peers, err := b.client.Peers(ctx)
		if err != nil || !isUp(peers, host) {
			return false, err
		}
		select {
		case <-time.After(upPause):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
	return true, nil
}

const upPause = 500 * time.Millisecond

// isUp reports whether the host is ready to build and to upload. A starting host offers its builds before its images,
// and a stopping host first drops its idle connections.
func isUp(peers []protocol.Peer, host string) bool {
	connected := func(what string) bool {
		return slices.ContainsFunc(peers, func(p protocol.Peer) bool {
			return strings.HasPrefix(p.Name, workerName(host, what)+"-") && (what == uploading || len(p.Functions) > 0)
		})
	}
	return connected(building) && connected(uploading)
}

// Suffixes of the names of a host's workers.
const building, uploading, querying = "build", "upload", "query"

// workerName returns the name of a host's worker at the servers, where names have no blanks.
func workerName(host, what string) string {
	return strings.Join(strings.Fields(hostPrefix+host+":"+what), "-")
}

// hostOf returns the name of a host that offers a function.
func hostOf(peers []protocol.Peer, function string) string {
	for _, p := range peers {
		if !slices.Contains(p.Functions, function) {
			continue
		}
		if name, ours := strings.CutPrefix(p.Name, hostPrefix); ours {
			return name[:max(0, strings.LastIndexByte(name, ':'))] // a host name may contain colons
		}
		return p.Address
	}
	return ""
}
