package main

import (
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/resources"
)

// forged is a name or reason from a client that imitates the line of another record.
const forged = "x\n0000000099  fulfilled  tiny\r0000000098\u2028 \u009b31m\u202eroot"

func TestClientsForgeNoLines(t *testing.T) {
	now := time.Now()
	request := &wire.Request{Request: resources.Request{ID: "0000000001", Labels: []string{"tiny"}, Requestor: forged, Error: forged, State: resources.StateFailed}}
	shown := map[string]func(*strings.Builder){
		"a row of requests": func(b *strings.Builder) {
			var p terminal.Page
			p.Table([][]string{requestRow(request, now)})
			b.WriteString(p.String())
		},
		"why": func(b *strings.Builder) {
			_ = writeWhy(b, wire.Why{Subject: "request/1", State: "failed", Summary: forged, Related: []string{forged},
				Waits: []wire.Wait{{Text: forged}}, Facts: []wire.Fact{{Name: "requestor", Value: forged}},
				Events: []wire.Event{{Event: resources.Event{Subject: "request/1", Text: forged}}}})
		},
		"the head of an image": func(b *strings.Builder) {
			p := imagePage{Page: &terminal.Page{}, facts: &inspect.Image{Name: "debian", Pause: &inspect.ImagePause{Command: true, Reason: forged}}, now: now}
			p.head()
			b.WriteString(p.String())
		},
		"the status": func(b *strings.Builder) {
			var p terminal.Page
			statusPage(statusDocument{Status: wire.Status{SuspendedBy: forged, Problems: []string{forged}, Now: now, Started: now},
				Requests: []wire.Request{*request}, Events: []wire.Event{{Event: resources.Event{Subject: forged, Text: forged}}}}, &p)
			b.WriteString(p.String())
		},
	}
	for what, write := range shown {
		var b strings.Builder
		write(&b)
		if strings.ContainsAny(b.String(), "\r\u2028\u009b\u202e") {
			t.Errorf("%s drives the terminal: %q", what, b.String())
		}
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(strings.TrimSpace(line), "0000000099") {
				t.Errorf("%s has a line that a client has made:\n%s", what, b.String())
			}
		}
	}
	doc, err := marshalJSON(request)
	if err != nil || strings.ContainsAny(string(doc), "\u2028\u009b\u202e") {
		t.Errorf("JSON drives the terminal: %q, %v", doc, err)
	}
}
