package review

import (
	"context"
	"net/http"
	"net/url"

	"github.com/npctl/npctl/internal/text"
)

// Gitea keeps one comment of a pull request of Gitea or Forgejo up to date, and sets the status of the commit.
type Gitea struct{ Target }

// Message returns the Markdown of the comment.
func (g Gitea) Message(r Report) (string, error) { return g.message(r, false) }

// Post posts or updates the comment, and then sets the status.
func (g Gitea) Post(ctx context.Context, r Report) (Outcome, error) {
	if err := g.check("GITEA_TOKEN"); err != nil {
		return Outcome{}, err
	}
	repository, err := g.repositoryPath()
	if err != nil {
		return Outcome{}, err
	}
	c, err := newClient(g.Target, g.URL, http.Header{"Authorization": {"token " + g.Token}})
	if err != nil {
		return Outcome{}, err
	}
	body, err := g.Message(r)
	if err != nil {
		return Outcome{}, err
	}
	return retry(ctx, func(ctx context.Context) (Outcome, error) { return g.attempt(ctx, c, repository, r, body) })
}

func (g Gitea) attempt(ctx context.Context, c *client, repository string, r Report, body string) (Outcome, error) {
	p, err := g.pullByNumber(ctx, c, repository)
	if err != nil {
		return Outcome{}, err
	}
	number, _ := g.change() // pullByNumber has checked it
	list := repository + "/issues/" + number + "/comments"
	outcome, err := g.comment(ctx, p, r, body, thread{client: c, list: list, edited: repository + "/issues/comments/"})
	if err != nil || outcome.Result == Outdated {
		return outcome, err
	}
	return outcome, g.setStatus(ctx, c, repository, r)
}

// giteaStatus is a status of a commit. The newest one of a context counts.
type giteaStatus struct {
	Context     string `json:"context"`
	State       string `json:"state"`
	Description string `json:"description"`
}

var giteaStates = map[Verdict]string{Passed: "success", Incomplete: "warning", Failed: "failure"}

// setStatus sets the status of the commit, unless the newest one is equal.
func (g Gitea) setStatus(ctx context.Context, c *client, repository string, r Report) error {
	status := giteaStatus{g.checkName(), giteaStates[r.Verdict()], text.Cut(r.Effect.String(), titleLimit)}
	var all []struct {
		giteaStatus
		Status string `json:"status"` // what Gitea returns as the state
	}
	if err := c.do(ctx, call{method: http.MethodGet, path: repository + "/statuses/" + g.Commit, query: url.Values{"sort": {"recentupdate"}}, into: &all}); err != nil {
		return err
	}
	for _, old := range all {
		if old.Context == status.Context {
			if old.Status == status.State && old.Description == status.Description {
				return nil
			}
			break
		}
	}
	return c.do(ctx, call{method: http.MethodPost, path: repository + "/statuses/" + g.Commit, body: status})
}
