//go:build integration

package lab

import (
	"context"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

func TestCutConnectionKeepsTheSession(t *testing.T) {
	t.Parallel()
	proxy := StartProxy(t, shared.Hosts)
	zuul, ctx := StartPeer(t, shared.Env, PeerOptions{Hosts: proxy.Address()}), t.Context()
	before, err := zuul.Hello(ctx)
	testutil.Must(t, err)
	proxy.Cut()
	after, err := zuul.AwaitConnected(ctx)
	testutil.Must(t, err)
	if after.Session != before.Session || proxy.Connections() < 2 {
		t.Errorf("session %x, then %x over %d connections", before.Session, after.Session, proxy.Connections())
	}
}

func TestPausedConnectionLosesTheSession(t *testing.T) {
	t.Parallel()
	there := "/" + t.Name()
	proxy := StartProxy(t, shared.Hosts)
	zuul := StartPeer(t, shared.Env, PeerOptions{Hosts: proxy.Address(), Timeout: 2 * time.Second})
	other, ctx := StartPeer(t, shared.Env, PeerOptions{}), t.Context()
	testutil.Must(t, zuul.CreateEphemeral(ctx, there, ""))
	proxy.Pause()
	testutil.Must(t, other.AwaitGone(ctx, there, time.Minute))
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := zuul.Children(short, "/"); err == nil {
		t.Error("an answer came through a paused proxy")
	}
	proxy.Resume()
	_, err := zuul.AwaitConnected(ctx)
	testutil.Must(t, err)
}

func TestBlockedProxyRejectsConnections(t *testing.T) {
	t.Parallel()
	there := "/" + t.Name()
	proxy := StartProxy(t, shared.Hosts)
	zuul := StartPeer(t, shared.Env, PeerOptions{Hosts: proxy.Address(), Timeout: 2 * time.Second})
	other, ctx := StartPeer(t, shared.Env, PeerOptions{}), t.Context()
	testutil.Must(t, zuul.CreateEphemeral(ctx, there, ""))
	proxy.Block()
	testutil.Must(t, other.AwaitGone(ctx, there, time.Minute))
	proxy.Unblock()
	_, err := zuul.AwaitConnected(ctx)
	testutil.Must(t, err)
}
