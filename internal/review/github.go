package review

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan/render"
)

// GitHub posts a check run with annotations, or one comment on the pull request that it keeps up to date.
type GitHub struct {
	Target
	Check bool
	// Head is the branch of a pull request without a number, as OWNER:BRANCH.
	Head string
}

// checkName is the name of check runs and statuses.
func (t Target) checkName() string {
	if t.Name == "" {
		return "npctl"
	}
	return "npctl " + t.Name
}

// headers of an API with bearer tokens.
func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// repositoryPath returns the path of a repository OWNER/NAME.
func (t Target) repositoryPath() (string, error) {
	owner, name, ok := strings.Cut(t.Project, "/")
	if !ok || owner == "" || name == "" || strings.Contains(name, "/") {
		return "", permanentf("set -project=OWNER/NAME", "%s is no name of a repository", text.Quote(t.Project))
	}
	return "/repos/" + url.PathEscape(owner) + "/" + url.PathEscape(name), nil
}

// Message returns the Markdown of the comment or the summary.
func (g GitHub) Message(r Report) (string, error) { return g.message(r, g.Check) }

// message returns the Markdown below the marker of a comment. Only a check run has comments on lines.
func (t Target) message(r Report, onLines bool) (string, error) {
	var left []render.Comment
	if onLines {
		_, left = r.remarks(touched)
	}
	return r.Markdown(messageLimit-len(t.marker(r).String()), left)
}

func (t Target) marker(r Report) marker { return marker{t.Name, t.Commit, r.Digest()} }

// Post posts the check run or the comment.
func (g GitHub) Post(ctx context.Context, r Report) (Outcome, error) {
	if err := g.check("GITHUB_TOKEN"); err != nil {
		return Outcome{}, err
	}
	repository, err := g.repositoryPath()
	if err != nil {
		return Outcome{}, err
	}
	header := bearer(g.Token)
	header.Set("X-Github-Api-Version", "2022-11-28")
	c, err := newClient(g.Target, g.URL, header)
	if err != nil {
		return Outcome{}, err
	}
	body, err := g.Message(r)
	if err != nil {
		return Outcome{}, err
	}
	return retry(ctx, func(ctx context.Context) (Outcome, error) {
		if g.Check {
			return g.postCheck(ctx, c, repository, r, body)
		}
		return g.postComment(ctx, c, repository, r, body)
	})
}

// pull is a pull request of GitHub or Gitea.
type pull struct {
	Number int    `json:"number"`
	State  string `json:"state"`
	URL    string `json:"html_url"`
	Head   struct {
		SHA string `json:"sha"`
	} `json:"head"`
}

func (g GitHub) postComment(ctx context.Context, c *client, repository string, r Report, body string) (Outcome, error) {
	p, err := g.pull(ctx, c, repository)
	if err != nil {
		return Outcome{}, err
	}
	list := fmt.Sprintf("%s/issues/%d/comments", repository, p.Number)
	return g.comment(ctx, p, r, body, thread{client: c, list: list, edited: repository + "/issues/comments/", paged: true})
}

// comment keeps npctl's comment on a pull request of GitHub or Gitea up to date, while the pull request is open and has the commit.
func (t Target) comment(ctx context.Context, p pull, r Report, body string, on thread) (Outcome, error) {
	if p.State != "open" || p.Head.SHA != t.Commit {
		return Outcome{Result: Outdated, URL: webAddress(p.URL)}, nil
	}
	author, err := t.account(ctx, on.client)
	if err != nil {
		return Outcome{}, err
	}
	on.method, on.author = http.MethodPatch, author
	return on.put(ctx, t.marker(r), body)
}

// pull returns the pull request by its number or its branch.
func (g GitHub) pull(ctx context.Context, c *client, repository string) (p pull, err error) {
	if g.Change == 0 && g.Head != "" {
		var all []pull
		query := url.Values{"head": {g.Head}, "state": {"open"}}
		if err := c.do(ctx, call{method: http.MethodGet, path: repository + "/pulls", query: query, into: &all}); err != nil {
			return p, err
		}
		if len(all) == 0 {
			return p, nil // closed
		}
		return all[0], nil
	}
	return g.pullByNumber(ctx, c, repository)
}

// pullByNumber returns a pull request of GitHub or Gitea.
func (t Target) pullByNumber(ctx context.Context, c *client, repository string) (p pull, err error) {
	number, err := t.change()
	if err != nil {
		return p, permanentf("set -change=NUMBER", "%w", err)
	}
	err = c.do(ctx, call{method: http.MethodGet, path: repository + "/pulls/" + number, into: &p})
	if hasStatus(err, http.StatusNotFound) {
		err = permanentf("check -project and -change, and that the token may read the repository", "%s has no pull request %s: %w", text.Line(t.Project), number, err)
	}
	if hasStatus(err, http.StatusUnauthorized) {
		err = badToken(err)
	}
	return p, err
}

// checkRun is the body of a new check run.
type checkRun struct {
	Name       string      `json:"name"`
	HeadSHA    string      `json:"head_sha"`
	ExternalID string      `json:"external_id"`
	Status     string      `json:"status"`
	Conclusion string      `json:"conclusion"`
	Output     checkOutput `json:"output"`
}

type checkOutput struct {
	Title       string       `json:"title"`
	Summary     string       `json:"summary"`
	Annotations []annotation `json:"annotations"`
}

type annotation struct {
	Path      string `json:"path"`
	StartLine int    `json:"start_line"`
	EndLine   int    `json:"end_line"`
	Level     string `json:"annotation_level"`
	Message   string `json:"message"`
}

const titleLimit = 200 // bytes of the title of a check run

// conclusions are the results of check runs.
var conclusions = map[Verdict]string{Passed: "success", Incomplete: "neutral", Failed: "failure"}

// annotationLevels are the levels of annotations.
var annotationLevels = map[render.Level]string{render.LevelInfo: "notice", render.LevelWarning: "warning", render.LevelError: "failure"}

// postCheck creates a check run unless the newest of its name has the same content. GitHub never replaces annotations, so another content needs
// a new run.
func (g GitHub) postCheck(ctx context.Context, c *client, repository string, r Report, summary string) (Outcome, error) {
	var existing struct {
		Runs []struct {
			ExternalID string `json:"external_id"`
			URL        string `json:"html_url"`
		} `json:"check_runs"`
	}
	query := url.Values{"check_name": {g.checkName()}, "filter": {"latest"}}
	if err := c.do(ctx, call{method: http.MethodGet, path: repository + "/commits/" + g.Commit + "/check-runs", query: query, into: &existing}); err != nil {
		if hasStatus(err, http.StatusUnauthorized) {
			err = badToken(err)
		}
		return Outcome{}, err
	}
	run := g.run(r, summary)
	for _, old := range existing.Runs {
		if old.ExternalID == run.ExternalID {
			return Outcome{Result: Unchanged, URL: webAddress(old.URL)}, nil
		}
	}
	var created struct {
		URL string `json:"html_url"`
	}
	err := c.do(ctx, call{method: http.MethodPost, path: repository + "/check-runs", body: run, into: &created})
	if hasStatus(err, http.StatusForbidden) {
		err = permanentf("give the job the permission checks: write; only a GitHub App and GITHUB_TOKEN can create check runs, others can use -as=comment", "the token may not create check runs: %w", err)
	}
	return Outcome{Result: Posted, URL: webAddress(created.URL)}, err
}

// run composes the check run.
func (g GitHub) run(r Report, summary string) checkRun {
	run := checkRun{Name: g.checkName(), HeadSHA: g.Commit, ExternalID: r.Digest(), Status: "completed", Conclusion: conclusions[r.Verdict()],
		Output: checkOutput{Title: text.Cut(r.Effect.String(), titleLimit), Summary: summary, Annotations: []annotation{}}}
	remarks, _ := r.remarks(touched)
	for _, m := range remarks {
		run.Output.Annotations = append(run.Output.Annotations, annotation{m.path, m.line, m.line, annotationLevels[m.level], m.text})
	}
	return run
}
