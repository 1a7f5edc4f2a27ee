//go:build integration

package gerrit

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // a Change-Id has the form of such a sum
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/review"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan/planfile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/program"
)

var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

// labels.hcl has the change. The flavor of providers.hcl follows it, so that a line outside of the patch set has an effect.
const (
	labels = `variable "flavor" { default = "small" }

label "small" {
  min_ready = 1
}
`
	providers = `npctl {
  images_dir = ".npctl/images"
  state "bolt" { path = ".npctl/npctl.db" }
}

provider "sandbox" "acme" {
  public_image "debian" {}
  cloud_image "debian" { image_name = "debian" }
  pool "main" {
    max_servers = 10
    networks    = ["private"]
    label "small" {
      image  = cloud_image.debian
      flavor = var.flavor
    }
  }
}
`
)

// rules.hcl is a rule that no patch set touches.
const rules = `check "growth" {
  severity = "error"
  assert {
    condition     = length([for s in effect.added : s if s.action == "launch"]) <= 5
    error_message = "the change launches more than 5 nodes"
  }
}
`

// lab is a project of Gerrit with a clone, in which npctl plans.
type lab struct {
	*program.Place
	url, password, project string
	change                 int
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{url: os.Getenv("NPCTL_TEST_GERRIT"), password: os.Getenv("NPCTL_TEST_GERRIT_PASSWORD"), project: fmt.Sprintf("ci/%s-%x", strings.ToLower(t.Name()), time.Now().UnixNano())} // another one for each run
	if l.url == "" {
		t.Fatal("set NPCTL_TEST_GERRIT: test/gerrit/lab.sh start DIR, then . DIR/env.sh")
	}
	l.Place = program.NewPlace(t, npctl, "GERRIT_USER=admin", "GERRIT_PASSWORD="+l.password, "GIT_CONFIG_NOSYSTEM=1")
	l.Secrets = []string{l.password}
	l.rest(http.MethodPut, "/projects/"+url.PathEscape(l.project), map[string]any{"create_empty_commit": true}, nil)
	l.git("init", "--quiet", "--initial-branch=master")
	l.git("config", "user.name", "Administrator")
	l.git("config", "user.email", "admin@example.com")
	remote, err := url.Parse(l.url + "/a/" + l.project)
	testutil.Must(t, err)
	remote.User = url.UserPassword("admin", l.password)
	l.git("remote", "add", "gerrit", remote.String())
	l.git("pull", "--quiet", "gerrit", "master")
	l.file("labels.hcl", labels)
	l.file("providers.hcl", providers)
	l.file("rules.hcl", rules)
	l.file(".gitignore", ".npctl\n*.plan\n")
	l.git("add", ".")
	l.git("commit", "--quiet", "--message=base")
	l.git("push", "--quiet", "gerrit", "HEAD:refs/heads/master")
	return l
}

func (l *lab) file(name, text string) {
	l.T.Helper()
	testutil.WriteFile(l.T, filepath.Join(l.Dir, name), text)
}

func (l *lab) git(args ...string) string {
	l.T.Helper()
	cmd := exec.CommandContext(l.T.Context(), "git", args...)
	cmd.Dir, cmd.Env = l.Dir, l.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		l.T.Fatalf("git %s: %v\n%s", args[0], err, strings.ReplaceAll(string(out), l.password, "…"))
	}
	return strings.TrimSpace(string(out))
}

// rest makes a call of Gerrit's API as the administrator.
func (l *lab) rest(method, path string, body, into any) {
	l.T.Helper()
	doc, err := json.Marshal(body)
	testutil.Must(l.T, err)
	request, err := http.NewRequestWithContext(l.T.Context(), method, l.url+"/a"+path, bytes.NewReader(doc))
	testutil.Must(l.T, err)
	request.SetBasicAuth("admin", l.password)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	testutil.Must(l.T, err)
	defer response.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(response.Body)
	testutil.Must(l.T, err)
	if response.StatusCode/100 != 2 {
		l.T.Fatalf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	if into != nil {
		testutil.Must(l.T, json.Unmarshal(bytes.TrimPrefix(answer, []byte(")]}'")), into))
	}
}

// push pushes the work tree as the next patch set of the change.
func (l *lab) push(changed string) (commit string) {
	l.T.Helper()
	l.file("labels.hcl", changed)
	message := fmt.Sprintf("--message=change\n\nChange-Id: I%x", sha1.Sum([]byte(l.project))) //nolint:gosec // no secret
	if l.change == 0 {
		l.git("commit", "--quiet", "--all", message)
	} else {
		l.git("commit", "--quiet", "--all", "--amend", message)
	}
	l.git("push", "--quiet", "gerrit", "HEAD:refs/for/master")
	var found []struct {
		Number int `json:"_number"`
	}
	l.rest(http.MethodGet, "/changes/?q="+url.QueryEscape("project:"+l.project), nil, &found)
	l.change = found[0].Number
	return l.git("rev-parse", "HEAD")
}

// plan saves the effect of the newest commit.
func (l *lab) plan(want int) {
	l.T.Helper()
	l.Run(want, "plan", "-against=HEAD^1", "-out=change.plan")
}

// review runs npctl review for a commit and returns its output.
func (l *lab) review(want int, commit string, more ...string) string {
	l.T.Helper()
	args := []string{"review", "-to=gerrit", "-url=" + l.url, "-project=" + l.project, fmt.Sprint("-change=", l.change), "-commit=" + commit, "-vote=Code-Review"}
	return l.Run(want, append(append(args, more...), "change.plan")...)
}

// message is a message of a change.
type message struct {
	Tag   string `json:"tag"`
	Text  string `json:"message"`
	Patch int    `json:"_revision_number"`
}

// posted returns npctl's messages of the change.
func (l *lab) posted() []message {
	l.T.Helper()
	var all []message
	l.rest(http.MethodGet, l.path()+"/messages", nil, &all)
	return slices.DeleteFunc(all, func(m message) bool { return m.Tag != "autogenerated:npctl" })
}

func (l *lab) path() string {
	return "/changes/" + url.PathEscape(l.project) + "~" + fmt.Sprint(l.change)
}

// comment is a comment on a line.
type comment struct {
	Line       int    `json:"line"`
	Patch      int    `json:"patch_set"`
	Message    string `json:"message"`
	Unresolved bool   `json:"unresolved"`
}

func (l *lab) comments() map[string][]comment {
	l.T.Helper()
	var all map[string][]comment
	l.rest(http.MethodGet, l.path()+"/comments", nil, &all)
	return all
}

// vote returns the vote on the change.
func (l *lab) vote() int {
	l.T.Helper()
	var detail struct {
		Labels map[string]struct {
			All []struct {
				Value int `json:"value"`
			} `json:"all"`
		} `json:"labels"`
	}
	l.rest(http.MethodGet, l.path()+"/detail", nil, &detail)
	for _, vote := range detail.Labels["Code-Review"].All {
		if vote.Value != 0 {
			return vote.Value
		}
	}
	return 0
}

func (l *lab) mustHave(text string, words ...string) {
	l.T.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			l.T.Errorf("%q is missing in\n%s", w, text)
		}
	}
}

func TestReviewOfEachPatchSet(t *testing.T) {
	l := newLab(t)
	first := l.push(strings.NewReplacer("= 1", "= 2", `"small" }`, `"medium" }`).Replace(labels))
	l.plan(0)
	l.mustHave(l.review(0, first), "Posted the review: "+l.url+"/c/"+l.project+"/+/")
	all := l.posted()
	if len(all) != 1 || all[0].Patch != 1 {
		t.Fatalf("messages %+v", all)
	}
	l.mustHave(all[0].Text, "Effect: 1 to launch; 1 to launch differently; 2 settings changed.", "label.small min_ready: 1 -> 2", "flavor", "providers.hcl:14", "(2 lines with an effect have no comment: ", "npctl apply -against=HEAD^1 -expect=")
	comments := l.comments()
	if len(comments) != 1 || len(comments["labels.hcl"]) != 1 || comments["labels.hcl"][0].Line != 4 || comments["labels.hcl"][0].Unresolved {
		t.Errorf("comments %+v", comments)
	}
	l.mustHave(comments["labels.hcl"][0].Message, "min_ready: 1 -> 2, at once")
	if got := l.vote(); got != 1 {
		t.Errorf("vote %d", got)
	}

	// the same again posts nothing, also after another plan
	l.plan(0)
	l.mustHave(l.review(0, first), "The change has this review already; nothing was posted")
	if n := len(l.posted()); n != 1 {
		t.Fatalf("%d messages", n)
	}

	// the next patch set has its own message, and an outdated run posts nothing
	second := l.push(strings.Replace(labels, "= 1", "= 3", 1))
	l.mustHave(l.review(0, first), "has a newer commit than the planned one; nothing was posted")
	l.plan(0)
	l.mustHave(l.review(0, second), "Posted the review")
	if all = l.posted(); len(all) != 2 || all[1].Patch != 2 {
		t.Fatalf("messages %+v", all)
	}

	// a change with a problem gets the other vote
	third := l.push(strings.Replace(labels, `"small" }`, `"nowhere" }`, 1))
	l.plan(1)
	l.mustHave(l.review(0, third), "Posted the review")
	all = l.posted()
	l.mustHave(all[2].Text, "1 new problem", "error: ", "nowhere")
	if got := l.vote(); got != -1 {
		t.Errorf("vote %d", got)
	}

	// so does a change that breaks a rule, which the message names with its line
	fourth := l.push(strings.Replace(labels, "= 1", "= 9", 1))
	l.plan(1)
	l.mustHave(l.review(0, fourth), "Posted the review")
	l.mustHave(l.posted()[3].Text, "error: check.growth: the change launches more than 5 nodes [rules.hcl:")
	if got := l.vote(); got != -1 {
		t.Errorf("vote %d", got)
	}

	// without the change, the fleet's own work has no effect
	fifth := l.push(labels + "\n# a comment\n")
	l.plan(0)
	l.mustHave(l.review(0, fifth), "Posted the review")
	l.mustHave(l.posted()[4].Text, "No effect.", "1 step that is due with and without the change hidden")
	if got := l.vote(); got != 1 {
		t.Errorf("vote %d", got)
	}
}

// The longest message and the most and longest comments, with letters of several bytes, are within Gerrit's limits.
func TestLongestReviewIsAccepted(t *testing.T) {
	l := newLab(t)
	commit := l.push(strings.Replace(labels, "= 1", "= 2", 1))
	r := review.Report{Files: map[string]planfile.ConfigurationFile{"labels.hcl": {Path: "labels.hcl", Touched: true}}}
	for i := range 100 {
		r.Effect.Differences = append(r.Effect.Differences, resources.Difference{Address: "label.x", Attribute: "a", After: strings.Repeat("語é@admin@example.com ", 400), Source: resources.Source{File: "labels.hcl", Line: 1 + i}})
	}
	place := review.Gerrit{Notify: "OWNER", Target: review.Target{URL: l.url, Project: l.project, Change: l.change, Commit: commit, User: "admin", Token: l.password}}
	outcome, err := place.Post(t.Context(), r)
	if err != nil || outcome.Result != review.Posted {
		t.Fatalf("%v, %v", outcome, err)
	}
	comments := l.comments()["labels.hcl"]
	if len(comments) != 50 || len(comments[0].Message) < 4000 {
		t.Errorf("%d comments", len(comments))
	}
	if text := l.posted()[0].Text; len(text) < 14_000 || !strings.HasPrefix(text, "Patch Set 1:\n\n(50 comments)\n\nEffect: 100 settings changed.\n") {
		t.Errorf("message of %d bytes\n%.500s", len(text), text)
	}
	if outcome, err = place.Post(t.Context(), r); err != nil || outcome.Result != review.Unchanged {
		t.Errorf("%v, %v", outcome, err)
	}
}

// An error posts nothing, and prints the text that was not posted.
func TestFailedReviewPostsNothing(t *testing.T) {
	l := newLab(t)
	commit := l.push(strings.Replace(labels, "= 1", "= 2", 1))
	l.plan(0)
	for _, c := range []struct {
		name  string
		args  []string
		words []string
	}{
		{"label", []string{"-vote=Verify"}, []string{`has no label "Verify"; nothing was posted`, "Hint: set -vote"}},
		{"value", []string{"-vote-passed=+3"}, []string{"the account may not vote Code-Review+3; nothing was posted"}},
		{"change", []string{"-change=999"}, []string{"Gerrit has no change 999 in project " + l.project}},
		{"project", []string{"-project=ci/none"}, []string{"Gerrit has no change", "404"}},
		{"commit", []string{"-commit=" + l.git("rev-parse", "HEAD^1")}, []string{"is no patch set of change", "Hint: set -commit"}},
		{"user", []string{"-user=nobody"}, []string{`Gerrit does not accept the password of "nobody"`, "401", "Hint: create an HTTP password"}},
		{"url", []string{"-url=" + l.url + "/nowhere"}, []string{"Error: post the review: GET ", "404"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			out := l.review(1, commit, c.args...)
			l.mustHave(out, append(c.words, "Effect: ", "label.small min_ready: 1 -> 2")...)
		})
	}
	if all := l.posted(); len(all) != 0 || len(l.comments()) != 0 || l.vote() != 0 {
		t.Errorf("posted %+v, comments %+v", all, l.comments())
	}
}
