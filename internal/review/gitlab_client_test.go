//go:build integration

package review

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	gitlab "gitlab.com/gitlab-org/api/client-go"

	"github.com/npctl/npctl/internal/testutil"
)

// shape is what a server reads of a request: its body has other texts.
func (r request) shape() string {
	query := slices.Sorted(maps.Keys(r.query))
	body := slices.Sorted(maps.Keys(r.body))
	return r.method + " " + r.path + " ?" + strings.Join(query, "&") + " {" + strings.Join(body, ",") + "}"
}

// GitLab publishes no description with its notes, but a client. The requests of npctl are those of this client.
func TestRequestsAreThoseOfGitLabsClient(t *testing.T) {
	d := newDouble(t)
	base := testutil.RoundTripper(func(r *http.Request) (*http.Response, error) { // npctl gets it with the address
		r.URL.Path, r.URL.RawPath = strings.TrimPrefix(r.URL.Path, "/api/v4"), strings.TrimPrefix(r.URL.EscapedPath(), "/api/v4")
		if token := r.Header.Get("Private-Token"); token != testToken {
			t.Errorf("%s %s has the token %q", r.Method, r.URL, token)
		}
		return d.RoundTrip(r)
	})
	client, err := gitlab.NewClient(testToken, gitlab.WithBaseURL("https://gitlab.example"), gitlab.WithHTTPClient(&http.Client{Transport: base}))
	testutil.Must(t, err)
	body := "text"
	page := gitlab.ListOptions{Page: 1, PerPage: 100}
	_, _, err = client.Users.CurrentUser()
	testutil.Must(t, err)
	_, _, err = client.MergeRequests.GetMergeRequest("ci/fleet", 7, nil)
	testutil.Must(t, err)
	_, _, err = client.Notes.ListMergeRequestNotes("ci/fleet", 7, &gitlab.ListMergeRequestNotesOptions{ListOptions: page})
	testutil.Must(t, err)
	note, _, err := client.Notes.CreateMergeRequestNote("ci/fleet", 7, &gitlab.CreateMergeRequestNoteOptions{Body: &body})
	testutil.Must(t, err)
	_, _, err = client.Notes.UpdateMergeRequestNote("ci/fleet", 7, note.ID, &gitlab.UpdateMergeRequestNoteOptions{Body: &body})
	testutil.Must(t, err)
	shapes := func(requests []request) []string {
		var all []string
		for _, r := range requests {
			all = append(all, r.shape())
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	if diff := cmp.Diff(shapes(d.requests), shapes(requestsOf(t, "gitlab"))); diff != "" {
		t.Errorf("requests (-GitLab's client +npctl):\n%s", diff)
	}
}
