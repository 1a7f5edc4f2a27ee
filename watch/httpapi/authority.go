package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/connlimit"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

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
