package drivers

import (
	"log/slog"
	"time"
)

// DecorateOptions configure the calls of a provider. The zero value is usable.
type DecorateOptions struct {
	Provider string
	Log      *slog.Logger // nil means no log
	// Rate is the number of calls per second, which is also the burst size; 0 means no limit.
	Rate float64
	// Timeout limits one call; 0 means DefaultTimeout. Lists, which may have many pages, have ten times as long.
	Timeout time.Duration
	// UploadTimeout limits the upload of one image; 0 means DefaultUploadTimeout.
	UploadTimeout time.Duration
	// Attempts is the maximum number of attempts of a call; 0 means defaultAttempts, 1 means no retries.
	Attempts int
	// OnCall, if not nil, receives a report of every single attempt. Several goroutines may call it at the same time.
	OnCall func(Report)
}

// The defaults of DecorateOptions.
const (
	DefaultTimeout       = 60 * time.Second
	DefaultUploadTimeout = time.Hour
	defaultAttempts      = 4
)

// Decorate applies the decorators that every Cloud needs: retry(limit(timeout(trace(cloud)))).
//
// The order matters. Each attempt waits for the rate limit, so that retries cannot multiply the calls. The timeout is
// inside both: it limits the response time of the cloud, and neither the wait for the rate limit nor the backoff counts.
// The trace is innermost, so that it measures the cloud and not npctl.
func Decorate(c Cloud, o DecorateOptions) Cloud {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return Wrap(c, chain(Retry(o.Attempts, o.Log), Limit(o.Rate), Timeout(o.Timeout, o.UploadTimeout), Trace(o.Provider, o.Log, o.OnCall)))
}
