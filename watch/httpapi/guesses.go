package httpapi

import (
	"math"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How often somebody may be wrong about a token.
const (
	guessesAtOnce  = 10
	guessEvery     = 6 * time.Second
	guessersAtMost = 4096 // addresses that are told apart; those that come later share one limit
)

// What became of wrong tokens, for Options.Guessed.
const (
	guessUnknown   = "unknown"
	guessThrottled = "throttled"
)

// guesses limits how often tokens that nobody knows come from one address.
type guesses struct {
	mu       sync.Mutex                   // guards the rest
	byClient map[netip.Addr]*rate.Limiter // of those that were wrong not long ago
	rest     *rate.Limiter
}

func newGuesses() *guesses {
	return &guesses{byClient: map[netip.Addr]*rate.Limiter{}, rest: guessLimit()}
}

func guessLimit() *rate.Limiter { return rate.NewLimiter(rate.Every(guessEvery), guessesAtOnce) }

// wait is how long the address has to wait before another token from it is looked at.
func (g *guesses) wait(from netip.Addr, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, known := g.byClient[from]
	if !known {
		if len(g.byClient) < guessersAtMost {
			return 0
		}
		l = g.rest
	}
	missing := 1 - l.TokensAt(now)
	return time.Duration(math.Ceil(max(missing, 0) * float64(guessEvery)))
}

// wrong notes a token that nobody knows.
func (g *guesses) wrong(from netip.Addr, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, known := g.byClient[from]
	if !known {
		if len(g.byClient) >= guessersAtMost {
			g.forget(now)
		}
		if l = g.rest; len(g.byClient) < guessersAtMost {
			l = guessLimit()
			g.byClient[from] = l
		}
	}
	l.AllowN(now, 1)
}

// forget drops addresses that were not wrong for so long that they have all their guesses again. The caller holds mu.
func (g *guesses) forget(now time.Time) {
	for from, l := range g.byClient {
		if l.TokensAt(now) >= guessesAtOnce {
			delete(g.byClient, from)
		}
	}
}

// retryAfter is a time as Retry-After has it.
func retryAfter(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
