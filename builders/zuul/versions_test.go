package zuul_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders/buildertest"
	"github.com/npctl/npctl/resources"
)

// raw is an artifact that matches every block of these tests.
var raw = artifact("https://images.example.org/debian.raw.zst", "format", "raw", "image_name", "debian")

func TestNewestToEndComesFirst(t *testing.T) {
	for _, old := range []bool{false, true} {
		t.Run(fmt.Sprintf("old %t", old), func(t *testing.T) {
			// IDs are assigned at the start: 3 started before 5 and ended after it
			d := newDouble(t, periodic(3, 50, raw), periodic(5, 40, raw), periodic(4, 30, raw), periodic(6, 30, raw))
			d.old, d.deaf = old, true
			got, err := quick().Versions(t.Context(), "", d.block(), "")
			if err != nil {
				t.Fatal(err)
			}
			at := func(minute int) time.Time { return time.Date(2025, 3, 11, 2, minute, 7, 0, time.UTC) }
			want := []resources.Version{{ID: number(3), Time: at(50)}, {ID: number(5), Time: at(40)}, {ID: number(6), Time: at(30)}, {ID: number(4), Time: at(30)}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("versions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyMergedCodeIsTaken(t *testing.T) {
	rows := []row{
		periodic(1, 1, raw),
		periodic(2, 2, raw).with("pipeline", "check", "change", 4711, "patchset", "2"),
		periodic(3, 3, raw).with("pipeline", "gate", "change", 4712),
		periodic(4, 4, raw).with("pipeline", "gate"),
		periodic(5, 5, raw).with("pipeline", "promote", "change", "4713"),
	}
	for _, test := range []struct {
		trusted []string
		want    []int
	}{
		{nil, []int{4, 1}},
		{[]string{"promote"}, []int{5, 4, 1}},
		{[]string{"gate", "promote"}, []int{5, 4, 3, 1}},
		{[]string{"*"}, []int{5, 4, 3, 2, 1}},
	} {
		for _, old := range []bool{false, true} {
			d := newDouble(t, rows...)
			d.old = old
			trusted := cty.ListValEmpty(cty.String)
			if len(test.trusted) > 0 {
				trusted = buildertest.Words(test.trusted...)
			}
			config := d.block("pipelines", buildertest.Words("periodic", "check", "gate", "promote"), "trusted_pipelines", trusted)
			if got := versions(t, quick(), config); !slices.Equal(got, test.want) {
				t.Errorf("trusting %v, old %t: builds %v, want %v", test.trusted, old, got, test.want)
			}
		}
	}
}

func TestBuildsWithoutTheImageAreSkipped(t *testing.T) {
	plain := func(address string) row { return row{"name": "x", "url": address} }
	named := artifact("https://x/i.raw")
	named["name"] = "the one"
	odd := artifact("https://x/i.raw")
	odd["metadata"] = []string{"no", "object"}
	d := newDouble(t,
		periodic(1, 1, artifact("https://x/i", "format", "raw")),
		periodic(2, 2, artifact("https://x/i", "format", "RAW", "image_name", "debian")),
		periodic(3, 3, artifact("https://x/i.raw.zst?format=.qcow2", "image_name", "ubuntu")),
		periodic(4, 4, artifact("https://x/i.vhd")),
		periodic(5, 5, artifact("https://x/i.img")), // says nothing, so the type decides
		periodic(6, 6, artifact("https://x/i.raw", "type", "zuul_manifest")),
		periodic(7, 7, plain("https://x/i.raw")),
		periodic(8, 8, named),
		periodic(9, 9, odd),
		periodic(10, 10, artifact("https://x/i.qcow2")),
		periodic(11, 11),
		periodic(12, 12, artifact("https://x/i", "format", 17)),
		periodic(13, 13, artifact("https://x/i.raw", "type", "image-raw")),
		periodic(14, 14, artifact("https://x/i.raw", "format", "vpc")),
	)
	for _, test := range []struct {
		name   string
		config cty.Value
		want   []int
	}{
		{"by format", d.block("artifact", wants("raw")), []int{12, 8, 5, 3, 2, 1}},
		{"by another format", d.block("artifact", wants("vhd")), []int{14, 12, 5, 4}},
		{"by one of two formats", d.block("artifact", wants("raw", "qcow2")), []int{12, 10, 8, 5, 3, 2, 1}},
		{"by type", d.block("artifact", wants("raw:image-raw")), []int{13}},
		{"by name", d.block("artifact", wants("raw:zuul_image:the one")), []int{8}},
		{"by image name", d.block("artifact", wants("raw"), "image_name", "debian"), []int{2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := versions(t, quick(), test.config); !slices.Equal(got, test.want) {
				t.Errorf("builds are %v, want %v", got, test.want)
			}
		})
	}
}

func TestQueriesOfTheAPI(t *testing.T) {
	d := newDouble(t)
	config := d.block("pipelines", buildertest.Words("periodic", "post"), "branch", "stable/*", "poll_builds", 7)
	if got := versions(t, quick(), config); len(got) > 0 {
		t.Errorf("builds are %v", got)
	}
	asked, _ := d.calls()
	want := []string{"/api/info", "/api/tenant/T/builds?" + url.Values{
		"project": {"org/images"}, "pipeline": {"periodic", "post"}, "branch": {"stable/*"}, "job_name": {"build-image"},
		"complete": {"true"}, "result": {"SUCCESS"}, "final": {"true"}, "limit": {"7"},
	}.Encode()}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// A proxy or a Zuul version that ignores the query must not cause other builds to be used.
func TestAnswerIsHeldAgainstTheQuestion(t *testing.T) {
	d := newDouble(t,
		periodic(1, 1, raw),
		periodic(2, 2, raw).with("result", "FAILURE"),
		periodic(3, 3, raw).with("result", nil, "end_time", nil),
		periodic(4, 4, raw).with("final", false),
		periodic(5, 5, raw).with("pipeline", "other"),
		periodic(6, 6, raw).with("job_name", "other"),
		periodic(7, 7, raw).with("project", "other/images"),
		periodic(8, 8, raw).with("branch", "other"),
		periodic(9, 9, raw).with("job_name", "build-image-2", "pipeline", "periodic-daily"),
	)
	d.deaf = true
	if got := versions(t, quick(), d.block("branch", "main")); !slices.Equal(got, []int{1}) {
		t.Errorf("builds are %v, want 1", got)
	}
	wild := d.block("job", "build-*", "pipelines", buildertest.Words("per*daily"), "project", "*")
	if got := versions(t, quick(), wild); !slices.Equal(got, []int{9}) {
		t.Errorf("builds are %v, want 9", got)
	}
}

func TestFormsOfAddresses(t *testing.T) {
	for _, test := range []struct {
		prefix, written, tenant string
		whiteLabel, noInfo      bool
		want                    string // path of the builds, or an error
	}{
		{"", "", "T", false, false, "/api/tenant/T/builds"},
		{"", "/", "T", false, false, "/api/tenant/T/builds"},
		{"", "/api", "T", false, false, "/api/tenant/T/builds"},
		{"", "/api/", "T", false, false, "/api/tenant/T/builds"},
		{"", "/t/T/builds", "", false, false, "/api/tenant/T/builds"},
		{"", "/t/T", "T", false, false, "/api/tenant/T/builds"},
		{"", "/api/tenant/T/", "", false, false, "/api/tenant/T/builds"},
		{"", "/api/tenant/T/builds", "", false, false, "/api/tenant/T/builds"},
		{"", "/tenants", "T", false, false, "/api/tenant/T/builds"},
		{"", "", "T", false, true, "/api/tenant/T/builds"},
		{"", "", "", false, false, "has several tenants: write tenant"},
		{"", "", "", false, true, "there is no Zuul at"},
		{"", "/t/T/builds", "U", false, false, `belongs to tenant "T", but tenant is "U"`},
		{"", "", "U", false, false, `is there a tenant "U"?`},
		{"/sub/path", "/", "T", false, false, "/sub/path/api/tenant/T/builds"},
		{"/sub/path", "/t/T/status", "", false, false, "/sub/path/api/tenant/T/builds"},
		{"/sub/path", "/api/tenant/T", "T", false, false, "/sub/path/api/tenant/T/builds"},
		{"", "", "", true, false, "/api/builds"},
		{"", "/builds", "", true, false, "/api/builds"},
		{"/sub", "/", "", true, false, "/sub/api/builds"},
		{"", "/", "T", true, false, "/api/builds"},
		{"", "/", "U", true, false, `is the address of tenant "T" only`},
		{"/elsewhere", "/../no", "T", false, false, "web page"},
	} {
		t.Run(test.prefix+test.written+" "+test.tenant, func(t *testing.T) {
			d := newDouble(t, periodic(1, 1, raw))
			d.prefix, d.whiteLabel, d.noInfo = test.prefix, test.whiteLabel, test.noInfo
			tenant := any(test.tenant)
			if test.tenant == "" {
				tenant = nil
			}
			config := d.block("api_url", d.URL+test.prefix+test.written, "tenant", tenant)
			got, err := quick().Versions(t.Context(), "", config, "")
			if !strings.HasPrefix(test.want, "/") {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("error is %v, want %q", err, test.want)
				}
				return
			}
			asked, _ := d.calls()
			path, _, _ := strings.Cut(asked[len(asked)-1], "?")
			if err != nil || len(got) != 1 || path != test.want {
				t.Errorf("%d builds, %v, asked at %s, want one at %s", len(got), err, path, test.want)
			}
		})
	}
}

func TestZuulInfoIsQueriedOnce(t *testing.T) {
	d, b := newDouble(t, periodic(1, 1, raw)), quick()
	for range 3 {
		if got := versions(t, b, d.block()); len(got) != 1 {
			t.Errorf("builds are %v", got)
		}
	}
	asked, _ := d.calls()
	if n := strings.Count(strings.Join(asked, " "), "/api/info"); n != 1 {
		t.Errorf("%d of %d calls asked for info, want 1", n, len(asked))
	}
}

func TestTroubleOfTheAPIPasses(t *testing.T) {
	d := newDouble(t, periodic(1, 1, raw))
	for _, fault := range []func(http.ResponseWriter) bool{
		fails(500), fails(503),
		func(w http.ResponseWriter) bool { w.Header().Set("Retry-After", "1"); return fails(429)(w) },
		func(w http.ResponseWriter) bool { panic(http.ErrAbortHandler) },
	} {
		d.mu.Lock()
		d.faults = []func(http.ResponseWriter) bool{fault, fault}
		d.mu.Unlock()
		if got := versions(t, quick(), d.block()); len(got) != 1 {
			t.Errorf("builds are %v", got)
		}
	}
}

func TestErrorsOfTheAPIAreDistinct(t *testing.T) {
	text := func(body string) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool { fmt.Fprint(w, body); return true }
	}
	location := func(to string) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
			return true
		}
	}
	pass := func(http.ResponseWriter) bool { return false }
	for _, test := range []struct {
		name  string
		fault func(http.ResponseWriter) bool
		want  string
		calls int // including info
	}{
		{"down", fails(500), "it returns 500 Internal Server Error", 4},
		{"left alone", func(w http.ResponseWriter) bool { w.Header().Set("Retry-After", "3600"); return fails(429)(w) }, "it requests a pause of 1h0m0s", 2},
		{"forbidden", fails(403), "the token has no permission to read the tenant", 2},
		{"bad request", func(w http.ResponseWriter) bool {
			answer(w, 400, row{"error": "bad", "description": "no \x1b[31m"})
			return true
		}, `it returns 400 Bad Request; its message is "bad no \x1b[31m"`, 2},
		{"page", text("<html>"), "it returns a web page; is api_url its base address?", 2},
		{"no JSON", text("OK"), "its response cannot be decoded; is it a Zuul?", 2},
		{"no list", text(`{"a": 1}`), "its response cannot be decoded", 2},
		{"strange id", text(`[{"uuid": "../../../etc"}]`), `a build has the ID "../../../etc", which is not valid`, 2},
		{"strange time", text(`[{"uuid": "0123456789abcdef", "end_time": "yesterday"}]`), `ended at "yesterday", which is not a time`, 2},
		{"strange types", text(`[{"uuid": "0123456789abcdef", "artifacts": "none"}]`), "read a build from the Zuul at", 2},
		{"much too much", func(w http.ResponseWriter) bool {
			fmt.Fprint(w, "[")
			for range 33 << 10 {
				if _, err := fmt.Fprint(w, strings.Repeat(" ", 1<<10)); err != nil {
					break
				}
			}
			return true
		}, "its response has more than 32.0 MiB", 2},
		{"elsewhere", location("http://other.example.org/api?secret"), "redirects to http://other.example.org/api?…: if that is the intended Zuul, write it in api_url", 2},
		{"other port", location("http://127.0.0.1:1/api"), "if that is the intended Zuul", 2},
		{"other scheme", location("ftp://127.0.0.1/"), "which is not a web address", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDouble(t, periodic(1, 1, raw))
			d.faults = []func(http.ResponseWriter) bool{pass, test.fault, test.fault, test.fault}
			_, err := quick().Versions(t.Context(), "", d.block(), "")
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error is %v, want %q", err, test.want)
			}
			if asked, _ := d.calls(); len(asked) != test.calls {
				t.Errorf("calls were %q, want %d", asked, test.calls)
			}
		})
	}
}

func TestSilenceOfTheAPIEnds(t *testing.T) {
	d := newDouble(t)
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	d.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done })
	_, err := quick().Versions(t.Context(), "", d.block("api_timeout", "30ms"), "")
	if err == nil || !strings.Contains(err.Error(), "no answer within api_timeout of 30ms") {
		t.Errorf("error is %v", err)
	}
}

func TestZuulThatIsNotThereIsAnError(t *testing.T) {
	d := newDouble(t)
	config := d.block()
	d.Close()
	_, err := quick().Versions(t.Context(), "", config, "")
	if err == nil || !strings.Contains(err.Error(), "query the Zuul at "+d.URL+"/: ") || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error is %v", err)
	}
}

func TestVersionsAreAHundredAtTheMost(t *testing.T) {
	var rows []row
	for n := range 150 {
		rows = append(rows, periodic(n+1, n, raw))
	}
	d := newDouble(t, rows...)
	got := versions(t, quick(), d.block("poll_builds", 1000))
	if len(got) != 100 || got[0] != 150 || got[99] != 51 {
		t.Errorf("%d builds, %v", len(got), got)
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(`[{"_id": 1, "uuid": "0123456789abcdef", "ref": {"change": null}, "artifacts": [{"name": "x", "url": "x.raw", "metadata": {"type": "zuul_image"}}]}]`)
	f.Add(`[{"_id": "7", "uuid": "0123456789abcdef", "ref": "refs/heads/main", "change": 1, "end_time": "2025-03-11T02:31:07.5", "artifacts": null}]`)
	f.Add(`[null, {}, {"artifacts": [null, {"metadata": 4}], "buildset": {"refs": [null, "x"]}}]`)
	var answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, answer) }))
	f.Cleanup(server.Close)
	d := &double{Server: server}
	config := d.block("api_url", server.URL+"/api/tenant/T")
	b := quick()
	f.Fuzz(func(t *testing.T, text string) {
		answer = `{"info": {}}`
		_, _ = b.Versions(t.Context(), "", config, "")
		answer = text
		_, _ = b.Versions(t.Context(), "", config, "") // must not panic
	})
}
