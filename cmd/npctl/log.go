package main

import (
	"cmp"
	"log/slog"
	"strings"
)

// The values of -log-level and -log-format.
var (
	logLevels  = choices{"debug", "info", "warn", "error"}
	logFormats = choices{"text", "json"}
)

// openLog sets up the log on stderr. Without a level it prints only warnings, as sentences; the command itself reports
// errors.
func (a *app) openLog() error {
	level, format := a.global.logLevel, a.global.logFormat
	if text, ok := a.lookupEnv("NPCTL_LOG"); ok && level == "" {
		var inner string
		level, inner, _ = strings.Cut(text, ",")
		format = cmp.Or(format, inner)
	}
	format = cmp.Or(format, "text")
	if err := logFormats.check("log format", format); err != nil {
		return err
	}
	if level == "" || level == "off" {
		a.log = a.ui.Warnings()
		return nil
	}
	var from slog.Level
	if err := from.UnmarshalText([]byte(level)); err != nil {
		return logLevels.check("log level", level)
	}
	a.log = slog.New(slog.NewTextHandler(a.ui.Err, &slog.HandlerOptions{Level: from}))
	if format == "json" {
		a.log = slog.New(slog.NewJSONHandler(a.ui.Err, &slog.HandlerOptions{Level: from, ReplaceAttr: inSeconds}))
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
