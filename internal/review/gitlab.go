package review

import (
	"context"
	"net/http"
	"net/url"

	"github.com/npctl/npctl/internal/text"
)

// GitLab keeps one note of the merge request up to date.
type GitLab struct{ Target }

// Message returns the Markdown of the note.
func (g GitLab) Message(r Report) (string, error) { return g.message(r, false) }

// Post posts or updates the note.
func (g GitLab) Post(ctx context.Context, r Report) (Outcome, error) {
	if err := g.check("GITLAB_TOKEN"); err != nil {
		return Outcome{}, err
	}
	number, err := g.change()
	if err != nil {
		return Outcome{}, err
	}
	c, err := newClient(g.Target, g.URL, http.Header{"Private-Token": {g.Token}})
	if err != nil {
		return Outcome{}, err
	}
	body, err := g.Message(r)
	if err != nil {
		return Outcome{}, err
	}
	request := "/projects/" + url.PathEscape(g.Project) + "/merge_requests/" + number
	return retry(ctx, func(ctx context.Context) (Outcome, error) { return g.attempt(ctx, c, request, r, body) })
}

func (g GitLab) attempt(ctx context.Context, c *client, request string, r Report, body string) (Outcome, error) {
	var now struct {
		State string `json:"state"`
		SHA   string `json:"sha"`
		URL   string `json:"web_url"`
	}
	if err := c.do(ctx, call{method: http.MethodGet, path: request, into: &now}); err != nil {
		if hasStatus(err, http.StatusNotFound) {
			err = permanentf("check -project and -change, and that the token may read the project", "project %s has no merge request %d: %w", text.Line(g.Project), g.Change, err)
		}
		return Outcome{}, err
	}
	if now.State != "opened" || now.SHA != g.Commit {
		return Outcome{Result: Outdated, URL: webAddress(now.URL)}, nil
	}
	author, err := g.account(ctx, c)
	if err != nil {
		return Outcome{}, err
	}
	t := thread{client: c, list: request + "/notes", edited: request + "/notes/", method: http.MethodPut, paged: true, author: author}
	outcome, err := t.put(ctx, g.marker(r), body)
	outcome.URL = webAddress(now.URL) // a note has no address
	return outcome, err
}
