//go:build integration

package whole

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	tenant  = "/api/tenant/site"
	project = tenant + "/project/app"
	branch  = "refs/heads/main"
)

// build is a build as Zuul reports it.
type build struct {
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

// web calls Zuul's web API, as its operators do, and decodes the answer unless into is nil.
func (s *site) web(method, path string, send, into any) {
	s.t.Helper()
	text, err := json.Marshal(send)
	s.must(err, path)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), 30*time.Second) // cleanup calls it too, after the test's context has ended
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(text))
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

// enqueue starts the jobs of the pipeline for the project's branch.
func (s *site) enqueue(pipeline string) {
	s.t.Helper()
	revisions := strings.Fields(s.git("rev-parse", "HEAD", "HEAD~"))
	s.web(http.MethodPost, project+"/enqueue", map[string]string{"trigger": "git", "pipeline": pipeline, "ref": branch,
		"newrev": revisions[0], "oldrev": revisions[1]}, nil)
}

// dequeue cancels these jobs.
func (s *site) dequeue(pipeline string) {
	s.t.Helper()
	s.web(http.MethodPost, project+"/dequeue", map[string]string{"pipeline": pipeline, "ref": branch}, nil)
}

// autohold requests the nodes of the next failing build of a job for the given duration; 0 is indefinite.
func (s *site) autohold(job, reason string, expiration time.Duration) {
	s.t.Helper()
	s.web(http.MethodPost, project+"/autohold", map[string]any{"job": job, "reason": reason, "count": 1, "ref": nil, "change": nil,
		"node_hold_expiration": int(expiration.Seconds())}, nil)
}

// endAutoholds ends the holds of a job, which frees their nodes.
func (s *site) endAutoholds(job string) {
	s.t.Helper()
	var all []hold
	s.web(http.MethodGet, tenant+"/autohold", nil, &all)
	for _, h := range all {
		if h.Job == job {
			s.web(http.MethodDelete, tenant+"/autohold/"+h.ID, nil, nil)
		}
	}
}

// builds returns the builds of a job from Zuul's database.
func (s *site) builds(job string) (all []build) {
	s.t.Helper()
	s.web(http.MethodGet, tenant+"/builds?job_name="+job, nil, &all)
	return all
}

// ended waits until a new build of a job ends with one of the results.
func (s *site) ended(job string, before []build, results ...string) (b build) {
	s.t.Helper()
	s.await(job+" has ended", func() bool {
		now := s.builds(job)
		if len(now) == len(before) {
			return false
		}
		b = now[0]
		return b.Result != ""
	})
	if !slices.Contains(results, b.Result) {
		s.t.Fatalf("%s ended with %s, want %s\n%s", job, b.Result, results, s.text("log", "build-"+b.UUID+".txt"))
	}
	return b
}

// awaitBuild waits until a new build of a job runs on its nodes.
func (s *site) awaitBuild(job string, before []build) (b build) {
	s.t.Helper()
	s.await(job+" runs", func() bool {
		now := s.builds(job)
		if len(now) > len(before) {
			b = now[0]
			return s.text("ran", b.UUID) != ""
		}
		return false
	})
	return b
}

// endWait lets a build of the job "wait" continue.
func (s *site) endWait(b build) {
	s.t.Helper()
	s.must(os.WriteFile(filepath.Join(s.lab, "go", b.UUID), nil, 0o600), "let go")
}

// addressesOfBuild returns the address at which each node of a build has run it, as SSH reports it.
func (s *site) addressesOfBuild(b build) map[string]string {
	s.t.Helper()
	at := map[string]string{}
	for line := range strings.Lines(s.text("ran", b.UUID)) {
		if words := strings.Fields(line); len(words) == 5 { // name, client and its port, server and its port
			at[words[0]] = words[3]
		}
	}
	return at
}

// text returns the content of a file of the lab, or an empty string if it does not exist.
func (s *site) text(path ...string) string {
	text, _ := os.ReadFile(filepath.Join(append([]string{s.lab}, path...)...))
	return string(text)
}

// push changes the project, and returns the commit.
func (s *site) push(greeting string) string {
	s.t.Helper()
	s.must(os.WriteFile(filepath.Join(s.lab, "work-app", "greeting"), []byte(greeting), 0o600), "greeting")
	s.git("commit", "-q", "-a", "-m", "say "+greeting)
	s.git("push", "-q", "origin", "main")
	return strings.TrimSpace(s.git("rev-parse", "HEAD"))
}

func (s *site) git(arguments ...string) string {
	s.t.Helper()
	out, err := exec.CommandContext(s.t.Context(), "git", append([]string{"-C", filepath.Join(s.lab, "work-app")}, arguments...)...).CombinedOutput()
	s.must(err, fmt.Sprintf("git %q: %s", arguments, out))
	return string(out)
}
