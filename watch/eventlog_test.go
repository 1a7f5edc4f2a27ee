package watch

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

func TestEventIDsAreInLogAndJournal(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	eventLogger(slog.New(slog.NewTextHandler(&log, nil)))(resources.Event{Subject: "request/7", Code: "created", Text: "x", EventID: "e5"})
	if !strings.Contains(log.String(), "request=7 event_id=e5") {
		t.Errorf("the log has %s", log.String())
	}
	e, ok := journaled(reconcile.Event{Kind: reconcile.EventDone, Step: plan.Step{Kind: plan.KindServe, Request: "7", EventID: "e5"}})
	if !ok || e.EventID != "e5" {
		t.Errorf("the journal has %+v", e)
	}
}
