package drivers

import (
	"context"
	"log/slog"
	"time"
)

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
