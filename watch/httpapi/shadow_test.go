package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// meeting is a shared store in which no other process works.
type meeting struct{ *bolt.Store }

var _ state.Shared = meeting{}

func (meeting) Claim(context.Context, resources.Key) (state.Lock, state.Entry, error) {
	return nil, state.Entry{}, state.ErrLocked
}
func (m meeting) Changes() (changed []state.Entry, gone []resources.Key) {
	changed, _ = m.List(context.Background())
	return changed, nil
}
func (meeting) Claimed() map[resources.Key]bool                    { return nil }
func (meeting) Register(context.Context, resources.Presence) error { return nil }
func (meeting) RegisteredPools() []resources.RegisteredPool        { return nil }
func (meeting) NodepoolBuilders() []string                         { return nil }
func (meeting) Builders() []string                                 { return nil }
func (meeting) Sync(context.Context) error                         { return nil }
func (meeting) RequestedBuilds() []string                          { return nil }
func (meeting) RequestBuild(context.Context, string, bool) error   { return nil }
func (meeting) FrozenProviders() []string                          { return nil }
func (meeting) FreezeProvider(context.Context, string, bool) error { return nil }
func (meeting) Connected() bool                                    { return true }

func TestShadowIsReadOnly(t *testing.T) {
	l := newLabWith(t, fleet, nil, true)
	for _, call := range []struct{ method, path, body string }{
		{"POST", "/v1/requests", `{"labels":["metal"]}`}, {"DELETE", "/v1/requests/1", ""}, {"POST", "/v1/nodes/1/hold", "{}"}, {"DELETE", "/v1/nodes/1", ""},
		{"POST", "/v1/images/debian/pause", "{}"}, {"POST", "/v1/providers/one/freeze", ""}, {"POST", "/v1/store/commit", `{"ops":[]}`},
		{"POST", "/v1/store/locks", `{"name":"state"}`},
	} {
		status, _, text := l.raw(call.method, call.path, call.body)
		if status != http.StatusConflict || !strings.Contains(text, string(wire.CodeUnsupported)) || !strings.Contains(text, "is read-only") {
			t.Errorf("%s %s: %d %s", call.method, call.path, status, text)
		}
	}
	if status, _, text := l.raw("POST", "/v1/reload", "{}"); status != http.StatusOK {
		t.Errorf("reload: %d %s", status, text)
	}
	entries, err := l.store.Commit(t.Context(), state.Op{Record: &resources.Request{State: resources.StateRequested, Created: time.Now(), StateTime: time.Now(),
		Labels: []string{"moon"}, Priority: 200, Requestor: "zuul"}})
	if err != nil {
		t.Fatal(err)
	}
	id := entries[0].Record.Key().ID
	l.await("it is explained what npctl would do", func() bool {
		why, err := l.Why(t.Context(), "request/"+id)
		return err == nil && strings.Contains(why.Summary, "npctl would decline it")
	})
	failed := *entries[0].Record.(*resources.Request)
	failed.State = resources.StateFailed
	if _, err := l.store.Commit(t.Context(), state.Op{Record: &failed, Force: true}); err != nil {
		t.Fatal(err)
	}
	l.await("it is counted", func() bool {
		status, err := l.Status(t.Context())
		return err == nil && status.Shadow["agree"] == 1 && status.Running == 0
	})
}
