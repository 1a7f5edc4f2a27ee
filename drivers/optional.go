package drivers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// Optional makes a call of which a provider needs no result, such as the quotas, which may need more permissions than
// all others. The zero value is usable.
type Optional struct {
	mu     sync.Mutex
	warned bool      // guarded by mu
	until  time.Time // guarded by mu; no call before
}

const (
	optionalLimit = 10 * time.Second // of one call
	optionalPause = 10 * time.Second // after an error
	hungPause     = time.Minute      // after a call that used up its time
)

// Do makes the call, unless it failed a short time ago. Its failure is a warning in the log, the first time. The error is that
// of the call if the caller's ctx is done.
func (o *Optional) Do(ctx context.Context, log *slog.Logger, warning string, call func(context.Context) error) error {
	if o.paused() {
		return context.Cause(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, optionalLimit)
	defer cancel()
	err := call(limited)
	if err == nil || ctx.Err() != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	pause := optionalPause
	switch {
	case errors.Is(err, ErrRejected):
		pause = CacheAge
	case limited.Err() != nil:
		pause = hungPause
	}
	o.until = time.Now().Add(pause)
	if !o.warned {
		o.warned = true
		log.Warn(warning, "error", err)
	}
	return nil
}

func (o *Optional) paused() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return time.Now().Before(o.until)
}
