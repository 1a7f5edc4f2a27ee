package main

import (
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
		a.log = a.ui.Warnings()
		return nil
	}
	var from slog.Level
	if err := from.UnmarshalText([]byte(level)); err != nil {
		return hint(fmt.Errorf("log level %q does not exist", level), "write debug, info, warn or error")
	}
	options := &slog.HandlerOptions{Level: from}
	if format == "json" {
		options.ReplaceAttr = inSeconds
		a.log = slog.New(slog.NewJSONHandler(a.ui.Err, options))
	} else {
		a.log = slog.New(slog.NewTextHandler(a.ui.Err, options))
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
