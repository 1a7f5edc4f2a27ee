// Package site is a client of the complete Zuul that test/zuul/whole/lab.sh starts, for integration tests.
package site

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
)

const (
	tenant  = "/api/tenant/site"
	project = tenant + "/project/app"
	branch  = "refs/heads/main"
)

// Site is a running lab.
type Site struct {
	Dir string // of the lab
	URL string // of Zuul's web pages

	t     *testing.T
	token string
}

// FromEnviron returns the lab of the environment, from the variables of its env.sh.
func FromEnviron() (Site, error) {
	s := Site{Dir: os.Getenv("NPCTL_TEST_ZUUL_SITE"), URL: os.Getenv("NPCTL_TEST_ZUUL_WEB")}
	if s.Dir == "" {
		return s, errors.New("start a Zuul with test/zuul/whole/lab.sh, and source its env.sh")
	}
	token, err := exec.CommandContext(context.Background(), os.Getenv("NPCTL_TEST_ZUUL_TOKEN")).Output()
	if err != nil {
		return s, fmt.Errorf("token: %w", err)
	}
	s.token = strings.TrimSpace(string(token))
	return s, nil
}

// With returns the lab for a test, which fails when a call fails.
func (s Site) With(t *testing.T) Site {
	s.t = t
	return s
}

// Machines returns the addresses of the lab's machines. Their sshd listens at SSHPort.
func (s Site) Machines() []string { return strings.Fields(os.Getenv("NPCTL_TEST_ZUUL_MACHINES")) }

// SSHPort returns the port of the machines.
func (s Site) SSHPort() string { return os.Getenv("NPCTL_TEST_ZUUL_SSH") }

// Build is a build as Zuul reports it.
type Build struct {
	UUID   string `json:"uuid"`
	Job    string `json:"job_name"`
	Result string `json:"result"` // empty while the build runs
	Ref    struct {
		New string `json:"newrev"`
	} `json:"ref"`
}

// hold is a Zuul request to keep the nodes of the next failing build of a job.
type hold struct {
	ID  string `json:"id"`
	Job string `json:"job"`
}

// Web calls Zuul's web API, as its operators do, and decodes the answer unless into is nil.
func (s Site) Web(method, path string, send, into any) {
	s.t.Helper()
	text, err := json.Marshal(send)
	s.must(err, path)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 30*time.Second) // cleanup calls it too, after the test's context has ended
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(text))
	s.must(err, path)
	r.Header.Set("Authorization", s.token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	s.must(err, path)
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	s.must(err, path)
	if answer.StatusCode >= 300 {
		s.t.Fatalf("%s %s: %s\n%s", method, path, answer.Status, body)
	}
	if into != nil {
		s.must(json.Unmarshal(body, into), path)
	}
}

// Enqueue starts the jobs of the pipeline for the project's branch.
func (s Site) Enqueue(pipeline string) {
	s.t.Helper()
	revisions := strings.Fields(s.git("rev-parse", "HEAD", "HEAD~"))
	s.Web(http.MethodPost, project+"/enqueue", map[string]string{"trigger": "git", "pipeline": pipeline, "ref": branch,
		"newrev": revisions[0], "oldrev": revisions[1]}, nil)
}

// Dequeue cancels these jobs.
func (s Site) Dequeue(pipeline string) {
	s.t.Helper()
	s.Web(http.MethodPost, project+"/dequeue", map[string]string{"pipeline": pipeline, "ref": branch}, nil)
}

// Autohold requests the nodes of the next failing build of a job for the given duration; 0 is indefinite.
func (s Site) Autohold(job, reason string, expiration time.Duration) {
	s.t.Helper()
	s.Web(http.MethodPost, project+"/autohold", map[string]any{"job": job, "reason": reason, "count": 1, "ref": nil, "change": nil,
		"node_hold_expiration": int(expiration.Seconds())}, nil)
}

// EndAutoholds ends the holds of a job, which frees their nodes.
func (s Site) EndAutoholds(job string) {
	s.t.Helper()
	var all []hold
	s.Web(http.MethodGet, tenant+"/autohold", nil, &all)
	for _, h := range all {
		if h.Job == job {
			s.Web(http.MethodDelete, tenant+"/autohold/"+h.ID, nil, nil)
		}
	}
}

// Builds returns the builds of a job from Zuul's database.
func (s Site) Builds(job string) (all []Build) {
	s.t.Helper()
	s.Web(http.MethodGet, tenant+"/builds?limit=1000&job_name="+job, nil, &all)
	return all
}

// Ended waits until a new build of a job ends with one of the results.
func (s Site) Ended(job string, before []Build, results ...string) (b Build) {
	s.t.Helper()
	testutil.Await(s.t, job+" has ended", func() bool {
		now := s.Builds(job)
		if len(now) == len(before) {
			return false
		}
		b = now[0]
		return b.Result != ""
	})
	if !slices.Contains(results, b.Result) {
		s.t.Fatalf("%s ended with %s, want %s\n%s", job, b.Result, results, s.Text("log", "build-"+b.UUID+".txt"))
	}
	return b
}

// AwaitBuild waits until a new build of a job runs on its nodes.
func (s Site) AwaitBuild(job string, before []Build) (b Build) {
	s.t.Helper()
	testutil.Await(s.t, job+" runs", func() bool {
		now := s.Builds(job)
		if len(now) > len(before) {
			b = now[0]
			return s.Text("ran", b.UUID) != ""
		}
		return false
	})
	return b
}

// EndWait lets a build of the job "wait" continue.
func (s Site) EndWait(b Build) {
	s.t.Helper()
	s.must(os.WriteFile(filepath.Join(s.Dir, "go", b.UUID), nil, 0o600), "let go")
}

// AddressesOfBuild returns the address at which each node of a build has run it, as SSH reports it.
func (s Site) AddressesOfBuild(b Build) map[string]string {
	s.t.Helper()
	at := map[string]string{}
	for line := range strings.Lines(s.Text("ran", b.UUID)) {
		if words := strings.Fields(line); len(words) == 5 { // name, client and its port, server and its port
			at[words[0]] = words[3]
		}
	}
	return at
}

// Text returns the content of a file of the lab, or an empty string if it does not exist.
func (s Site) Text(path ...string) string {
	text, _ := os.ReadFile(filepath.Join(append([]string{s.Dir}, path...)...))
	return string(text)
}

// Push changes the project, and returns the commit.
func (s Site) Push(greeting string) string {
	s.t.Helper()
	s.must(os.WriteFile(filepath.Join(s.Dir, "work-app", "greeting"), []byte(greeting), 0o600), "greeting")
	s.git("commit", "-q", "-a", "-m", "say "+greeting)
	s.git("push", "-q", "origin", "main")
	return strings.TrimSpace(s.git("rev-parse", "HEAD"))
}

func (s Site) git(arguments ...string) string {
	s.t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(s.t.Context()), "git", append([]string{"-C", filepath.Join(s.Dir, "work-app")}, arguments...)...).CombinedOutput()
	s.must(err, fmt.Sprintf("git %q: %s", arguments, out))
	return string(out)
}

func (s Site) must(err error, what string) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}
