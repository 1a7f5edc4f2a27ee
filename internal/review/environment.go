package review

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/npctl/npctl/internal/host"
)

// eventLimit limits the file of GitHub Actions that describes the event: GitHub limits events to 25 MB.
const eventLimit = 32 << 20

// event is the part of the event of GitHub or Gitea Actions that names the change. The server writes it, not the job.
type event struct {
	PullRequest *struct {
		Number int `json:"number"`
		Head   struct {
			SHA string `json:"sha"`
		} `json:"head"`
	} `json:"pull_request"`
	// WorkflowRun is the run that another workflow follows. Pull requests of forks have no number there.
	WorkflowRun *struct {
		SHA        string `json:"head_sha"`
		Branch     string `json:"head_branch"`
		Repository struct {
			Owner struct {
				Login string `json:"login"`
			} `json:"owner"`
		} `json:"head_repository"`
	} `json:"workflow_run"`
}

// Environment returns the target that the variables of a CI name, for a place with the name of the option -to, and the branch of a pull request
// without a number.
func Environment(place string, getenv func(string) string) (t Target, head string, err error) {
	switch place {
	case "gerrit":
		return Target{User: getenv("GERRIT_USER"), Token: getenv("GERRIT_PASSWORD")}, "", nil
	case "gitlab":
		number, _ := strconv.Atoi(getenv("CI_MERGE_REQUEST_IID")) // 0 is not known
		return Target{URL: getenv("CI_API_V4_URL"), Project: getenv("CI_MERGE_REQUEST_PROJECT_ID"), Change: number,
			// the commit of a pipeline for merged results is no commit of the merge request
			Commit: cmp.Or(getenv("CI_MERGE_REQUEST_SOURCE_BRANCH_SHA"), getenv("CI_COMMIT_SHA")), Token: getenv("GITLAB_TOKEN")}, "", nil
	}
	t = Target{URL: getenv("GITHUB_API_URL"), Project: getenv("GITHUB_REPOSITORY"), Token: getenv("GITHUB_TOKEN")}
	actions := getenv("GITHUB_ACTIONS") == "true"
	if place == "gitea" {
		t.Token = cmp.Or(getenv("GITEA_TOKEN"), t.Token)
		t.Robot = "gitea-actions"
	} else {
		t.URL = cmp.Or(t.URL, "https://api.github.com")
		t.Robot = "github-actions[bot]"
	}
	if !actions {
		t.Robot = ""
	}
	path := getenv("GITHUB_EVENT_PATH")
	if path == "" {
		return t, "", nil
	}
	e, err := readEvent(path)
	switch {
	case err != nil:
		return t, "", fmt.Errorf("GITHUB_EVENT_PATH: %w", err)
	case e.PullRequest != nil:
		t.Change, t.Commit = e.PullRequest.Number, e.PullRequest.Head.SHA
	case e.WorkflowRun != nil:
		t.Commit, head = e.WorkflowRun.SHA, e.WorkflowRun.Repository.Owner.Login+":"+e.WorkflowRun.Branch
	}
	return t, head, nil
}

func readEvent(path string) (e event, err error) {
	doc, err := host.ReadFile(path, eventLimit)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(doc, &e); err != nil {
		return e, fmt.Errorf("%s is no event: %w", path, err)
	}
	return e, nil
}
