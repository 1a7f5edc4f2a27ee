package gearman

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/builders"
	protocol "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/resources"
)

// Upload implements builders.Remote.
func (b *Builder) Upload(ctx context.Context, s builders.UploadJob) (string, error) {
	data := toJSON(sendRequest{Provider: s.Provider, Image: s.Image, Npctl: &sendExtra{
		Format: s.Format, Name: s.Name, Marks: resources.OwnerJSON(s.Marks), Properties: s.Properties, Tags: s.Tags, Reports: true,
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
		if err := waits.Sleep(ctx, upPause); err != nil {
			return false, err
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

// hostOf returns the name of a host that offers a function, or the address of a worker that is not npctl's.
func hostOf(peers []protocol.Peer, function string) string {
	for _, p := range peers {
		if slices.Contains(p.Functions, function) {
			return cmp.Or(hostOfWorker(p), p.Address)
		}
	}
	return ""
}

// hostsOf returns the names of the hosts that offer a function, "" for workers that are not npctl's.
func hostsOf(peers []protocol.Peer, function string) (hosts []string) {
	for _, p := range peers {
		if slices.Contains(p.Functions, function) {
			hosts = append(hosts, hostOfWorker(p))
		}
	}
	return hosts
}

// hostOfWorker returns the host in the name of a worker of npctl, or "".
func hostOfWorker(p protocol.Peer) string {
	name, ours := strings.CutPrefix(p.Name, hostPrefix)
	if !ours {
		return ""
	}
	return name[:max(0, strings.LastIndexByte(name, ':'))] // a host name may contain colons
}
