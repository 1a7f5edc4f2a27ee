package drivers

import (
	"log/slog"
	"time"
)

// DecorateOptions say how a provider's calls are made. Its zero value is usable.
type DecorateOptions struct {
	Provider string
	Log      *slog.Logger // nil means no log
	// Rate is the calls a second, with bursts of as many; 0 means no limit.
	Rate float64
	// Timeout is of one call; 0 means DefaultTimeout. Lists, which may have many pages, get ten times as long.
	Timeout time.Duration
	// UploadTimeout is of one image; 0 means DefaultUploadTimeout.
	UploadTimeout time.Duration
	// Attempts is how often a call is made at the most; 0 means DefaultAttempts, 1 means no retries.
	Attempts int
	// Observe, when set, is told of every single call. It may be called from several goroutines.
	Observe func(Report)
}

// The defaults of DecorateOptions.
const (
	DefaultTimeout       = 60 * time.Second
	DefaultUploadTimeout = time.Hour
	DefaultAttempts      = 4
)

// Decorate puts everything around a Cloud that every Cloud needs: retry(limit(timeout(trace(cloud)))).
//
// The order matters. Each try takes its turn in the rate limit, so that retries cannot multiply the calls. The
// timeout is inside both: it is the cloud's time to answer, and neither waiting for a turn nor pausing between tries
// uses it up. The trace is innermost, so that it measures the cloud and not us.
func Decorate(c Cloud, o DecorateOptions) Cloud {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return Wrap(c, chain(Retry(o.Attempts, o.Log), Limit(o.Rate), Timeout(o.Timeout, o.UploadTimeout), Trace(o.Provider, o.Log, o.Observe)))
}
