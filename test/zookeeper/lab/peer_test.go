//go:build integration

package lab

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
)

func TestPeerSubmitsLikeZuul(t *testing.T) {
	t.Parallel()
	zuul, ctx := StartPeer(t, shared.Env, PeerOptions{}), t.Context()
	hello, err := zuul.Hello(ctx)
	testutil.Must(t, err)
	sent, err := zuul.Request(ctx, Request{Labels: []string{"small", "large", "small"}, Priority: 99, RelativePriority: 3, Provider: "cloud", Tenant: "acme"})
	testutil.Must(t, err)
	if !regexp.MustCompile(`^099-\d{10}$`).MatchString(sent.ID) {
		t.Errorf("request %s, want 099- and ten digits", sent.ID)
	}
	record, err := zuul.Read(ctx, "/nodepool/requests/"+sent.ID)
	testutil.Must(t, err)
	var got map[string]any
	testutil.Must(t, json.Unmarshal([]byte(record.Data), &got))
	if !regexp.MustCompile(`"trace_id": \d{30,}`).MatchString(record.Data) {
		t.Errorf("no trace id of 128 bits in %s", record.Data)
	}
	for _, k := range []string{"created_time", "state_time", "event_id", "requestor_data"} {
		if got[k] == nil {
			t.Errorf("no %s in %s", k, record.Data)
		}
		delete(got, k)
	}
	want := map[string]any{"node_types": []any{"small", "large", "small"}, "requestor": hello.System, "provider": "cloud",
		"state": "requested", "relative_priority": 3.0, "tenant_name": "acme"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}

func TestSchedulerReceivesEndOfItsRequests(t *testing.T) {
	t.Parallel()
	zuul, ctx := StartPeer(t, shared.Env, PeerOptions{}), t.Context()
	sent, err := zuul.Request(ctx, Request{Labels: []string{"small"}})
	testutil.Must(t, err)
	path := "/nodepool/requests/" + sent.ID
	record, err := zuul.Read(ctx, path)
	testutil.Must(t, err)
	testutil.Must(t, zuul.Write(ctx, path, strings.Replace(record.Data, `"requested"`, `"failed"`, 1)))
	// One scheduler at a time receives the ends of all requests: a peer of another test may be elected first, and a
	// killed peer stays elected until its session ends.
	got, err := zuul.Wait(ctx, sent.ID, time.Minute)
	testutil.Must(t, err)
	if got.State != "failed" || string(got.RequestorData) != string(sent.RequestorData) {
		t.Errorf("got %+v, sent %s", got, sent.RequestorData)
	}
	testutil.Must(t, zuul.Cancel(ctx, sent.ID))
	for got.State != "deleted" { // a newly elected scheduler receives all ends, possibly a second time
		got, err = zuul.Wait(ctx, sent.ID, time.Minute)
		testutil.Must(t, err)
	}
	if _, err := zuul.Wait(ctx, sent.ID, 10*time.Millisecond); err == nil {
		t.Error("an end was heard twice")
	}
}

func TestLockedRequestIsNotRevised(t *testing.T) {
	t.Parallel()
	zuul, other, ctx := StartPeer(t, shared.Env, PeerOptions{}), StartPeer(t, shared.Env, PeerOptions{}), t.Context()
	sent, err := zuul.Request(ctx, Request{Labels: []string{"small"}})
	testutil.Must(t, err)
	lock := "/nodepool/requests-lock/" + sent.ID
	if locked, err := other.TryLock(ctx, lock); err != nil || !locked {
		t.Fatalf("lock: %v, %v", locked, err)
	}
	if revised, err := zuul.Revise(ctx, sent.ID, 7); err != nil || revised {
		t.Errorf("revised %v, %v while the request was locked", revised, err)
	}
	if locked, err := zuul.TryLock(ctx, lock); err != nil || locked {
		t.Errorf("locked by two: %v, %v", locked, err)
	}
	testutil.Must(t, other.Unlock(ctx, lock))
	if revised, err := zuul.Revise(ctx, sent.ID, 7); err != nil || !revised {
		t.Errorf("revised %v, %v", revised, err)
	}
	if _, err := zuul.Await(ctx, "/nodepool/requests/"+sent.ID, map[string]any{"relative_priority": 7}, time.Minute); err != nil {
		t.Error(err)
	}
}

func TestRequestWithoutNodesIsNotAccepted(t *testing.T) {
	t.Parallel()
	zuul, ctx := StartPeer(t, shared.Env, PeerOptions{}), t.Context()
	_, err := zuul.Accept(ctx, "200-2000000042")
	var raised *PeerError
	if !errors.As(err, &raised) || raised.Kind != "LookupError" {
		t.Errorf("got %v, want a LookupError", err)
	}
}

func TestExpiredSessionLosesItsLocks(t *testing.T) {
	t.Parallel()
	lock := "/" + t.Name()
	zuul, other, ctx := StartPeer(t, shared.Env, PeerOptions{}), StartPeer(t, shared.Env, PeerOptions{}), t.Context()
	before, err := zuul.Hello(ctx)
	testutil.Must(t, err)
	testutil.Must(t, zuul.Lock(ctx, lock, 10*time.Second))
	testutil.Must(t, zuul.Cut(ctx))
	if held, err := other.Contenders(ctx, lock); err != nil || len(held) != 1 {
		t.Errorf("contenders after a cut: %v, %v", held, err)
	}
	testutil.Must(t, zuul.Expire(ctx))
	testutil.Must(t, other.Lock(ctx, lock, time.Minute))
	if after, err := zuul.AwaitConnected(ctx); err != nil || after.Session == before.Session {
		t.Errorf("session %x before and %x after it expired, %v", before.Session, after.Session, err)
	}
}

func TestKilledPeerLosesItsLocksAfterItsTimeout(t *testing.T) {
	t.Parallel()
	lock := "/" + t.Name()
	zuul, other, ctx := StartPeer(t, shared.Env, PeerOptions{Timeout: 5 * time.Second}), StartPeer(t, shared.Env, PeerOptions{}), t.Context()
	testutil.Must(t, zuul.Lock(ctx, lock, 10*time.Second))
	zuul.Kill()
	if locked, err := other.TryLock(ctx, lock); err != nil || locked {
		t.Errorf("locked at once: %v, %v", locked, err)
	}
	testutil.Must(t, other.Lock(ctx, lock, time.Minute))
	if _, err := zuul.Children(ctx, "/"); err == nil {
		t.Error("a killed peer answers")
	}
}

func TestClosedPeerEndsItsSession(t *testing.T) {
	t.Parallel()
	there := "/" + t.Name()
	zuul, other, ctx := StartPeer(t, shared.Env, PeerOptions{Timeout: time.Minute}), StartPeer(t, shared.Env, PeerOptions{}), t.Context()
	testutil.Must(t, zuul.CreateEphemeral(ctx, there, ""))
	testutil.Must(t, zuul.Close())
	testutil.Must(t, other.AwaitGone(ctx, there, 30*time.Second)) // half of the session timeout
}
