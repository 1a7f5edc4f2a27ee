package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// openLog sets up the log on stderr. Without a level it prints only warnings, as sentences; the command itself reports
// errors.
func (a *app) openLog() error {
	level, format := a.global.logLevel, a.global.logFormat
	if text, ok := a.lookupEnv("NPCTL_LOG"); ok && level == "" {
		var inner string
		level, inner, _ = strings.Cut(text, ",")
		if format == "" {
			format = inner
		}
	}
	if format == "" {
		format = "text"
	}
	if format != "text" && format != "json" {
		return hint(fmt.Errorf("log format %q does not exist", format), "write text or json")
	}
	if level == "" || level == "off" {
		a.log = slog.New(&sentences{ui: a.ui})
		return nil
	}
	var from slog.Level
	if err := from.UnmarshalText([]byte(level)); err != nil {
		return hint(fmt.Errorf("log level %q does not exist", level), "write debug, info, warn or error")
	}
	options := &slog.HandlerOptions{Level: from}
	if format == "json" {
		options.ReplaceAttr = inSeconds
		a.log = slog.New(slog.NewJSONHandler(a.ui.err, options))
	} else {
		a.log = slog.New(slog.NewTextHandler(a.ui.err, options))
	}
	return nil
}

// inSeconds writes durations as seconds and adds that unit to the name: took becomes took_seconds. JSON has no unit for
// durations.
func inSeconds(_ []string, attr slog.Attr) slog.Attr {
	if attr.Value.Kind() != slog.KindDuration {
		return attr
	}
	return slog.Float64(attr.Key+"_seconds", attr.Value.Duration().Seconds())
}

// sentences is a handler that prints warnings as sentences.
type sentences struct {
	ui    *ui
	attrs []slog.Attr
}

var _ slog.Handler = (*sentences)(nil)

// Enabled implements slog.Handler.
func (*sentences) Enabled(_ context.Context, level slog.Level) bool { return level == slog.LevelWarn }

// WithAttrs implements slog.Handler.
func (h *sentences) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &sentences{h.ui, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup implements slog.Handler. It ignores groups.
func (h *sentences) WithGroup(string) slog.Handler { return h }

// Handle implements slog.Handler. It prints a value of several lines, such as a console, below the message.
func (h *sentences) Handle(_ context.Context, r slog.Record) error {
	var facts []string
	var cause string
	var long strings.Builder
	add := func(attr slog.Attr) bool {
		text := visible(strings.TrimSpace(attr.Value.String()))
		switch {
		case strings.Contains(text, "\n"):
			long.WriteString("\n    " + strings.ReplaceAll(text, "\n", "\n    "))
		case attr.Key == "error":
			cause = ": " + text
		default:
			facts = append(facts, attr.Key+" "+text)
		}
		return true
	}
	for _, attr := range h.attrs {
		add(attr)
	}
	r.Attrs(add)
	text := r.Message
	if len(facts) > 0 {
		text += " (" + strings.Join(facts, ", ") + ")"
	}
	if h.ui.compact {
		long.Reset()
	}
	h.ui.message("%s %s%s%s", h.ui.style(styleWarning, "Warning:"), text, cause, long.String())
	return nil
}
