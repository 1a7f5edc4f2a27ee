package review

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/planfile"
	"github.com/npctl/npctl/resources"
)

const (
	headCommit = "1111111111111111111111111111111111111111"
	oldCommit  = "2222222222222222222222222222222222222222"
	testToken  = "s3cr3t-t0ken"
)

// request is a request that a double received.
type request struct {
	method, path string
	query        url.Values
	body         map[string]any
}

// double is a server of code reviews in memory with the calls that npctl uses. It has one open change, number 7, of the repository ci/fleet.
type double struct {
	t        testing.TB
	mux      *http.ServeMux
	requests []request
	fault    func(r *http.Request) *fault // nil: none

	login    string // of the token; "": the token may not ask for it
	head     string
	state    string
	comments []*comment
	checks   []checkRun
	statuses []giteaStatus

	reviews  []gerritReview
	messages []gerritMessage
	deaf     bool // Gerrit ignores votes
}

// fault is the answer in place of the usual one.
type fault struct {
	after  bool // the request has had its effect
	err    error
	code   int
	header http.Header
	body   string
}

func newDouble(t testing.TB) *double {
	d := &double{t: t, mux: http.NewServeMux(), login: "npctl-bot", head: headCommit, state: "open"}
	d.forge("/repos/ci/fleet", "/repos/ci/fleet/pulls/{n}", "/repos/ci/fleet/issues/{n}/comments", "PATCH /repos/ci/fleet/issues/comments/{id}")
	d.forge("/projects/ci%2Ffleet", "/projects/{p}/merge_requests/{n}", "/projects/{p}/merge_requests/{n}/notes", "PUT /projects/{p}/merge_requests/{n}/notes/{id}")
	d.gerrit()
	return d
}

// forge handles the calls of GitHub, GitLab and Gitea that differ only in their paths.
func (d *double) forge(repository, change, comments, update string) {
	d.mux.HandleFunc("GET "+change, func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("n") != "7" {
			d.answer(w, http.StatusNotFound, map[string]any{"message": "Not Found"})
			return
		}
		d.answer(w, http.StatusOK, d.pull())
	})
	d.mux.HandleFunc("GET "+comments, func(w http.ResponseWriter, r *http.Request) {
		page, size := 1, len(d.comments)
		if q := r.URL.Query(); q.Has("per_page") { // Gitea returns all
			page, _ = strconv.Atoi(q.Get("page"))
			size, _ = strconv.Atoi(q.Get("per_page"))
		}
		from := min((page-1)*size, len(d.comments))
		d.answer(w, http.StatusOK, d.comments[from:min(from+size, len(d.comments))])
	})
	d.mux.HandleFunc("POST "+comments, func(w http.ResponseWriter, r *http.Request) {
		c := &comment{ID: int64(len(d.comments) + 1), Body: d.body(r)["body"].(string), URL: "https://forge/c", User: account{Login: d.login}}
		d.comments = append(d.comments, c)
		d.answer(w, http.StatusCreated, c)
	})
	d.mux.HandleFunc(update, func(w http.ResponseWriter, r *http.Request) {
		id, _ := strconv.ParseInt(r.PathValue("id"), 10, 64)
		i := slices.IndexFunc(d.comments, func(c *comment) bool { return c.ID == id })
		d.comments[i].Body = d.body(r)["body"].(string)
		d.answer(w, http.StatusOK, d.comments[i])
	})
	if !strings.HasPrefix(repository, "/repos") {
		return
	}
	d.mux.HandleFunc("GET /user", func(w http.ResponseWriter, _ *http.Request) {
		if d.login == "" {
			d.answer(w, http.StatusForbidden, map[string]any{"message": "Resource not accessible by integration"})
			return
		}
		d.answer(w, http.StatusOK, map[string]any{"login": d.login, "username": d.login})
	})
	d.mux.HandleFunc("GET "+repository+"/pulls", func(w http.ResponseWriter, _ *http.Request) {
		if d.state != "open" {
			d.answer(w, http.StatusOK, []any{})
			return
		}
		d.answer(w, http.StatusOK, []any{d.pull()})
	})
	d.mux.HandleFunc("GET "+repository+"/commits/{sha}/check-runs", func(w http.ResponseWriter, _ *http.Request) {
		runs := d.checks[max(len(d.checks)-1, 0):]
		d.answer(w, http.StatusOK, map[string]any{"total_count": len(runs), "check_runs": runs})
	})
	d.mux.HandleFunc("POST "+repository+"/check-runs", func(w http.ResponseWriter, r *http.Request) {
		var run checkRun
		d.decode(r, &run)
		d.checks = append(d.checks, run)
		d.answer(w, http.StatusCreated, map[string]any{"id": len(d.checks), "html_url": "https://forge/run"})
	})
	d.mux.HandleFunc("GET "+repository+"/statuses/{sha}", func(w http.ResponseWriter, _ *http.Request) {
		var all []map[string]any
		for _, s := range slices.Backward(d.statuses) {
			all = append(all, map[string]any{"context": s.Context, "status": s.State, "description": s.Description})
		}
		d.answer(w, http.StatusOK, all)
	})
	d.mux.HandleFunc("POST "+repository+"/statuses/{sha}", func(w http.ResponseWriter, r *http.Request) {
		var s giteaStatus
		d.decode(r, &s)
		d.statuses = append(d.statuses, s)
		d.answer(w, http.StatusCreated, s)
	})
}

func (d *double) pull() map[string]any {
	state := d.state
	return map[string]any{"number": 7, "state": state, "html_url": "https://forge/7", "web_url": "https://forge/7", "head": map[string]any{"sha": d.head}, "sha": d.head}
}

func (d *double) gerrit() {
	change := "/a/changes/{id}"
	d.mux.HandleFunc("GET /a/accounts/self", func(w http.ResponseWriter, _ *http.Request) {
		d.answer(w, http.StatusOK, map[string]any{"_account_id": 1})
	})
	d.mux.HandleFunc("GET "+change, func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") != "ci/fleet~7" {
			d.answer(w, http.StatusNotFound, "Not found")
			return
		}
		d.answer(w, http.StatusOK, map[string]any{"status": map[string]string{"open": "NEW", "closed": "MERGED"}[d.state], "current_revision": d.head,
			"revisions": map[string]any{oldCommit: map[string]any{"_number": 1}, headCommit: map[string]any{"_number": 2}},
			"labels":    map[string]any{"Verified": map[string]any{}, "Locked": map[string]any{}}, "permitted_labels": map[string]any{"Verified": []string{"-1", " 0", "+1"}}})
	})
	d.mux.HandleFunc("GET "+change+"/revisions/{sha}/files", func(w http.ResponseWriter, _ *http.Request) {
		d.answer(w, http.StatusOK, map[string]any{"/COMMIT_MSG": map[string]any{}, "ci/main.hcl": map[string]any{}, "ci/gone.hcl": map[string]any{"status": "D"}, "ci/binary.hcl": map[string]any{"binary": true}})
	})
	d.mux.HandleFunc("GET "+change+"/messages", func(w http.ResponseWriter, _ *http.Request) { d.answer(w, http.StatusOK, d.messages) })
	d.mux.HandleFunc("POST "+change+"/revisions/{sha}/review", func(w http.ResponseWriter, r *http.Request) {
		var review gerritReview
		d.decode(r, &review)
		d.reviews = append(d.reviews, review)
		m := gerritMessage{Tag: review.Tag, Message: "Patch Set 2:\n\n" + review.Message, Patch: 2}
		m.Author.ID = 1
		d.messages = append(d.messages, m)
		labels := map[string]int{}
		for name, vote := range review.Labels {
			if !d.deaf {
				labels[name], _ = strconv.Atoi(vote)
			}
		}
		d.answer(w, http.StatusOK, map[string]any{"labels": labels})
	})
}

func (d *double) body(r *http.Request) (doc map[string]any) {
	d.decode(r, &doc)
	return doc
}

func (d *double) decode(r *http.Request, into any) {
	d.t.Helper()
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		d.t.Errorf("%s %s: %v", r.Method, r.URL, err)
	}
}

func (d *double) answer(w http.ResponseWriter, code int, doc any) {
	w.WriteHeader(code)
	text, err := json.Marshal(doc)
	testutil.Must(d.t, err)
	_, _ = w.Write(append([]byte(")]}'\n"), text...))
}

var errLost = errors.New("connection reset by peer")

// RoundTrip implements http.RoundTripper.
func (d *double) RoundTrip(r *http.Request) (*http.Response, error) {
	var content []byte
	if r.Body != nil {
		content, _ = io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(content))
	}
	got := request{method: r.Method, path: r.URL.EscapedPath(), query: r.URL.Query()}
	if len(content) > 0 {
		testutil.Must(d.t, json.Unmarshal(content, &got.body))
	}
	d.requests = append(d.requests, got)
	var f *fault
	if d.fault != nil {
		f = d.fault(r)
	}
	if f != nil && !f.after {
		return f.response(r)
	}
	response, err := testutil.Direct(d.mux).RoundTrip(r)
	if f != nil {
		return f.response(r)
	}
	if err == nil && !strings.HasPrefix(r.URL.Path, "/a/") { // only Gerrit has the prefix
		text, _ := io.ReadAll(response.Body)
		response.Body = io.NopCloser(bytes.NewReader(bytes.TrimPrefix(text, []byte(")]}'\n"))))
	}
	return response, err
}

func (f *fault) response(r *http.Request) (*http.Response, error) {
	if f.err != nil {
		return nil, f.err
	}
	header := f.header
	if header == nil {
		header = http.Header{}
	}
	return &http.Response{StatusCode: f.code, Status: fmt.Sprint(f.code, " ", http.StatusText(f.code)), Header: header, Body: io.NopCloser(strings.NewReader(f.body)), Request: r}, nil
}

// writes returns the requests that change something.
func (d *double) writes() (all []request) {
	for _, r := range d.requests {
		if r.method != http.MethodGet {
			all = append(all, r)
		}
	}
	return all
}

func (d *double) target() Target {
	return Target{URL: "https://forge.example.org", Project: "ci/fleet", Change: 7, Commit: headCommit, Token: testToken, Transport: d}
}

// kind is one kind of posts.
type kind struct {
	name  string
	place func(Target) Place
	posts func(*double) int // number of posts that the double has
	text  func(*double) string
}

func lastComment(d *double) string { return d.comments[len(d.comments)-1].Body }

var kinds = []kind{
	{"gerrit", func(t Target) Place {
		t.User = "npctl"
		return Gerrit{Target: t, Label: "Verified", Votes: map[Verdict]string{Passed: "+1", Incomplete: "0", Failed: "-1"}, Notify: "NONE"}
	}, func(d *double) int { return len(d.reviews) }, func(d *double) string { return d.reviews[len(d.reviews)-1].Message }},
	{"github check", func(t Target) Place { return GitHub{Target: t, Check: true} }, func(d *double) int { return len(d.checks) },
		func(d *double) string { return d.checks[len(d.checks)-1].Output.Summary }},
	{"github comment", func(t Target) Place { return GitHub{Target: t} }, func(d *double) int { return len(d.comments) }, lastComment},
	{"gitlab", func(t Target) Place { return GitLab{t} }, func(d *double) int { return len(d.comments) }, lastComment},
	{"gitea", func(t Target) Place { return Gitea{t} }, func(d *double) int { return len(d.comments) }, lastComment},
}

// state sets the state of the change in the words of a kind.
func (d *double) open(k kind) {
	if d.state = "open"; k.name == "gitlab" {
		d.state = "opened"
	}
}

// sample returns a report with two settings of a file that the change touches, and one of another file.
func sample() Report {
	at := func(file string, line int) resources.Source { return resources.Source{File: file, Line: line} }
	return Report{Effect: plan.Effect{Against: "HEAD^1", Differences: []resources.Difference{
		{Address: "label.small", Attribute: "min_ready", Before: "1", After: "2", Class: "in place", Source: at("main.hcl", 9)},
		{Address: "label.new", Block: resources.BlockAdded, Source: at("main.hcl", 12)},
		{Address: "provider.acme", Attribute: "region", Before: "a", After: "b", Class: "replacing", Source: at("other.hcl", 3)},
	}}, Files: map[string]planfile.ConfigurationFile{"main.hcl": {Path: "ci/main.hcl", Touched: true}, "other.hcl": {Path: "ci/other.hcl"}}}
}

// failing adds a problem.
func failing(r Report) Report {
	r.Effect.Problems = append(slices.Clone(r.Effect.Problems), plan.Problem{Address: "label.new", Text: "no pool offers it", Source: resources.Source{File: "main.hcl", Line: 12}})
	return r
}

// many returns a report with more comments than a place accepts.
func many() Report {
	r := sample()
	for i := range 80 {
		d := r.Effect.Differences[0]
		d.Source.Line = 100 + i
		r.Effect.Differences = append(r.Effect.Differences, d)
	}
	return r
}
