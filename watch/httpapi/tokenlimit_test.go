package httpapi

import (
	"net/netip"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/connlimit"
)

func TestInvalidTokensOfOneAddressAreLimited(t *testing.T) {
	g, now := newTokenLimiter(), time.Unix(1_700_000_000, 0)
	here, there := connlimit.Client("192.0.2.1:1000"), connlimit.Client("192.0.2.2:1000")
	for i := range tokenBurst {
		if wait := g.wait(here, now); wait != 0 {
			t.Fatalf("after %d guesses the next one has to wait %s", i, wait)
		}
		g.invalidToken(here, now)
	}
	if wait := g.wait(here, now); wait != tokenInterval {
		t.Errorf("after %d guesses the next one has to wait %s, want %s", tokenBurst, wait, tokenInterval)
	}
	if wait := g.wait(there, now); wait != 0 {
		t.Errorf("another address has to wait %s", wait)
	}
	now = now.Add(tokenInterval)
	if wait := g.wait(here, now); wait != 0 {
		t.Errorf("after a while there is still a wait of %s", wait)
	}
}

func TestAddressesOfOneClient(t *testing.T) {
	for _, pair := range []struct {
		a, b string
		same bool
	}{
		{"192.0.2.1:1", "192.0.2.1:2", true},
		{"192.0.2.1:1", "192.0.2.2:1", false},
		{"192.0.2.1:1", "[::ffff:192.0.2.1]:1", true},
		{"[2001:db8::1]:1", "[2001:db8::ffff:2]:1", true},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false},
		{"[fe80::1%eth0]:1", "[fe80::2%eth1]:1", true},
	} {
		if got := connlimit.Client(pair.a) == connlimit.Client(pair.b); got != pair.same {
			t.Errorf("%s and %s: %t, want %t", pair.a, pair.b, got, pair.same)
		}
	}
}

// TestMemoryForAddressesIsLimited checks that addresses beyond maxTokenClients share one limiter until earlier
// addresses are forgotten.
func TestMemoryForAddressesIsLimited(t *testing.T) {
	g, now := newTokenLimiter(), time.Unix(1_700_000_000, 0)
	address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range maxTokenClients + tokenBurst {
		g.invalidToken(address(i), now)
	}
	if len(g.byClient) != maxTokenClients {
		t.Errorf("%d addresses are kept", len(g.byClient))
	}
	if g.wait(address(1<<20), now) == 0 {
		t.Error("one more address may guess at once")
	}
	if wait := g.wait(address(0), now); wait != 0 {
		t.Errorf("an address that was wrong once has to wait %s", wait)
	}
	now = now.Add(tokenBurst * tokenInterval)
	g.invalidToken(address(1<<20), now)
	if len(g.byClient) != 1 {
		t.Errorf("%d addresses are kept after a while", len(g.byClient))
	}
}
