//go:build integration

package whole

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// fleet is the project of a fleet in Gerrit, with the fleet's state in the directory of the lab.
type fleet struct {
	*site
	work, dir string // the clone to push from, and the directory with the state
	changes   int    // proposed so far
}

// change is a change of the configuration in review.
type change struct {
	fleet    *fleet
	id       string // Change-Id
	number   int
	patchset int
	commit   string
}

func newFleet(t *testing.T) *fleet {
	s := newSite(t)
	f := &fleet{site: s, work: filepath.Join(s.Dir, "work-fleet"), dir: filepath.Join(s.Dir, "fleet")}
	testutil.Must(t, os.MkdirAll(filepath.Join(f.dir, "rules"), 0o755))
	text, err := os.ReadFile(program)
	testutil.Must(t, err)
	testutil.Must(t, os.WriteFile(filepath.Join(f.dir, "npctl"), text, 0o755)) //nolint:gosec // jobs run it
	testutil.WriteFile(t, filepath.Join(f.dir, "rules", "rules.hcl"), `check "size" {
  severity = "error"
  assert {
    condition     = alltrue([for l in desired.labels : l.min_ready <= 5])
    error_message = "no label may have more than 5 ready nodes"
  }
}
`)
	f.run("apply", "-auto-approve")
	f.snapshot()
	return f
}

// run runs npctl for the clone, with the state of the fleet.
func (f *fleet) run(args ...string) string {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), program, append([]string{"-config=" + f.work, "-state=" + filepath.Join(f.dir, "npctl.db")}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Fatalf("npctl %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (f *fleet) snapshot() {
	f.t.Helper()
	f.run("snapshot", "-out="+filepath.Join(f.dir, "snapshot.json"))
}

func (f *fleet) git(args ...string) string {
	f.t.Helper()
	out, err := exec.CommandContext(f.t.Context(), "git", append([]string{"-C", f.work}, args...)...).CombinedOutput()
	if err != nil {
		f.t.Fatalf("git %s: %v\n%s", args[0], err, out)
	}
	return strings.TrimSpace(string(out))
}

// gerrit makes a call of Gerrit's API.
func (f *fleet) gerrit(method, path string, send, into any) {
	f.t.Helper()
	text, err := json.Marshal(send)
	testutil.Must(f.t, err)
	request, err := http.NewRequestWithContext(f.t.Context(), method, os.Getenv("NPCTL_TEST_GERRIT")+"/a"+path, bytes.NewReader(text))
	testutil.Must(f.t, err)
	request.SetBasicAuth("admin", os.Getenv("NPCTL_TEST_GERRIT_PASSWORD"))
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	testutil.Must(f.t, err)
	defer response.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(response.Body)
	testutil.Must(f.t, err)
	if response.StatusCode/100 != 2 {
		f.t.Fatalf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	if into != nil {
		testutil.Must(f.t, json.Unmarshal(bytes.TrimPrefix(answer, []byte(")]}'")), into))
	}
}

// propose pushes a new change to main, or the next patch set of one.
func (f *fleet) propose(c *change, replacements ...string) *change {
	f.t.Helper()
	f.git("fetch", "-q", "origin")
	f.git("reset", "-q", "--hard", "origin/main")
	path := filepath.Join(f.work, "npctl.hcl")
	testutil.WriteFile(f.t, path, strings.NewReplacer(replacements...).Replace(testutil.ReadFile(f.t, path)))
	if c == nil {
		f.changes++
		c = &change{fleet: f, id: fmt.Sprintf("I%024d%s", f.changes, f.git("rev-parse", "HEAD")[:16])}
	}
	f.git("commit", "-q", "-a", "-m", "change\n\nChange-Id: "+c.id)
	f.git("push", "-q", "origin", "HEAD:refs/for/main")
	var found []struct {
		Number int `json:"_number"`
	}
	f.gerrit(http.MethodGet, "/changes/?q=project:fleet+status:open+"+c.id, nil, &found)
	c.number, c.patchset, c.commit = found[0].Number, c.patchset+1, f.git("rev-parse", "HEAD")
	return c
}

// ended waits for the build of a job for the newest patch set, and returns its result and the names of its artifacts.
func (c *change) ended(job string) (result string, artifacts []string) {
	c.fleet.t.Helper()
	c.fleet.await(fmt.Sprintf("the build of %s for change %d,%d has ended", job, c.number, c.patchset), func() bool {
		var builds []struct {
			Result    string `json:"result"`
			Artifacts []struct {
				Name string `json:"name"`
			} `json:"artifacts"`
		}
		c.fleet.Web(http.MethodGet, fmt.Sprintf("/api/tenant/site/builds?project=fleet&change=%d&patchset=%d&job_name=%s", c.number, c.patchset, job), nil, &builds)
		if len(builds) == 0 || builds[0].Result == "" {
			return false
		}
		result = builds[0].Result
		for _, a := range builds[0].Artifacts {
			artifacts = append(artifacts, a.Name)
		}
		return true
	})
	return result, artifacts
}

// reported waits until Zuul has voted on the newest patch set, and returns the vote and the comments as FILE:LINE: MESSAGE.
func (c *change) reported() (vote int, comments []string) {
	c.fleet.t.Helper()
	path := fmt.Sprintf("/changes/fleet~%d", c.number)
	c.fleet.await(fmt.Sprintf("Zuul has voted on change %d,%d", c.number, c.patchset), func() bool {
		var detail struct {
			Labels map[string]struct {
				All []struct{ Value int }
			} `json:"labels"`
		}
		c.fleet.gerrit(http.MethodGet, path+"/detail", nil, &detail)
		vote = 0
		for _, one := range detail.Labels["Verified"].All {
			vote += one.Value
		}
		return vote != 0
	})
	for _, kind := range []string{"comments", "robotcomments"} { // the kind that Zuul sends depends on the version of Gerrit
		var files map[string][]struct {
			Line    int    `json:"line"`
			Message string `json:"message"`
		}
		c.fleet.gerrit(http.MethodGet, path+"/revisions/"+c.commit+"/"+kind, nil, &files)
		for file, all := range files {
			for _, one := range all {
				comments = append(comments, fmt.Sprintf("%s:%d: %s", file, one.Line, one.Message))
			}
		}
	}
	return vote, comments
}

// submit approves and submits the newest patch set.
func (c *change) submit() {
	c.fleet.t.Helper()
	path := fmt.Sprintf("/changes/fleet~%d", c.number)
	c.fleet.gerrit(http.MethodPost, path+"/revisions/"+c.commit+"/review", map[string]any{"labels": map[string]int{"Code-Review": 2}}, nil)
	c.fleet.gerrit(http.MethodPost, path+"/submit", nil, nil)
}

// A change goes from its first patch set to its nodes: Zuul's job plans it with a snapshot, Gerrit has the comments at the lines, and
// the job after the merge applies the effect that was reviewed.
func TestChangeOfAFleetIsReviewedAndApplied(t *testing.T) {
	f := newFleet(t)
	c := f.propose(nil, "min_ready = 1", "min_ready = 3")
	if result, artifacts := c.ended("plan-fleet"); result != "SUCCESS" || strings.Join(artifacts, "") != "npctl: Effect: 2 to launch; 1 setting changed." {
		t.Errorf("the first patch set: %s, %q", result, artifacts)
	}
	vote, comments := c.reported()
	if all := strings.Join(comments, "\n"); vote != 1 || len(comments) != 2 || !strings.Contains(all, "npctl.hcl:2: ~ label.small min_ready: 1 -> 3, at once") || !strings.Contains(all, "npctl.hcl:13: + 2 nodes small in play/main") {
		t.Errorf("the first patch set: %+d, %s", vote, all)
	}

	// The next patch set breaks a rule that is not in the repository.
	f.propose(c, "min_ready = 1", "min_ready = 6")
	if result, artifacts := c.ended("plan-fleet"); result != "FAILURE" || !strings.Contains(strings.Join(artifacts, ""), "1 new problem") {
		t.Errorf("the second patch set: %s, %q", result, artifacts)
	}
	vote, comments = c.reported()
	if all := strings.Join(comments, "\n"); vote != -1 || !strings.Contains(all, "npctl.hcl:2: ~ label.small min_ready: 1 -> 6, at once") {
		t.Errorf("the second patch set: %+d, %s", vote, all)
	}
	var messages []struct{ Message string }
	f.gerrit(http.MethodGet, fmt.Sprintf("/changes/fleet~%d/messages", c.number), nil, &messages)
	if last := messages[len(messages)-1].Message; !strings.Contains(last, "check.size: no label may have more than 5 ready nodes") {
		t.Errorf("the message of Zuul: %s", last)
	}

	// The last one is merged, and the fleet follows.
	f.propose(c, "min_ready = 1", "min_ready = 2")
	if result, _ := c.ended("plan-fleet"); result != "SUCCESS" {
		t.Errorf("the third patch set: %s", result)
	}
	c.submit()
	if result, _ := c.ended("apply-fleet"); result != "SUCCESS" {
		t.Fatalf("after the merge: %s", result)
	}
	f.git("fetch", "-q", "origin")
	f.git("reset", "-q", "--hard", "origin/main")
	if out := f.run("plan"); !strings.Contains(out, "No changes.") {
		t.Errorf("after the merge: %s", out)
	}

	// A change without an effect says so, while the fleet has work to do.
	f.run("state", "rm", "node.0000000001")
	f.snapshot()
	c = f.propose(nil, "label \"small\" {", "# Nodes for unit tests.\nlabel \"small\" {")
	if result, artifacts := c.ended("plan-fleet"); result != "SUCCESS" || strings.Join(artifacts, "") != "npctl: No effect." {
		t.Errorf("without an effect: %s, %q", result, artifacts)
	}
	if vote, comments := c.reported(); vote != 1 || len(comments) != 0 {
		t.Errorf("without an effect: %+d, %q", vote, comments)
	}

	// An effect that was not reviewed is not applied: this one is merged before its plan.
	testutil.Must(t, os.Rename(filepath.Join(f.dir, "snapshot.json"), filepath.Join(f.dir, "gone.json")))
	c = f.propose(nil, "min_ready = 2", "min_ready = 4")
	if result, _ := c.ended("plan-fleet"); result != "FAILURE" {
		t.Errorf("without a snapshot: %s", result)
	}
	c.submit()
	if result, _ := c.ended("apply-fleet"); result != "FAILURE" {
		t.Errorf("without a reviewed effect: %s", result)
	}
	s := f.run("state", "list")
	if n := strings.Count(s, "node."); n != 1 {
		t.Errorf("nodes: %s", s)
	}
}
