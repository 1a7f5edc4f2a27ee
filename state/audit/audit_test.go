package audit_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/audit"
	"github.com/npctl/npctl/state/bolt"
)

// TestRecordIsWrittenBeforeAndAfter: a killed process leaves a record without a result; the end adds it, also after an interruption.
func TestRecordIsWrittenBeforeAndAfter(t *testing.T) {
	store, err := bolt.Open(bolt.Options{Path: filepath.Join(t.TempDir(), "state.db")})
	testutil.Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	record := func() *resources.Audit {
		entries, err := store.List(t.Context(), resources.KindAudit)
		testutil.Must(t, err)
		if len(entries) != 1 {
			t.Fatalf("%d records, want 1", len(entries))
		}
		return entries[0].Record.(*resources.Audit)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	began := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	many := make([]string, 70)
	for i := range many {
		many[i] = strings.Repeat("x", 900)
	}
	operation, err := audit.Begin(ctx, store.Commit, resources.Audit{Time: began, Operation: "apply", Actor: "anna@host", Objects: many})
	testutil.Must(t, err)
	if r := record(); r.Result != "" || r.Actor != "anna@host" || r.ID == "" {
		t.Errorf("the record before the operation is %+v", r)
	}
	interrupt()
	testutil.Must(t, operation.End(ctx, began.Add(90*time.Second), resources.AuditInterrupted, errors.New("interrupted\nwith details")))
	r := record()
	if r.Result != resources.AuditInterrupted || r.Seconds != 90 || r.Error != "interrupted" {
		t.Errorf("the record after the operation is %+v", r)
	}
	if len(r.Objects) != 51 || r.Objects[50] != "and 20 more" || len(r.Objects[0]) > 510 {
		t.Errorf("%d objects, the last one %q", len(r.Objects), r.Objects[len(r.Objects)-1])
	}
}

// TestNothingHappensWithoutARecord: the caller gets an error before the operation.
func TestNothingHappensWithoutARecord(t *testing.T) {
	full := errors.New("disk full")
	_, err := audit.Begin(t.Context(), func(context.Context, ...state.Op) ([]state.Entry, error) { return nil, full }, resources.Audit{Operation: "apply"})
	if !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
}
