package review

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

func TestEnvironmentOfCI(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "event.json")
		testutil.WriteFile(t, path, text)
		return path
	}
	pull := file(`{"number": 7, "pull_request": {"number": 7, "head": {"sha": "` + headCommit + `"}}}`)
	run := file(`{"workflow_run": {"head_sha": "` + headCommit + `", "head_branch": "main", "head_repository": {"owner": {"login": "mallory"}}, "pull_requests": []}}`)
	push := file(`{"ref": "refs/heads/main"}`)
	for _, c := range []struct {
		name, place string
		env         map[string]string
		want        Target
		head        string
	}{
		{"pull request", "github", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_API_URL": "https://ghe/api/v3", "GITHUB_REPOSITORY": "ci/fleet", "GITHUB_EVENT_PATH": pull, "GITHUB_TOKEN": "t"},
			Target{URL: "https://ghe/api/v3", Project: "ci/fleet", Change: 7, Commit: headCommit, Token: "t", Robot: "github-actions[bot]"}, ""},
		{"workflow after a pull request", "github", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "ci/fleet", "GITHUB_EVENT_PATH": run},
			Target{URL: "https://api.github.com", Project: "ci/fleet", Commit: headCommit, Robot: "github-actions[bot]"}, "mallory:main"},
		{"push", "github", map[string]string{"GITHUB_EVENT_PATH": push, "GITHUB_SHA": oldCommit}, Target{URL: "https://api.github.com"}, ""},
		{"elsewhere", "github", nil, Target{URL: "https://api.github.com"}, ""},
		{"gitea", "gitea", map[string]string{"GITHUB_ACTIONS": "true", "GITHUB_API_URL": "https://gitea/api/v1", "GITHUB_REPOSITORY": "ci/fleet", "GITHUB_EVENT_PATH": pull, "GITHUB_TOKEN": "t", "GITEA_TOKEN": "g"},
			Target{URL: "https://gitea/api/v1", Project: "ci/fleet", Change: 7, Commit: headCommit, Token: "g", Robot: "gitea-actions"}, ""},
		{"gitea without a URL", "gitea", map[string]string{"GITHUB_TOKEN": "t"}, Target{Token: "t"}, ""},
		{"merge request", "gitlab", map[string]string{"CI_API_V4_URL": "https://gitlab/api/v4", "CI_PROJECT_ID": "9", "CI_MERGE_REQUEST_PROJECT_ID": "12", "CI_MERGE_REQUEST_IID": "7", "CI_COMMIT_SHA": headCommit, "GITLAB_TOKEN": "t", "CI_JOB_TOKEN": "j"},
			Target{URL: "https://gitlab/api/v4", Project: "12", Change: 7, Commit: headCommit, Token: "t"}, ""},
		{"merged results", "gitlab", map[string]string{"CI_COMMIT_SHA": oldCommit, "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": headCommit}, Target{Commit: headCommit}, ""},
		{"gerrit", "gerrit", map[string]string{"GERRIT_USER": "u", "GERRIT_PASSWORD": "p", "GITHUB_TOKEN": "t", "GITHUB_EVENT_PATH": "nowhere"}, Target{User: "u", Token: "p"}, ""},
	} {
		got, head, err := Environment(c.place, func(name string) string { return c.env[name] })
		if err != nil || got != c.want || head != c.head {
			t.Errorf("%s: %+v, %q, %v", c.name, got, head, err)
		}
	}
	for path, want := range map[string]string{"nowhere": "no such file", file("{"): "is no event"} {
		_, _, err := Environment("github", func(string) string { return path })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}
