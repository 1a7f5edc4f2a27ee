package review

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/npctl/npctl/internal/text"
)

// thread is the list of comments on a change, in which npctl keeps one comment up to date.
type thread struct {
	client *client
	list   string // path of the list, where new comments are posted too
	edited string // path of a comment without its number
	method string // of an update
	paged  bool   // Gitea returns all comments at once
	author string // of npctl's comments: any other author may write the same first line
}

// comment is a comment of GitHub, GitLab or Gitea.
type comment struct {
	ID     int64   `json:"id"`
	Body   string  `json:"body"`
	URL    string  `json:"html_url"`
	User   account `json:"user"`   // GitHub, Gitea
	Author account `json:"author"` // GitLab
}

// account is a user of GitHub, GitLab or Gitea.
type account struct {
	Login    string `json:"login"`
	Username string `json:"username"` // GitLab
}

func (a account) name() string { return cmp.Or(a.Login, a.Username) }

const (
	pageLimit = 100 // pages of comments
	pageSize  = 100
)

// find returns the newest comment of npctl for a fleet, or nil. Only its account may have written it.
func (t thread) find(ctx context.Context, name string) (*comment, error) {
	var found *comment
	for page := 1; page <= pageLimit; page++ {
		var all []comment
		q := call{method: http.MethodGet, path: t.list, into: &all}
		if t.paged {
			q.query = url.Values{"page": {strconv.Itoa(page)}, "per_page": {strconv.Itoa(pageSize)}}
		}
		if err := t.client.do(ctx, q); err != nil {
			return nil, err
		}
		for i, c := range all {
			if m, ok := markerOf(c.Body); ok && m.Name == name && cmp.Or(c.User, c.Author).name() == t.author && (found == nil || c.ID > found.ID) {
				found = &all[i]
			}
		}
		if !t.paged || len(all) < pageSize {
			break
		}
	}
	return found, nil
}

// put creates the comment or updates it, unless it is equal. A body starts with its marker.
func (t thread) put(ctx context.Context, m marker, body string) (Outcome, error) {
	found, err := t.find(ctx, m.Name)
	if err != nil {
		return Outcome{}, err
	}
	q, result := call{method: http.MethodPost, path: t.list}, Posted
	if found != nil {
		if old, _ := markerOf(found.Body); old == m {
			return Outcome{Result: Unchanged, URL: webAddress(found.URL)}, nil
		}
		q, result = call{method: t.method, path: t.edited + strconv.FormatInt(found.ID, 10)}, Updated
	}
	var now comment
	q.body, q.into = map[string]string{"body": m.String() + body}, &now
	if err := t.client.do(ctx, q); err != nil {
		return Outcome{}, err
	}
	return Outcome{Result: result, URL: webAddress(now.URL)}, nil
}

// webAddress returns an address that a server has sent, if it is one, for messages.
func webAddress(s string) string {
	if u, err := url.Parse(s); err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return text.Line(s)
}

// account returns the account of the token. The token of a workflow may not ask for it.
func (t Target) account(ctx context.Context, c *client) (string, error) {
	if t.User != "" {
		return t.User, nil
	}
	var self account
	err := c.do(ctx, call{method: http.MethodGet, path: "/user", into: &self})
	switch {
	case hasStatus(err, http.StatusUnauthorized):
		return "", badToken(err)
	case !hasStatus(err, http.StatusForbidden) && !hasStatus(err, http.StatusNotFound):
		return self.name(), err
	case t.Robot != "":
		return t.Robot, nil
	default:
		return "", permanentf("set -user to the account that the token belongs to", "the account of the token is not known: %w", err)
	}
}

func badToken(err error) error {
	return permanentf("check the token and its expiry", "the server does not accept the token: %w", err)
}
