package zuul

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/fetch"
	"github.com/npctl/npctl/internal/imagefile"
	"github.com/npctl/npctl/internal/qemuimg"
	"github.com/npctl/npctl/internal/text"
)

// atOnce is the number of concurrent downloads.
const atOnce = 3

// download fetches the files and returns the attributes to store with the build.
func (s *source) download(ctx context.Context, job builders.Job, chosen []offer, log *logger) ([]builders.File, map[string]string, error) {
	meter := newMeter(chosen, func(phase string, done, total int64) { log.tell(job, phase, done, total) })
	files := make([]builders.File, len(chosen))
	sums := make([]imagefile.Sums, len(chosen))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, o := range chosen {
		files[i] = builders.File{Format: o.format, Path: filepath.Join(job.Dir, job.Name) + "." + o.format}
		group.Go(func() (err error) {
			sums[i], err = s.fetchOne(ctx, o, files[i].Path, meter.of(i), log)
			if err != nil {
				return fmt.Errorf("artifact %.100q (%s): %w", o.artifact.Name, o.format, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		log.printf("%v", err)
		return nil, nil, err
	}
	extra := map[string]string{}
	for i, o := range chosen {
		extra["url_"+o.format] = bounded(fetch.Redacted(o.address))
		extra["sha256_"+o.format], extra["md5_"+o.format] = sums[i].SHA256, sums[i].MD5
	}
	return files, extra, nil
}

func (s *source) fetchOne(ctx context.Context, o offer, path string, progress func(done, total int64), log *logger) (imagefile.Sums, error) {
	began := time.Now()
	log.printf("fetching %s from %s", o.format, fetch.Redacted(o.address))
	got, err := s.fetch.Download(ctx, fetch.Request{
		URL: o.address, Path: path, Compression: o.packing, Limit: s.MaxSizeGB << 30, SHA256: o.sha256, MD5: o.md5,
		Progress: progress, Note: func(text string) { log.printf("%s: %s", o.format, text) },
	})
	var place *fetch.ForbiddenAddressError
	switch {
	case errors.As(err, &place):
		return got.Sums, fmt.Errorf("%w; npctl fetches nothing from there unless the image has local_artifacts = true", err)
	case errors.Is(err, fetch.ErrGone):
		return got.Sums, fmt.Errorf("%w: %w", builders.ErrVersionGone, err)
	case errors.Is(err, fetch.ErrTooLarge):
		return got.Sums, fmt.Errorf("%w; max_size_gb sets it", err)
	case err != nil:
		return got.Sums, err
	}
	if err := qemuimg.Check(path, o.format); err != nil {
		return got.Sums, err
	}
	checked := "its metadata has no checksum"
	if o.sha256+o.md5 != "" {
		checked = "equal to its metadata"
	}
	log.printf("%s has %s, sent as %s in %s; sha256 %s, %s", o.format, text.Bytes(got.Size), text.Bytes(got.Sent),
		time.Since(began).Round(time.Millisecond), got.SHA256, checked)
	return got.Sums, nil
}

// meter sums the progress of several files.
type meter struct {
	phase      string
	onProgress func(phase string, done, total int64)
	mu         sync.Mutex
	done       []int64   // guarded by mu
	total      []int64   // guarded by mu; 0 when unknown
	reportedAt time.Time // guarded by mu
}

// reportInterval is the minimum time between two reports.
const reportInterval = 100 * time.Millisecond

func newMeter(chosen []offer, tell func(phase string, done, total int64)) *meter {
	var formats []string
	for _, o := range chosen {
		formats = append(formats, o.format)
	}
	return &meter{phase: "fetching " + strings.Join(formats, ", "), onProgress: tell, done: make([]int64, len(chosen)), total: make([]int64, len(chosen))}
}

// of returns the progress function of one file. It reports under the lock, so that reports arrive in order.
func (m *meter) of(i int) func(done, total int64) {
	return func(done, total int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.done[i], m.total[i] = done, total
		if now := time.Now(); now.Sub(m.reportedAt) >= reportInterval || done == total {
			m.reportedAt = now
			m.report()
		}
	}
}

// report reports the sum, without a total while one is missing.
func (m *meter) report() {
	var done, total int64
	known := true
	for i := range m.done {
		done, total = done+m.done[i], total+m.total[i]
		known = known && m.total[i] > 0
	}
	if !known {
		m.onProgress(m.phase+", "+text.Bytes(done), 0, 0)
		return
	}
	m.onProgress(m.phase, min(done, total), total)
}

// logger writes lines from several goroutines and masks secrets.
type logger struct {
	source *source
	mu     sync.Mutex
	to     io.Writer // guarded by mu
}

func (l *logger) printf(format string, args ...any) {
	text := l.source.mask().Text(fmt.Sprintf(format, args...))
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.to, "npctl: %s\n", text)
}

// tell forwards progress to the job.
func (l *logger) tell(job builders.Job, phase string, done, total int64) {
	if job.Progress != nil {
		job.Progress(phase, done, total)
	}
}
