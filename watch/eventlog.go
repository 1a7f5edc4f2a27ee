package watch

import (
	"context"
	"log/slog"
	"strings"

	"github.com/npctl/npctl/resources"
)

// eventLogger returns a function that logs events caused by clients. The executor logs steps.
func eventLogger(log *slog.Logger) func(resources.Event) {
	return func(e resources.Event) {
		attrs := []slog.Attr{slog.String("what", e.Text)}
		at := map[string]int{}
		for _, subject := range append([]string{e.Subject}, e.Related...) {
			kind, name, _ := strings.Cut(subject, "/")
			if i, twice := at[kind]; twice {
				attrs[i] = slog.String(kind, attrs[i].Value.String()+","+name)
				continue
			}
			at[kind] = len(attrs)
			attrs = append(attrs, slog.String(kind, name))
		}
		if e.EventID != "" {
			attrs = append(attrs, slog.String("event_id", e.EventID))
		}
		kind, _, _ := strings.Cut(e.Subject, "/")
		log.LogAttrs(context.Background(), slog.LevelInfo, kind+" "+e.Code, attrs...)
	}
}
