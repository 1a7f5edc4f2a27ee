package review

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/internal/hints"
	"github.com/npctl/npctl/internal/testutil"
)

// eachKind runs a test for each kind of posts, in a bubble with its own clock.
func eachKind(t *testing.T, test func(t *testing.T, k kind, d *double)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDouble(t)
				d.open(k)
				test(t, k, d)
			})
		})
	}
}

func (k kind) post(t testing.TB, d *double, r Report, want Result) {
	t.Helper()
	outcome, err := k.place(d.target()).Post(t.Context(), r)
	if err != nil || outcome.Result != want {
		t.Fatalf("%s, %v, want %s", outcome.Result, err, want)
	}
}

func TestEqualReportIsPostedOnce(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		k.post(t, d, sample(), Posted)
		writes := len(d.writes())
		k.post(t, d, sample(), Unchanged)
		if n := k.posts(d); n != 1 || len(d.writes()) != writes {
			t.Errorf("%d posts, %v", n, d.writes())
		}
		if text := k.text(d); !strings.Contains(text, "Effect: 3 settings changed.") || !strings.Contains(text, "min_ready: 1 -> 2") || !strings.Contains(text, sample().Effect.Digest()) {
			t.Errorf("posted\n%s", text)
		}
	})
}

func TestAnotherReportReplacesACommentOrIsPostedBesideIt(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		k.post(t, d, sample(), Posted)
		want, posts := Updated, 1
		if k.name == "gerrit" || k.name == "github check" { // which replace nothing
			want, posts = Posted, 2
		}
		k.post(t, d, failing(sample()), want)
		if n := k.posts(d); n != posts || !strings.Contains(k.text(d), "no pool offers it") {
			t.Errorf("%d posts, the last is\n%s", n, k.text(d))
		}
		k.post(t, d, failing(sample()), Unchanged)
	})
}

func TestOutdatedReportIsNotPosted(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		if k.name == "github check" { // it belongs to a commit, not to the pull request
			return
		}
		d.head = oldCommit
		k.post(t, d, sample(), Outdated)
		d.head, d.state = headCommit, "closed"
		k.post(t, d, sample(), Outdated)
		if n := len(d.writes()); n != 0 {
			t.Errorf("%d writes", n)
		}
	})
}

// Gerrit keeps the comments of a patch set with it, so the next one gets its own review, also if the effect is the same.
func TestEachPatchSetHasItsOwnReview(t *testing.T) {
	d := newDouble(t)
	kinds[0].post(t, d, sample(), Posted)
	d.messages[0].Patch = 1
	kinds[0].post(t, d, sample(), Posted)
	kinds[0].post(t, d, sample(), Unchanged)
}

// Any reviewer may copy the first line or the last line of a post, to suppress the next one or to have it edited.
func TestPostsOfOthersDoNotCount(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		if k.name == "github check" { // only Apps create check runs
			return
		}
		k.post(t, d, sample(), Posted)
		for i := range d.comments {
			d.comments[i].User.Login = "mallory"
		}
		for i := range d.messages {
			d.messages[i].Author.ID = 2
		}
		k.post(t, d, sample(), Posted)
	})
}

func TestPostWhoseAnswerIsLostIsNotRepeated(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		for _, f := range []fault{{after: true, err: errLost}, {after: true, code: 502}} {
			d.comments, d.checks, d.reviews, d.messages, d.statuses = nil, nil, nil, nil, nil
			lost := false
			d.fault = func(r *http.Request) *fault {
				if lost || r.Method == http.MethodGet {
					return nil
				}
				lost = true
				return &f
			}
			k.post(t, d, sample(), Unchanged)
			if n := k.posts(d); n != 1 || !lost {
				t.Errorf("%d posts", n)
			}
		}
	})
}

func TestTransientErrorsAreRetried(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		for _, c := range []struct {
			name string
			fault
			least, most time.Duration
		}{
			{"lost request", fault{err: errLost}, 500 * time.Millisecond, 5 * time.Second},
			{"503", fault{code: 503}, 500 * time.Millisecond, 5 * time.Second},
			{"503 with a pause", fault{code: 503, header: http.Header{"Retry-After": {"20"}}}, 20 * time.Second, 25 * time.Second},
			{"429", fault{code: 429, header: http.Header{"Retry-After": {"30"}}}, 30 * time.Second, 35 * time.Second},
			{"secondary limit", fault{code: 403, header: http.Header{"Retry-After": {"40"}}}, 40 * time.Second, 45 * time.Second},
			{"primary limit", fault{code: 403, header: http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"in 50 s"}}}, 49 * time.Second, 55 * time.Second},
			{"429 without a pause", fault{code: 429}, time.Minute, 65 * time.Second},
		} {
			began, failed := time.Now(), false
			if c.header.Get("X-Ratelimit-Reset") != "" {
				c.header.Set("X-Ratelimit-Reset", strconv.FormatInt(began.Unix()+50, 10))
			}
			d.comments, d.checks, d.reviews, d.messages, d.statuses = nil, nil, nil, nil, nil
			d.fault = func(*http.Request) *fault {
				if failed {
					return nil
				}
				failed = true
				return &c.fault
			}
			k.post(t, d, sample(), Posted)
			if waited := time.Since(began); waited < c.least || waited > c.most {
				t.Errorf("%s: waited %s", c.name, waited)
			}
		}
	})
}

func TestFinalErrorsAreNotRetried(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		for _, code := range []int{301, 400, 401, 403, 404, 409, 422} {
			d.requests, d.fault = nil, func(r *http.Request) *fault {
				return &fault{code: code, body: `{"message":"no: ` + testToken + `\u001b[31m"}`}
			}
			_, err := k.place(d.target()).Post(t.Context(), sample())
			if err == nil || strings.Contains(err.Error(), testToken) || strings.Contains(err.Error(), "\x1b") {
				t.Fatalf("%d: %v", code, err)
			}
			if gets := len(d.requests); gets > 2 || len(d.writes()) != 0 { // GET /user may be refused
				t.Errorf("%d: %d requests", code, gets)
			}
		}
		d.requests, d.fault = nil, func(*http.Request) *fault { return &fault{code: 503, header: http.Header{"Retry-After": {"3600"}}} }
		if _, err := k.place(d.target()).Post(t.Context(), sample()); err == nil || !strings.Contains(err.Error(), "it requests a pause of 1h0m0s") || len(d.requests) != 1 {
			t.Errorf("%v after %d requests", err, len(d.requests))
		}
	})
}

func TestServerThatNeverAnswersEndsThePost(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		began := time.Now()
		d.fault = func(r *http.Request) *fault {
			<-r.Context().Done()
			return &fault{err: r.Context().Err()}
		}
		_, err := k.place(d.target()).Post(t.Context(), sample())
		if err == nil || !strings.Contains(err.Error(), "no answer within 30s") || time.Since(began) > postTimeout || len(d.requests) != tries {
			t.Errorf("%v after %s and %d requests", err, time.Since(began), len(d.requests))
		}
	})
}

func TestAnswersAreLimited(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		for body, want := range map[string]string{strings.Repeat("x", answerLimit+1): "more than 32.0 MiB", "<html>": "not the expected JSON"} {
			d.fault = func(*http.Request) *fault { return &fault{code: 200, body: body} }
			if _, err := k.place(d.target()).Post(t.Context(), sample()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%.300v", err)
			}
		}
	})
}

func TestMissingPartsOfATarget(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		for want, change := range map[string]func(*Target){
			"address of the server": func(t *Target) { t.URL = "" },
			"not a web address":     func(t *Target) { t.URL = "ftp://x" },
			"not be encrypted":      func(t *Target) { t.URL = "http://forge.example.org" },
			"project is not known":  func(t *Target) { t.Project = "" },
			"commit of the change":  func(t *Target) { t.Commit = "HEAD" },
			"token is not known":    func(t *Target) { t.Token = "" },
			"number of the change":  func(t *Target) { t.Change = 0 },
		} {
			if k.name == "github check" && strings.HasPrefix(want, "number") {
				continue
			}
			target := d.target()
			change(&target)
			_, err := k.place(target).Post(t.Context(), sample())
			if hint, ok := hints.Of(err); err == nil || !strings.Contains(err.Error(), want) || !ok || hint == "" {
				t.Errorf("%v, hint %q, want %s", err, hint, want)
			}
		}
		if len(d.requests) != 0 {
			t.Errorf("requests %v", d.requests)
		}
	})
}

func TestFailedPostHasItsText(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		text, err := k.place(d.target()).Message(failing(sample()))
		testutil.Must(t, err)
		if !strings.Contains(text, "no pool offers it") {
			t.Errorf("text\n%s", text)
		}
	})
}

func TestUserOfAToken(t *testing.T) {
	d := newDouble(t)
	target := d.target()
	d.login = ""
	_, err := GitHub{Target: target}.Post(t.Context(), sample())
	if hint, _ := hints.Of(err); err == nil || !strings.HasPrefix(hint, "set -user") {
		t.Errorf("%v, hint %q", err, hint)
	}
	target.Robot = "github-actions[bot]"
	d.comments = []*comment{{ID: 1, Body: marker{"", oldCommit, "x"}.String(), User: account{Login: "github-actions[bot]"}}}
	outcome, err := GitHub{Target: target}.Post(t.Context(), sample())
	if err != nil || outcome.Result != Updated {
		t.Errorf("%v, %v", outcome, err)
	}
}

func TestFleetsOfOneChangeHaveTheirOwnPosts(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		for _, name := range []string{"", "one", "two"} {
			target := d.target()
			target.Name = name
			outcome, err := k.place(target).Post(t.Context(), sample())
			if err != nil || outcome.Result != Posted && k.name != "github check" { // the double has only one name
				t.Errorf("%s: %v, %v", name, outcome, err)
			}
		}
	})
}

func TestPullRequestOfAForkIsFoundByItsBranch(t *testing.T) {
	d := newDouble(t)
	target := d.target()
	target.Change = 0
	outcome, err := GitHub{Target: target, Head: "mallory:main"}.Post(t.Context(), sample())
	if err != nil || outcome.Result != Posted || d.requests[0].query.Get("head") != "mallory:main" {
		t.Errorf("%v, %v: %v", outcome, err, d.requests)
	}
	for _, change := range []func(){func() { d.head = oldCommit }, func() { d.head, d.state = headCommit, "closed" }} {
		change()
		outcome, err = GitHub{Target: target, Head: "mallory:main"}.Post(t.Context(), sample())
		if err != nil || outcome.Result != Outdated {
			t.Errorf("%v, %v", outcome, err)
		}
	}
}

func TestCommentIsFoundAmongHundreds(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		if k.posts(d); k.name == "gerrit" || k.name == "github check" {
			return
		}
		k.post(t, d, sample(), Posted)
		for range 230 {
			d.comments = append(d.comments, &comment{ID: int64(len(d.comments) + 1), Body: "LGTM", User: account{Login: d.login}})
		}
		k.post(t, d, sample(), Unchanged)
		d.comments = append(d.comments[1:], d.comments[0]) // on another page
		k.post(t, d, sample(), Unchanged)
	})
}

func TestVotes(t *testing.T) {
	gerrit, _ := kinds[0].place(Target{}).(Gerrit)
	post := func(d *double, g Gerrit, r Report) error {
		g.Target = d.target()
		_, err := g.Post(t.Context(), r)
		return err
	}
	for _, c := range []struct {
		report Report
		want   string
	}{{sample(), "+1"}, {failing(sample()), "-1"}, {incomplete(sample()), "0"}} {
		d := newDouble(t)
		testutil.Must(t, post(d, gerrit, c.report))
		if got := d.reviews[0].Labels["Verified"]; got != c.want {
			t.Errorf("vote %q, want %q", got, c.want)
		}
	}
	for _, c := range []struct{ label, want string }{{"Verify", "has no label"}, {"Locked", "may not vote Locked+1"}} {
		d, g := newDouble(t), gerrit
		g.Label = c.label
		if err := post(d, g, sample()); err == nil || !strings.Contains(err.Error(), c.want) || len(d.reviews) != 0 {
			t.Errorf("%v", err)
		}
	}
	d := newDouble(t)
	d.deaf = true
	if err := post(d, gerrit, sample()); err == nil || !strings.Contains(err.Error(), "did not count the vote Verified+1") {
		t.Errorf("%v", err)
	}
}

func incomplete(r Report) Report {
	r.Effect.Deferred = []string{"ovh"}
	return r
}

// One comment on a file that the patch set does not have would make Gerrit refuse the whole review.
func TestGerritCommentsOnlyOnFilesOfThePatchSet(t *testing.T) {
	r := sample()
	for name, path := range map[string]string{"gone.hcl": "ci/gone.hcl", "binary.hcl": "ci/binary.hcl", "magic.hcl": "/COMMIT_MSG", "up.hcl": "../ci/main.hcl", "zero.hcl": "ci/main.hcl", "end.hcl": "ci/main.hcl"} {
		d := r.Effect.Differences[0]
		switch d.Source.File = name; name {
		case "zero.hcl":
			d.Source.Line = 0
		case "end.hcl":
			d.Source.Line = 2_000_000
		}
		r.Effect.Differences = append(r.Effect.Differences, d)
		file := r.Files["main.hcl"]
		file.Path = path
		r.Files[name] = file
	}
	d := newDouble(t)
	kinds[0].post(t, d, r, Posted)
	comments := d.reviews[0].Comments
	if len(comments) != 1 || len(comments["ci/main.hcl"]) != 2 || comments["ci/main.hcl"][0].Line != 9 {
		t.Errorf("comments %+v", comments)
	}
	if !strings.Contains(d.reviews[0].Message, "7 lines with an effect have no comment") {
		t.Errorf("message\n%s", d.reviews[0].Message)
	}
	if got := comments["ci/main.hcl"][0].Message; got != "Effect of this line:\n\n    ~ label.small min_ready: 1 -> 2, at once" {
		t.Errorf("comment %q", got)
	}
	if r := d.reviews[0]; !r.SkipDuplicates || !r.IgnoreAttention || r.Notify != "NONE" || r.Tag != "autogenerated:npctl" {
		t.Errorf("review %+v", r)
	}
}

func TestRedirectDoesNotReceiveTheToken(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		d.fault = func(r *http.Request) *fault {
			if r.URL.Host != "forge.example.org" {
				t.Errorf("a request to %s", r.URL.Host)
			}
			return &fault{code: 302, header: http.Header{"Location": {"https://mallory.example.org/"}}}
		}
		_, err := k.place(d.target()).Post(t.Context(), sample())
		if hint, _ := hints.Of(err); err == nil || !strings.Contains(hint, "follows no redirects") {
			t.Errorf("%v, hint %q", err, hint)
		}
	})
}

func TestInterruptEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDouble(t)
		d.fault = func(*http.Request) *fault { return &fault{code: 429} }
		stopped := errors.New("stopped")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, stopped)
		defer cancel()
		if _, err := (GitHub{Target: d.target()}).Post(ctx, sample()); !errors.Is(err, stopped) {
			t.Errorf("%v", err)
		}
	})
}

func TestCheckRunHasAtMostFiftyAnnotations(t *testing.T) {
	d := newDouble(t)
	k := kinds[1]
	k.post(t, d, failing(many()), Posted)
	all := d.checks[0].Output.Annotations
	if len(all) != 50 || all[0].Level != "failure" || d.checks[0].Conclusion != "failure" {
		t.Errorf("%d annotations, the first is %+v", len(all), all[0])
	}
	if !strings.Contains(k.text(d), "(33 lines with an effect have no comment: ") {
		t.Errorf("summary\n%s", k.text(d))
	}
}

// The comment says which commit it is about, also if the effect is that of an earlier commit.
func TestCommentOfANewCommitIsUpdated(t *testing.T) {
	eachKind(t, func(t *testing.T, k kind, d *double) {
		if k.name == "gerrit" || k.name == "github check" {
			return
		}
		d.head = oldCommit
		target := d.target()
		target.Commit = oldCommit
		_, err := k.place(target).Post(t.Context(), sample())
		testutil.Must(t, err)
		d.comments = append(d.comments, &comment{ID: 2, Body: lastComment(d), User: d.comments[0].User}) // of a run at the same time
		d.head = headCommit
		k.post(t, d, sample(), Updated)
		if strings.Contains(d.comments[0].Body, headCommit) || !strings.Contains(lastComment(d), headCommit) {
			t.Error("the newest comment is not the updated one")
		}
	})
}

func TestAnotherStateOfTheStatusIsReplaced(t *testing.T) {
	d := newDouble(t)
	d.statuses = []giteaStatus{{"npctl", "pending", sample().Effect.String()}, {"other", "success", sample().Effect.String()}}
	_, err := Gitea{d.target()}.Post(t.Context(), sample())
	testutil.Must(t, err)
	if last := d.statuses[len(d.statuses)-1]; len(d.statuses) != 3 || last.State != "success" {
		t.Errorf("statuses %+v", d.statuses)
	}
}
