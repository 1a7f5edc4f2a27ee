package watch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// journaled returns the journal event for a step event; ok is false when the journal does not record it.
func journaled(event reconcile.Event) (e resources.Event, ok bool) {
	s := &event.Step
	switch event.Kind {
	case reconcile.EventStart, reconcile.EventDone, reconcile.EventFailed:
	default:
		return e, false
	}
	if event.Kind == reconcile.EventStart && s.Thing == plan.ThingRequest {
		return e, false // its end follows immediately
	}
	e = resources.Event{Time: event.Time, Code: string(s.Action) + "-" + string(event.Kind), Subject: subjectOf(s, event.ID), EventID: s.EventID}
	e.Related = relatedTo(s, e.Subject)
	e.Text = stepText(event)
	return e, true
}

// stepText describes a step event.
func stepText(event reconcile.Event) string {
	s := &event.Step
	done := event.Kind == reconcile.EventDone
	switch {
	case done && s.Action == plan.ActionServe:
		return reservedText(s)
	case done && s.Action == plan.ActionDecline:
		result := "failed: "
		if s.Reason == plan.ReasonDeclined {
			result = "declined: "
		}
		return result + s.Cause()
	case done:
		return fmt.Sprintf("%s %s done in %s", s.Action, s.Address, event.Took.Round(time.Millisecond))
	case event.Kind == reconcile.EventFailed:
		return fmt.Sprintf("%s %s failed: %v", s.Action, s.Address, event.Err)
	}
	text := fmt.Sprintf("%s %s: %s", s.Action, s.Address, s.Reason.Text())
	for _, f := range s.Evidence {
		text += fmt.Sprintf(", %s: %s", f.Name, f.Value)
	}
	return text
}

// reservedText returns text such as "reserved in rack/main: node 0000000001, 1 node launching".
func reservedText(s *plan.Step) string {
	var parts []string
	launching := 0
	for _, id := range s.Nodes {
		if id == "" {
			launching++
		} else {
			parts = append(parts, "node "+id)
		}
	}
	if launching > 0 {
		parts = append(parts, text.Count(launching, "node launching", "nodes launching"))
	}
	return "reserved in " + s.Provider + "/" + s.Pool + ": " + strings.Join(parts, ", ")
}

// subjectOf returns the record or block that a step is about.
func subjectOf(s *plan.Step, id string) string {
	switch {
	case s.Thing == plan.ThingRequest:
		return "request/" + s.Request
	case s.Thing == plan.ThingNode && s.Record.ID != "":
		return s.Record.String()
	case s.Thing == plan.ThingNode && id != "":
		return "node/" + id
	case s.Image != "" && s.Thing != plan.ThingNode:
		return "image/" + s.Image
	case s.Label != "":
		return "label/" + s.Label
	case s.Provider != "":
		return "provider/" + s.Provider
	default:
		return string(s.Address)
	}
}

// relatedTo returns the other records and blocks that a step refers to.
func relatedTo(s *plan.Step, subject string) []string {
	related := []string{}
	add := func(kind, name string) {
		if subject2 := kind + "/" + name; name != "" && subject2 != subject && !slices.Contains(related, subject2) {
			related = append(related, subject2)
		}
	}
	add("request", s.Request)
	add("image", s.Image)
	add("provider", s.Provider)
	for label := range strings.SplitSeq(s.Label, ",") {
		add("label", label)
	}
	for _, id := range s.Nodes {
		add("node", id)
	}
	return related
}

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
