package drivers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/time/rate"

	"github.com/npctl/npctl/internal/waits"
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

// Decorate applies the decorators that every Cloud needs: retry(limit(timeout(volume(trace(cloud))))).
//
// The order matters. Each attempt waits for the rate limit, so that retries cannot multiply the calls. The timeout is
// inside both: it limits the response time of the cloud, and neither the wait for the rate limit nor the backoff counts.
// The volume limits the bytes of the responses to one attempt (see BoundBodies).
// The trace is innermost, so that it measures the cloud and not npctl.
func Decorate(c Cloud, o DecorateOptions) Cloud {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return Wrap(c, chain(Retry(o.Attempts, o.Log), Limit(o.Rate), Timeout(o.Timeout, o.UploadTimeout), boundVolume, Trace(o.Provider, o.Log, o.OnCall), causesFirst))
}

// causesFirst applies CauseFirst to the error of a call.
func causesFirst(ctx context.Context, _ Call, next func(context.Context) error) error {
	return CauseFirst(next(ctx))
}

// Call describes one call of a Cloud to decorators.
type Call struct {
	Name    string // such as create, list or upload_image
	Subject string // the object of the call: a node's ID, an image's name; empty for lists
	// Retry states when the call may be repeated after an error.
	Retry retryPolicy
	// Weight states how long the call may take.
	Weight timeoutClass
}

// retryPolicy states when a call may be repeated.
type retryPolicy int

const (
	// retryAlways is for calls that are safe to repeat: lists, lookups, deletions.
	retryAlways retryPolicy = iota //nolint:unused // the zero value
	// retryIfNothingDone is for calls that create something: only an error that proves that nothing was created
	// permits a repetition. After a lost response the caller has to search for the object first (see
	// Spec.MaybeCreated), and the object may appear later than any search that a decorator could make.
	retryIfNothingDone
	// retryUnlessTimedOut is for calls that remove what an earlier attempt created (see ImageSpec.MaybeCreated). A
	// call that used up its own timeout is not repeated, because the repetition would take as long.
	retryUnlessTimedOut
)

// timeoutClass selects the timeout of a call.
type timeoutClass int

// The timeout classes.
const (
	single     timeoutClass = iota // one object
	paged                          // a list of any length
	wholeImage                     // an image
)

// Decorator wraps a call: it calls next once, several times or not at all.
type Decorator func(ctx context.Context, call Call, next func(context.Context) error) error

// chain combines decorators into one; the first is the outermost.
func chain(arounds ...Decorator) Decorator {
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		for i := len(arounds) - 1; i >= 0; i-- {
			around, inner := arounds[i], next
			next = func(ctx context.Context) error { return around(ctx, call, inner) }
		}
		return next(ctx)
	}
}

// Wrap applies a decorator to all calls of a Cloud, including those of its abilities (see ImagesOf and similar
// functions).
func Wrap(c Cloud, around Decorator) Cloud {
	d := &decoratedCloud{inner: c, around: around}
	if b, ok := c.(BatchDeleter); ok {
		d.deletions = &deletions{cloud: b, around: around}
	}
	return d
}

// do runs a call that returns a value through a decorator.
func do[T any](ctx context.Context, around Decorator, call Call, f func(context.Context) (T, error)) (T, error) {
	var result T
	err := around(ctx, call, func(ctx context.Context) (err error) {
		result, err = f(ctx)
		return err
	})
	return result, err
}

// Backoff between attempts: exponential, with jitter so that many callers do not retry at the same moment.
const (
	initialBackoff = 500 * time.Millisecond
	maxBackoff     = 20 * time.Second
)

// RetryAfterLimit is the longest total time for which one call waits because the cloud asks for it with Retry-After.
const RetryAfterLimit = 2 * time.Minute

// Retry repeats a call after transient errors; attempts limits their total number. It does not repeat after
// ErrRejected, ErrQuota, ErrCapacity and ErrNotSupported, when the caller's context has ended, and where a repetition
// could create a second object (see retryPolicy). An error with RetryAfter counts as no attempt: the call waits for
// the requested time, up to RetryAfterLimit in total.
func Retry(attempts int, log *slog.Logger) Decorator {
	if attempts <= 0 {
		attempts = defaultAttempts
	}
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		growing, waited := backoff.NewExponentialBackOff(), time.Duration(0)
		growing.InitialInterval, growing.MaxInterval = initialBackoff, maxBackoff
		for attempt := 1; ; {
			err := next(ctx)
			if err == nil || ctx.Err() != nil || !mayRepeat(call, err) {
				return err
			}
			pause := RetryAfterOf(err)
			if pause > 0 {
				waited += pause
			} else {
				attempt++
				pause = growing.NextBackOff()
			}
			if attempt > attempts || waited > RetryAfterLimit {
				return err
			}
			log.LogAttrs(ctx, slog.LevelInfo, "cloud call failed, retrying",
				slog.String("call", call.String()), slog.Duration("pause", pause), slog.String("error", err.Error()))
			if waits.Sleep(ctx, pause) != nil {
				return err // return the cloud's error, even when the context ended during the backoff
			}
		}
	}
}

// mayRepeat reports whether the call may be repeated after the error.
func mayRepeat(call Call, err error) bool {
	var late *timeoutError
	switch {
	case !IsTransient(err):
		return false
	case call.Retry == retryIfNothingDone:
		return IsNothingDone(err)
	case call.Retry == retryUnlessTimedOut:
		return !errors.As(err, &late)
	default:
		return true
	}
}

// IsTransient reports whether the same call may succeed later while the configuration and the available capacity
// stay the same.
func IsTransient(err error) bool {
	for _, final := range []error{ErrRejected, ErrQuota, ErrCapacity, ErrNotSupported} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// RetryAfterOf returns the time that the cloud asked to wait, or 0.
func RetryAfterOf(err error) time.Duration {
	var known RetryAfter
	if errors.As(err, &known) {
		return known.RetryAfter()
	}
	return 0
}

// Limit permits perSecond calls per second, first come, first served, with bursts of one second's calls; 0 means no
// limit. Checks of static machines do not count, because they connect to the machine and not to an API. Drivers answer
// most lookups of names from a cache, and most instances leave nothing, so a lookup and the end of a deletion count only if they have
// sent a request, and wait afterwards.
func Limit(perSecond float64) Decorator {
	if perSecond <= 0 {
		return func(ctx context.Context, _ Call, next func(context.Context) error) error { return next(ctx) }
	}
	limiter := rate.NewLimiter(rate.Limit(perSecond), int(max(1, math.Floor(perSecond))))
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		switch call.Name {
		case callCheck:
			return next(ctx)
		case callResolveOffer, callResolveImage, callFinishDeletion:
			counted, sent := countRequests(ctx)
			err := next(counted)
			if sent.Load() > 0 {
				_ = limiter.Wait(ctx) // the answer is there, also when ctx ends
			}
			return err
		}
		if err := limiter.Wait(ctx); err != nil {
			return Unsent(fmt.Errorf("%s: wait for the rate limit of %g calls a second: %w", call, perSecond, err))
		}
		return next(ctx)
	}
}

// pagedFactor is the ratio of the timeouts of lists and of single objects.
const pagedFactor = 10

// Timeout limits the duration of calls. Zero means the default; the timeout cannot be disabled.
func Timeout(call, upload time.Duration) Decorator {
	if call <= 0 {
		call = DefaultTimeout
	}
	if upload <= 0 {
		upload = DefaultUploadTimeout
	}
	return func(ctx context.Context, c Call, next func(context.Context) error) error {
		limit := call
		switch c.Weight {
		case paged:
			limit *= pagedFactor
		case wholeImage:
			limit = upload
		}
		late := &timeoutError{call: c, after: limit}
		ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
		defer cancel()
		err := next(ctx)
		// Return the timeout error only if this timeout expired, not the caller's deadline.
		if err != nil && errors.Is(context.Cause(ctx), late) && errors.Is(err, context.DeadlineExceeded) {
			return late
		}
		return err
	}
}

type timeoutError struct {
	call  Call
	after time.Duration
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("%s: no answer within %s", e.call, e.after)
}

func (e *timeoutError) Unwrap() []error { return []error{context.DeadlineExceeded, ErrUnavailable} }

// Report describes one completed call.
type Report struct {
	Call
	Provider string
	Took     time.Duration
	Err      error
}

// Trace writes every call to the debug log, which already names the provider, and passes it to observe, unless that
// is nil.
func Trace(provider string, log *slog.Logger, observe func(Report)) Decorator {
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		start := time.Now()
		err := next(ctx)
		report := Report{Call: call, Provider: provider, Took: time.Since(start), Err: err}
		if observe != nil {
			observe(report)
		}
		if log.Enabled(ctx, slog.LevelDebug) {
			log.LogAttrs(ctx, slog.LevelDebug, "cloud call", report.attrs()...)
		}
		return err
	}
}

func (r Report) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("call", r.Name), slog.Duration("took", r.Took)}
	if r.Subject != "" {
		attrs = append(attrs, slog.String("subject", r.Subject))
	}
	if r.Err != nil {
		attrs = append(attrs, slog.String("error", r.Err.Error()))
	}
	return attrs
}

// String returns the name and subject of a call, for errors and logs.
func (c Call) String() string {
	if c.Subject == "" {
		return c.Name
	}
	return c.Name + " " + c.Subject
}

// ErrReadOnly is the error of calls that ReadOnly blocks.
var ErrReadOnly = errors.New("read-only mode, the call was not made")

// ReadOnly permits only the calls that it knows to be read-only; an unknown call may change something.
func ReadOnly() Decorator {
	return func(ctx context.Context, call Call, next func(context.Context) error) error {
		switch call.Name {
		case "list", "quota", "list_images", callResolveOffer, callResolveImage, "leftovers", "unneeded":
			return next(ctx)
		default:
			return fmt.Errorf("%s: %w: %w", call, ErrRejected, ErrReadOnly)
		}
	}
}
