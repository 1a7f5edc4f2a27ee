package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/review"
	"github.com/npctl/npctl/internal/terminal"
	"github.com/npctl/npctl/plan/planfile"
)

const reviewDescription = `Posts the effect of a change, which npctl plan -against=REVISION -out=FILE has saved, where its
reviewers read it. It reads neither the configuration nor the state, so that the job with the
credentials of the code review needs nothing else.

  -to=gerrit          one review for each patch set: message, comments on lines, and a vote with -vote
  -to=github          a check run with annotations, or with -as=comment one comment on the pull request
  -to=gitlab          one note on the merge request
  -to=gitea           one comment on the pull request, and a status of the commit (Forgejo too)
  -to=zuul            data for zuul_return, on stdout or to -out
  -to=sarif           a SARIF 2.1.0 log, for example for GitHub code scanning
  -to=code-quality    a code quality report for GitLab

A repeated run posts nothing if the effect is the same; comments are updated. npctl posts nothing to a
closed change, or if the change has a newer commit than the planned one. GitHub Actions, GitLab CI and
Gitea Actions name the project, the change and the commit in their environment.

Environment:
  GERRIT_USER, GERRIT_PASSWORD               account and HTTP password
  GITHUB_TOKEN, GITLAB_TOKEN, GITEA_TOKEN    tokens; -token-file=FILE instead

Examples:
  npctl review -to=github change.plan
  npctl review -to=gerrit -url=https://review.example.org -project=ci/fleet -change=4711 -commit=COMMIT -vote=Verified change.plan
  npctl review -to=zuul -out=zuul-return.json change.plan

Exit codes: 0 done, or 1 on an error; if a post fails, its text is on stdout.`

var (
	reviewPlaces    = choices{"gerrit", "github", "gitlab", "gitea"}
	reviewTargets   = append(slices.Clone(reviewPlaces), slices.Sorted(maps.Keys(review.Documents))...)
	githubKinds     = choices{"check", "comment"}
	gerritNotices   = choices{"NONE", "OWNER"}
	reviewNameShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	voteShape       = regexp.MustCompile(`^([+-]?[1-9]|0)$`)
)

// reviewCommand implements npctl review.
type reviewCommand struct {
	*app
	review.Target
	to, as, out, tokenFile string
	label, passed, failed  string
	notify                 string
}

func newReviewCommand(a *app) *cli.Command {
	c := &reviewCommand{app: a}
	text := func(name, category string, into *string, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Category: category, Destination: into, Usage: usage}
	}
	return &cli.Command{
		Name: "review", Category: categoryMain, Usage: "post the effect of a change to its code review", ArgsUsage: "PLANFILE", Description: reviewDescription, Metadata: takes(single(files)),
		Flags: []cli.Flag{
			&stringFlag{cli.StringFlag{Name: "to", Destination: &c.to, Usage: "`PLACE` or form: " + reviewTargets.String()}, reviewTargets.source},
			text("url", categoryConnection, &c.URL, "`URL` of Gerrit, or of the API of the others"),
			text("project", categoryConnection, &c.Project, "`PROJECT` with the change, such as OWNER/NAME"),
			&cli.IntFlag{Name: "change", Category: categoryConnection, Destination: &c.Change, DefaultText: "from the environment of the CI", Usage: "`NUMBER` of the change, pull request or merge request"},
			text("commit", categoryConnection, &c.Commit, "newest `COMMIT` of the change, which was planned"),
			text("user", categoryConnection, &c.User, "`ACCOUNT` of the password or token"),
			&cli.StringFlag{Name: "token-file", Category: categoryConnection, Destination: &c.tokenFile, TakesFile: true, Usage: "`FILE` with the password or token"},
			text("name", categoryOutput, &c.Name, "`NAME` of the fleet, if several fleets post to one change"),
			&cli.StringFlag{Name: "out", Category: categoryOutput, Destination: &c.out, TakesFile: true, Usage: "write the document to `FILE` instead of stdout"},
			&stringFlag{cli.StringFlag{Name: "as", Category: categoryOutput, Destination: &c.as, Value: "check", Usage: "for github: `KIND` of post, " + githubKinds.String()}, githubKinds.source},
			text("vote", categoryOutput, &c.label, "for gerrit: vote with this `LABEL` of the project, such as Verified"),
			&cli.StringFlag{Name: "vote-passed", Category: categoryOutput, Destination: &c.passed, Value: "+1", Usage: "`VALUE` of the vote for a change without problems"},
			&cli.StringFlag{Name: "vote-failed", Category: categoryOutput, Destination: &c.failed, Value: "-1", Usage: "`VALUE` of the vote for a change with problems; it is 0 for an effect that is not known"},
			&stringFlag{cli.StringFlag{Name: "notify", Category: categoryOutput, Destination: &c.notify, Value: "NONE", Usage: "for gerrit: send mail to these `RECIPIENTS`, " + gerritNotices.String()}, gerritNotices.source},
		},
		Action: c.run,
	}
}

func (c *reviewCommand) run(ctx context.Context, cmd *cli.Command) error {
	if err := c.check(cmd); err != nil {
		return err
	}
	path := cmd.Args().First()
	saved, err := planfile.Read(path)
	if err != nil {
		return err
	}
	if saved.Change == nil {
		return hint(fmt.Errorf("plan file %s is not about a change", path), "write it with npctl plan -against=REVISION -out=FILE")
	}
	report := review.Report(*saved.Change)
	if write := review.Documents[c.to]; write != nil {
		return c.document(report, write)
	}
	place, err := c.place()
	if err != nil {
		return err
	}
	outcome, err := place.Post(ctx, report)
	if err != nil {
		return c.unposted(place, report, err)
	}
	c.ui.Message("%s", outcomeText(outcome))
	return nil
}

// check returns an error for options that contradict each other.
func (c *reviewCommand) check(cmd *cli.Command) error {
	switch {
	case !cmd.Args().Present():
		return hint(errors.New("there is no plan file"), "npctl review -to=PLACE FILE, after npctl plan -against=REVISION -out=FILE")
	case c.to == "":
		return hint(errors.New("-to is missing"), "write -to="+reviewTargets.String())
	case c.Name != "" && !reviewNameShape.MatchString(c.Name):
		return fmt.Errorf("option -name: %q must be up to 64 letters, digits, dots, dashes and underscores", c.Name)
	case c.Change < 0:
		return fmt.Errorf("option -change: %d is no number of a change", c.Change)
	case !voteShape.MatchString(c.passed) || !voteShape.MatchString(c.failed):
		return errors.New("options -vote-passed and -vote-failed must be values such as +1, 0 or -1")
	case c.out != "" && review.Documents[c.to] == nil:
		return hint(fmt.Errorf("-out is for documents, and -to=%s posts", c.to), "omit -out")
	}
	return cmp.Or(reviewTargets.check("option -to:", c.to), githubKinds.check("option -as:", c.as), gerritNotices.check("option -notify:", c.notify),
		outputFile{"out", c.out, []string{`{"zuul":`, `{"$schema":`, `[{"description":`, "[]"}}.check())
}

// document writes a document to stdout or to a file.
func (c *reviewCommand) document(r review.Report, write func(review.Report) ([]byte, error)) error {
	doc, err := write(r)
	if err != nil {
		return err
	}
	if c.out == "" || c.out == "-" {
		return c.ui.Write(string(doc))
	}
	if err := host.ReplaceReadableFile(c.out, doc); err != nil {
		return fmt.Errorf("write the document to %s: %w", c.out, err)
	}
	return nil
}

// place returns where to post, by the options and then by the environment.
func (c *reviewCommand) place() (review.Place, error) {
	found, head, err := review.Environment(c.to, os.Getenv)
	if err != nil {
		return nil, err
	}
	t := c.Target
	t.URL, t.Project, t.Commit, t.User = cmp.Or(t.URL, found.URL), cmp.Or(t.Project, found.Project), cmp.Or(t.Commit, found.Commit), cmp.Or(t.User, found.User)
	t.Change, t.Robot, t.Token = cmp.Or(t.Change, found.Change), found.Robot, found.Token
	if c.tokenFile != "" {
		if t.Token, err = readToken(c.tokenFile); err != nil {
			return nil, fmt.Errorf("option -token-file: %w", err)
		}
	}
	switch c.to {
	case "gerrit":
		return review.Gerrit{Target: t, Label: c.label, Notify: c.notify,
			Votes: map[review.Verdict]string{review.Passed: c.passed, review.Incomplete: "0", review.Failed: c.failed}}, nil
	case "gitlab":
		return review.GitLab{Target: t}, nil
	case "gitea":
		return review.Gitea{Target: t}, nil
	default:
		return review.GitHub{Target: t, Check: c.as == "check", Head: head}, nil
	}
}

// readToken reads a file with one word.
func readToken(path string) (string, error) {
	content, err := host.ReadFile(path, 16<<10)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(content))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", fmt.Errorf("%s contains no token: it must be one word", path)
	}
	return token, nil
}

// unposted prints the text that could not be posted and returns the error of the post.
func (c *reviewCommand) unposted(place review.Place, r review.Report, cause error) error {
	message, err := place.Message(r)
	if err == nil {
		err = terminal.OutputError(c.ui.Write(message + "\n"))
	}
	return errors.Join(fmt.Errorf("post the review: %w", cause), err)
}

// outcomeText describes the result of a post.
func outcomeText(o review.Outcome) string {
	words := map[review.Result]string{
		review.Posted: "Posted the review", review.Updated: "Updated the review", review.Unchanged: "The change has this review already; nothing was posted",
		review.Outdated: "The change is closed, or has a newer commit than the planned one; nothing was posted",
	}[o.Result]
	if o.URL == "" {
		return words + "."
	}
	return words + ": " + o.URL
}
