package terminal

import (
	"context"
	"log/slog"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

// Warnings returns a log that prints only warnings, as sentences.
func (u *UI) Warnings() *slog.Logger { return slog.New(&sentences{ui: u}) }

// sentences is a handler that prints warnings as sentences.
type sentences struct {
	ui    *UI
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
		value := text.Block(strings.TrimSpace(attr.Value.String()))
		switch {
		case strings.Contains(value, "\n"):
			long.WriteString("\n    " + strings.ReplaceAll(value, "\n", "\n    "))
		case attr.Key == "error":
			cause = ": " + value
		default:
			facts = append(facts, attr.Key+" "+value)
		}
		return true
	}
	for _, attr := range h.attrs {
		add(attr)
	}
	r.Attrs(add)
	message := r.Message
	if len(facts) > 0 {
		message += " (" + strings.Join(facts, ", ") + ")"
	}
	if h.ui.Compact {
		long.Reset()
	}
	h.ui.Warning("Warning:", "%s%s%s", message, cause, long.String())
	return nil
}
