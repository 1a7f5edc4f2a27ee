package httpapi

import (
	"math"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of invalid tokens per client address.
const (
	tokenBurst      = 10
	tokenInterval   = 6 * time.Second
	maxTokenClients = 4096 // tracked addresses; further ones share one limiter
)

// Results for Options.InvalidToken.
const (
	guessUnknown   = "unknown"
	guessThrottled = "throttled"
)

// tokenLimiter limits how often one address may send an invalid token.
type tokenLimiter struct {
	mu       sync.Mutex                   // guards the fields below
	byClient map[netip.Addr]*rate.Limiter // addresses with recent invalid tokens
	rest     *rate.Limiter
}

func newTokenLimiter() *tokenLimiter {
	return &tokenLimiter{byClient: map[netip.Addr]*rate.Limiter{}, rest: newLimiter()}
}

func newLimiter() *rate.Limiter { return rate.NewLimiter(rate.Every(tokenInterval), tokenBurst) }

// wait returns how long the address must wait until its next token is checked.
func (g *tokenLimiter) wait(from netip.Addr, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, known := g.byClient[from]
	if !known {
		if len(g.byClient) < maxTokenClients {
			return 0
		}
		l = g.rest
	}
	missing := 1 - l.TokensAt(now)
	return time.Duration(math.Ceil(max(missing, 0) * float64(tokenInterval)))
}

// invalidToken counts an invalid token of the address.
func (g *tokenLimiter) invalidToken(from netip.Addr, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, known := g.byClient[from]
	if !known {
		if len(g.byClient) >= maxTokenClients {
			g.forget(now)
		}
		if l = g.rest; len(g.byClient) < maxTokenClients {
			l = newLimiter()
			g.byClient[from] = l
		}
	}
	l.AllowN(now, 1)
}

// forget drops addresses with a full limiter. The caller holds mu.
func (g *tokenLimiter) forget(now time.Time) {
	for from, l := range g.byClient {
		if l.TokensAt(now) >= tokenBurst {
			delete(g.byClient, from)
		}
	}
}

// retryAfter formats a duration for the header Retry-After, in whole seconds.
func retryAfter(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
