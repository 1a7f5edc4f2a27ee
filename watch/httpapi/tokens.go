package httpapi

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/connlimit"
	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/text"
)

// role determines what a caller may do. Roles are ordered: each includes those before it.
type role int

const (
	anonymous role = iota // no valid token
	reader                // read everything except the data that requestors attach to requests
	full                  // everything that is served beyond the machine
	local                 // everything, for callers on the unix socket
)

// The names of roles in a token file.
const (
	wordReader = "read-only"
	wordFull   = "full"
)

// tokenAtLeast is the minimum length of a token, to prevent guessing.
const tokenAtLeast = 20

// Tokens grant access to listeners other than unix sockets. The token file has one line for each:
//
//	name role token
//	name role sha256:hex
//
// where role is read-only or full. Empty lines and lines that start with # are ignored. The file is read again every two
// seconds while tokens are checked; a file with mistakes keeps the previous tokens in effect, and a deleted file revokes
// all of them.
type Tokens struct{ reloadedFile[[]token] }

// token is the stored form of a token: only its hash is kept.
type token struct {
	name string
	role role
	sum  [sha256.Size]byte
}

// ReadTokens reads a token file. It rejects a file that other users can read, unless it contains only hashes.
func ReadTokens(path string, log *slog.Logger) (*Tokens, error) {
	t := &Tokens{}
	t.what, t.log = "the token file", log
	t.read = func() ([]token, []byte, error) { return readTokens(path) }
	t.onError = func(err error) ([]token, bool) { return nil, errors.Is(err, os.ErrNotExist) }
	return t, t.open()
}

func readTokens(path string) (known []token, text []byte, err error) {
	if text, err = host.ReadFile(path, fileSize); err != nil {
		return nil, nil, fmt.Errorf("tokens: %w", err)
	}
	known, plain, err := parseTokens(path, text)
	if err != nil {
		return nil, nil, err
	}
	if info, err := os.Stat(path); plain && (err != nil || info.Mode().Perm()&0o007 != 0) {
		return nil, nil, fmt.Errorf("tokens: all users can read %s; chmod 600 it, or write sha256:HEX instead of tokens", path)
	}
	return known, text, nil
}

// parseTokens parses a token file and reports whether it contains a plain token.
func parseTokens(path string, text []byte) (known []token, plain bool, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, isPlain, err := parseToken(line)
		if err != nil {
			return nil, false, fmt.Errorf("tokens: %s:%d: %w", path, n, err) // the error omits the line, which may contain a token
		}
		for _, other := range known {
			if other.name == one.name {
				return nil, false, fmt.Errorf("tokens: %s:%d: duplicate name %s", path, n, one.name)
			}
		}
		known, plain = append(known, one), plain || isPlain
	}
	if err := lines.Err(); err != nil {
		return nil, false, fmt.Errorf("tokens: %s: %w", path, err)
	}
	if len(known) == 0 {
		return nil, false, fmt.Errorf("tokens: %s contains no tokens", path)
	}
	return known, plain, nil
}

func parseToken(line string) (one token, plain bool, err error) {
	words := strings.Fields(line)
	if len(words) != 3 {
		return token{}, false, fmt.Errorf("a line needs a name, a role and a token, and this line has %s", text.Count(len(words), "word", "words"))
	}
	one.name = words[0]
	switch words[1] {
	case wordReader:
		one.role = reader
	case wordFull:
		one.role = full
	default:
		return token{}, false, fmt.Errorf("the role of %s is neither %s nor %s", one.name, wordReader, wordFull)
	}
	if digits, hashed := strings.CutPrefix(words[2], "sha256:"); hashed {
		sum, err := hex.DecodeString(digits)
		if err != nil || len(sum) != sha256.Size {
			return token{}, false, fmt.Errorf("the hash of %s is not 64 hex digits", one.name)
		}
		copy(one.sum[:], sum)
		return one, false, nil
	}
	if len(words[2]) < tokenAtLeast {
		return token{}, false, fmt.Errorf("the token of %s has fewer than %d characters; generate one with openssl rand -hex 32", one.name, tokenAtLeast)
	}
	one.sum = sha256.Sum256([]byte(words[2]))
	return one, true, nil
}

// find returns the name and role of a token. It takes the same time for every invalid token.
func (t *Tokens) find(given string) (name string, may role) {
	sum := sha256.Sum256([]byte(given))
	for _, one := range t.current() {
		if subtle.ConstantTimeCompare(sum[:], one.sum[:]) == 1 {
			name, may = one.name, one.role
		}
	}
	return name, may
}

// authority determines the callers and their roles.
type authority struct {
	tokens  *Tokens // nil: no token is valid
	limiter *tokenLimiter
	invalid func(how string) // called for each invalid token; see Options.InvalidToken
}

// authorize returns the name and role of the caller, or an error if a route that needs a role is not allowed to it.
func (a *authority) authorize(w http.ResponseWriter, r *http.Request, need role, isLocal bool) (who string, is role, err error) {
	if isLocal {
		return "local", local, nil
	}
	if token, found := bearer(r); found && a.tokens != nil {
		if who, is, err = a.checkToken(w, r, token); err != nil {
			return who, is, err
		}
	}
	switch {
	case is >= need:
		return who, is, nil
	case is == anonymous:
		return who, is, unauthorized(w)
	default:
		return who, is, failure(http.StatusForbidden, wire.CodeForbidden, "use a token with the role full", "the role of token %s is read-only", text.Quote(who))
	}
}

// checkToken returns the name and role of a token. It does not check the token while the client's address is throttled
// for invalid tokens.
func (a *authority) checkToken(w http.ResponseWriter, r *http.Request, token string) (who string, is role, err error) {
	from, now := connlimit.Client(r.RemoteAddr), time.Now()
	if wait := a.limiter.wait(from, now); wait > 0 {
		a.invalid(guessThrottled)
		w.Header().Set("Retry-After", retryAfter(wait))
		return "", anonymous, failure(http.StatusTooManyRequests, wire.CodeThrottled, "wait, and try again with a valid token",
			"too many invalid tokens from your address; this one was not checked")
	}
	if who, is = a.tokens.find(token); is == anonymous {
		a.limiter.invalidToken(from, now)
		a.invalid(guessUnknown)
	}
	return who, is, nil
}

// unauthorized returns the error for a call without a valid token.
func unauthorized(w http.ResponseWriter) error {
	w.Header().Set("WWW-Authenticate", `Bearer realm="npctl"`)
	return failure(http.StatusUnauthorized, wire.CodeUnauthorized, "send it as Authorization: Bearer TOKEN", "the call has no valid token")
}

// bearer returns the token of a request. The name of the scheme is case-insensitive.
func bearer(r *http.Request) (token string, found bool) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// revoked reports whether the token of a call was revoked, or lost the required role, since the call started.
func (c *call) revoked() bool {
	token, found := bearer(c.r)
	if c.role == local || c.need == anonymous || !found || c.authority.tokens == nil {
		return false
	}
	if _, c.role = c.authority.tokens.find(token); c.role < c.need {
		c.logger.Info("end a call with a revoked token", "route", c.op.OperationID, "who", c.who)
		return true
	}
	return false
}

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
