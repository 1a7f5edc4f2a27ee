//go:build integration

package lab

import (
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

func TestNodepoolServesZuul(t *testing.T) {
	// the driver test returns one node for all labels of a request
	for driver, labels := range map[string][]string{"static": {"small", "common"}, "fake": {"small", "common"}, "test": {"common"}} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			l := Start(t, 1)
			zuul, ctx := StartPeer(t, l.Env, PeerOptions{}), t.Context()
			StartLauncher(t, l, Nodepool{Driver: driver, Provider: "nodepool", Nodes: 6, Labels: []string{"small", "common"}})
			_, err := zuul.AwaitPools(ctx, 1)
			testutil.Must(t, err)
			held, err := zuul.Run(ctx, Run{Labels: labels, Clients: 3, Each: 1, Timeout: time.Minute})
			testutil.Must(t, err)
			if len(held) != 3 {
				t.Errorf("%d requests, want 3", len(held))
			}
			for _, h := range held {
				if h.State != "fulfilled" || h.Error != "" || len(h.Nodes) != len(labels) || h.Nodes[0].Provider != "nodepool" || h.Gone == 0 {
					t.Errorf("request %+v", h)
				}
			}
			if shared := SharedNodes(held); len(shared) != 0 {
				t.Errorf("nodes with two users: %v", shared)
			}
		})
	}
}

func TestHeldNodeIsKeptUntilItsHoldEnds(t *testing.T) {
	t.Parallel()
	l := Start(t, 1)
	zuul, ctx := StartPeer(t, l.Env, PeerOptions{}), t.Context()
	StartLauncher(t, l, Nodepool{Driver: "static", Provider: "nodepool", Nodes: 1, Labels: []string{"small"}})
	sent, err := zuul.Request(ctx, Request{Labels: []string{"small"}})
	testutil.Must(t, err)
	outcome, err := zuul.Wait(ctx, sent.ID, time.Minute)
	testutil.Must(t, err)
	if outcome.State != "fulfilled" || string(outcome.RequestorData) != string(sent.RequestorData) {
		t.Errorf("got %+v, sent %s", outcome, sent.RequestorData)
	}
	nodes, err := zuul.Accept(ctx, sent.ID)
	testutil.Must(t, err)
	if len(nodes) != 1 || nodes[0]["label"] != "small" || nodes[0]["interface_ip"] != "127.1.0.1" {
		t.Errorf("nodes %v", nodes)
	}
	testutil.Must(t, zuul.Use(ctx, sent.ID))
	path := "/nodepool/nodes/" + outcome.Nodes[0]
	_, err = zuul.Await(ctx, path, map[string]any{"state": "in-use"}, 30*time.Second)
	testutil.Must(t, err)
	hold, err := zuul.Hold(ctx, sent.ID, "look at it", time.Hour)
	testutil.Must(t, err)
	_, err = zuul.Await(ctx, path, map[string]any{"state": "hold", "comment": "look at it", "hold_expiration": 3600}, 30*time.Second)
	testutil.Must(t, err)
	testutil.Must(t, zuul.EndHold(ctx, hold))
	testutil.Must(t, zuul.AwaitGone(ctx, path, time.Minute))
}

func TestStoppedLauncherRemovesItsRegistration(t *testing.T) {
	t.Parallel()
	l := Start(t, 1)
	zuul, ctx := StartPeer(t, l.Env, PeerOptions{}), t.Context()
	launcher := StartLauncher(t, l, Nodepool{Driver: "static", Provider: "nodepool", Nodes: 1, Labels: []string{"small"}})
	first, err := zuul.AwaitPools(ctx, 1)
	testutil.Must(t, err)
	testutil.Must(t, launcher.Stop())
	if pools, err := zuul.Launchers(ctx); err != nil || len(pools) != 0 {
		t.Errorf("pools of a stopped launcher: %v, %v", pools, err)
	}
	testutil.Must(t, launcher.Start())
	_, err = zuul.AwaitPools(ctx, 1)
	testutil.Must(t, err)
	testutil.Must(t, launcher.Kill())
	second, err := zuul.Launchers(ctx)
	if err != nil || len(second) != 1 || second[0].ID == first[0].ID {
		t.Errorf("pools of a killed launcher: %v, %v; before it was started again %v", second, err, first)
	}
	_, err = zuul.AwaitPools(ctx, 0)
	testutil.Must(t, err)
}
