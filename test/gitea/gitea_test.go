//go:build integration

package gitea

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
)

var npctl string

func TestMain(m *testing.M) { os.Exit(program.Main(m, &npctl)) }

const configuration = `npctl {
  images_dir = ".npctl/images"
  state "bolt" { path = ".npctl/npctl.db" }
}

label "small" {
  min_ready = 1
}

provider "sandbox" "acme" {
  public_image "debian" {}
  cloud_image "debian" { image_name = "debian" }
  pool "main" {
    max_servers = 10
    networks    = ["private"]
    label "small" {
      image  = cloud_image.debian
      flavor = "small"
    }
  }
}
`

// lab is a repository of Gitea with a clone, in which npctl plans.
type lab struct {
	*program.Place
	url, admin, bot, repository string
	pull                        int
}

func setting(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("set %s: test/gitea/lab.sh start DIR, then . DIR/env.sh", name)
	}
	return value
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{url: setting(t, "NPCTL_TEST_GITEA"), admin: setting(t, "NPCTL_TEST_GITEA_ADMIN"), bot: setting(t, "NPCTL_TEST_GITEA_TOKEN")}
	name := fmt.Sprintf("fleet-%x", time.Now().UnixNano()) // another one for each run
	l.repository = "admin/" + name
	l.Place = program.NewPlace(t, npctl, "GITEA_TOKEN="+l.bot, "GIT_CONFIG_NOSYSTEM=1")
	l.Secrets = []string{l.bot, l.admin}
	l.rest(http.MethodPost, "/user/repos", map[string]any{"name": name}, nil)
	l.rest(http.MethodPut, "/repos/"+l.repository+"/collaborators/npctl-bot", map[string]any{"permission": "write"}, nil)
	l.git("init", "--quiet", "--initial-branch=main")
	l.git("config", "user.name", "Author")
	l.git("config", "user.email", "author@example.com")
	remote, err := url.Parse(l.url + "/" + l.repository + ".git")
	testutil.Must(t, err)
	remote.User = url.UserPassword("admin", l.admin)
	l.git("remote", "add", "gitea", remote.String())
	l.write(configuration)
	testutil.WriteFile(t, filepath.Join(l.Dir, ".gitignore"), ".npctl\n*.plan\n")
	l.git("add", ".")
	l.git("commit", "--quiet", "--message=base")
	l.git("push", "--quiet", "gitea", "HEAD:refs/heads/main")
	l.awaitBranch("main")
	return l
}

func (l *lab) write(text string) {
	l.T.Helper()
	testutil.WriteFile(l.T, filepath.Join(l.Dir, "npctl.hcl"), text)
}

func (l *lab) git(args ...string) string {
	l.T.Helper()
	cmd := exec.CommandContext(l.T.Context(), "git", args...)
	cmd.Dir, cmd.Env = l.Dir, l.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		l.T.Fatalf("git %s: %v\n%s", args[0], err, strings.ReplaceAll(string(out), l.admin, "…"))
	}
	return strings.TrimSpace(string(out))
}

// rest makes a call of Gitea's API as the administrator.
func (l *lab) rest(method, path string, body, into any) {
	l.T.Helper()
	doc, err := json.Marshal(body)
	testutil.Must(l.T, err)
	request, err := http.NewRequestWithContext(l.T.Context(), method, l.url+"/api/v1"+path, bytes.NewReader(doc))
	testutil.Must(l.T, err)
	request.Header.Set("Authorization", "token "+l.admin)
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
		testutil.Must(l.T, json.Unmarshal(answer, into))
	}
}

// awaitBranch waits until Gitea knows a pushed branch, which it handles in the background.
func (l *lab) awaitBranch(name string) {
	l.T.Helper()
	testutil.Await(l.T, "the branch "+name+" exists", func() bool {
		var all []struct {
			Name string `json:"name"`
		}
		l.rest(http.MethodGet, "/repos/"+l.repository+"/branches", nil, &all)
		for _, b := range all {
			if b.Name == name {
				return true
			}
		}
		return false
	})
}

// push pushes a configuration as the next commit of the pull request, and plans it.
func (l *lab) push(text string, want int) (commit string) {
	l.T.Helper()
	l.write(text)
	message := "--message=change"
	if l.pull == 0 {
		l.git("commit", "--quiet", "--all", message)
	} else {
		l.git("commit", "--quiet", "--all", "--amend", message)
	}
	l.git("push", "--quiet", "--force", "gitea", "HEAD:refs/heads/change")
	commit = l.git("rev-parse", "HEAD")
	l.awaitBranch("change")
	if l.pull == 0 {
		var made struct {
			Number int `json:"number"`
		}
		l.rest(http.MethodPost, "/repos/"+l.repository+"/pulls", map[string]any{"head": "change", "base": "main", "title": "change"}, &made)
		l.pull = made.Number
	}
	testutil.Await(l.T, "the pull request has the commit", func() bool {
		var now struct {
			Head struct {
				SHA string `json:"sha"`
			} `json:"head"`
		}
		l.rest(http.MethodGet, fmt.Sprintf("/repos/%s/pulls/%d", l.repository, l.pull), nil, &now)
		return now.Head.SHA == commit
	})
	l.Run(want, "plan", "-against=HEAD^1", "-out=change.plan")
	return commit
}

func (l *lab) review(want int, commit string, more ...string) string {
	l.T.Helper()
	args := []string{"review", "-to=gitea", "-url=" + l.url + "/api/v1", "-project=" + l.repository, fmt.Sprint("-change=", l.pull), "-commit=" + commit}
	return l.Run(want, append(append(args, more...), "change.plan")...)
}

// comment is a comment on a pull request.
type comment struct {
	Body string `json:"body"`
	User struct {
		Login string `json:"login"`
	} `json:"user"`
}

func (l *lab) comments() (all []comment) {
	l.T.Helper()
	l.rest(http.MethodGet, fmt.Sprintf("/repos/%s/issues/%d/comments", l.repository, l.pull), nil, &all)
	return all
}

// statuses returns the states of the commit.
func (l *lab) statuses(commit string) string {
	l.T.Helper()
	var all []struct {
		Context string `json:"context"`
		Status  string `json:"status"`
	}
	l.rest(http.MethodGet, "/repos/"+l.repository+"/statuses/"+commit, nil, &all)
	return fmt.Sprint(all)
}

func (l *lab) mustHave(text string, words ...string) {
	l.T.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			l.T.Errorf("%q is missing in\n%s", w, text)
		}
	}
}

func TestCommentIsKeptUpToDate(t *testing.T) {
	l := newLab(t)
	first := l.push(strings.Replace(configuration, "min_ready = 1", "min_ready = 2", 1), 0)
	l.mustHave(l.review(0, first), "Posted the review: "+l.url)
	all := l.comments()
	if len(all) != 1 || all[0].User.Login != "npctl-bot" {
		t.Fatalf("comments %+v", all)
	}
	l.mustHave(all[0].Body, "### Effect: 1 to launch; 1 setting changed.", "min_ready: 1 -> 2")
	if got := l.statuses(first); got != "[{npctl success}]" {
		t.Errorf("statuses %s", got)
	}
	l.mustHave(l.review(0, first), "The change has this review already; nothing was posted")

	// the author copies the comment, which must not suppress the next one
	l.rest(http.MethodPost, fmt.Sprintf("/repos/%s/issues/%d/comments", l.repository, l.pull), map[string]any{"body": all[0].Body}, nil)

	// the next commit has a problem; an outdated run posts nothing
	second := l.push(strings.Replace(configuration, `"small"`+"\n    }", `"nowhere"`+"\n    }", 1), 1)
	l.mustHave(l.review(0, first), "has a newer commit than the planned one; nothing was posted")
	l.mustHave(l.review(0, second), "Updated the review")
	if all = l.comments(); len(all) != 2 {
		t.Fatalf("comments %+v", all)
	}
	l.mustHave(all[0].Body, "1 new problem", "nowhere", second)
	if got := l.statuses(second); got != "[{npctl failure}]" {
		t.Errorf("statuses %s", got)
	}
	l.mustHave(l.review(0, second), "nothing was posted")
	if got := l.statuses(second); got != "[{npctl failure}]" {
		t.Errorf("statuses %s", got)
	}
	l.mustHave(l.review(0, second, "-name=other"), "Posted the review")
}

func TestFailedReviewPostsNothing(t *testing.T) {
	l := newLab(t)
	commit := l.push(strings.Replace(configuration, "min_ready = 1", "min_ready = 2", 1), 0)
	testutil.WriteFile(t, filepath.Join(l.Dir, "token"), strings.Repeat("0", 40))
	for _, c := range []struct {
		name, arg string
		words     []string
	}{
		{"token", "-token-file=token", []string{"401", "Hint: check the token"}},
		{"change", "-change=999", []string{"has no pull request 999", "404"}},
		{"project", "-project=admin/none", []string{"admin/none has no pull request", "404"}},
		{"url", "-url=" + l.url, []string{"404"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.mustHave(l.review(1, commit, c.arg), append(c.words, "Error: post the review: ", "### Effect: 1 to launch")...)
		})
	}
	if all := l.comments(); len(all) != 0 || l.statuses(commit) != "[]" {
		t.Errorf("comments %+v, statuses %s", all, l.statuses(commit))
	}
}
