//go:build zuul

package zuul_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/buildertest"
	"github.com/npctl/npctl/internal/testutil"
)

// These tests use a real zuul-web, started by test/zuul/lab.sh, and fail if there is none.

// environment returns a variable that lab.sh has set.
func environment(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	if value == "" {
		t.Fatalf("%s is not set: run test/zuul/run.sh, or start a Zuul with test/zuul/lab.sh", name)
	}
	return value
}

// isOld reports whether the Zuul is older than version 10.
func isOld(t *testing.T) bool {
	t.Helper()
	major, _, _ := strings.Cut(environment(t, "NPCTL_TEST_ZUUL_VERSION"), ".")
	return len(major) == 1
}

// built is a build for test/zuul/put_builds.py.
type built struct {
	Tenant   string         `json:"tenant"`
	Pipeline string         `json:"pipeline"`
	Job      string         `json:"job"`
	UUID     string         `json:"uuid"`
	Result   string         `json:"result"`
	End      string         `json:"end"`
	Final    bool           `json:"final"`
	Refs     []row          `json:"refs,omitempty"`
	Data     map[string]any `json:"data,omitempty"`
}

// put stores builds as Zuul's scheduler does.
func put(t *testing.T, builds ...built) {
	t.Helper()
	text, err := json.Marshal(builds)
	testutil.Must(t, err)
	cmd := exec.CommandContext(t.Context(), environment(t, "NPCTL_TEST_ZUUL_PUT"))
	cmd.Stdin = bytes.NewReader(text)
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("put builds: %v\n%s", err, said)
	}
}

// one returns a good build of a job that ended minute minutes after two o'clock.
func one(job string, minute int, artifacts ...row) built {
	return built{
		Tenant: "open", Pipeline: "periodic", Job: job, UUID: strings.ReplaceAll(uuid.NewString(), "-", ""), Result: "SUCCESS", Final: true,
		End:  time.Date(2025, 3, 11, 2, minute, 7, 0, time.UTC).Format("2006-01-02T15:04:05"),
		Data: map[string]any{"zuul": map[string]any{"artifacts": artifacts}},
	}
}

// loggedAt sets the log address of a build.
func (b built) loggedAt(address string) built {
	b.Data["zuul"].(map[string]any)["log_url"] = address
	return b
}

func newJob() string { return "build-" + uuid.NewString() }

// block returns a zuul_image block for a job of the real Zuul.
func block(t *testing.T, job string, pairs ...any) cty.Value {
	t.Helper()
	d := &double{Server: &httptest.Server{URL: environment(t, "NPCTL_TEST_ZUUL")}}
	return d.block(append([]any{"job", job, "tenant", "open"}, pairs...)...)
}

// offered lists the IDs of the versions, newest first.
func offered(t *testing.T, config cty.Value) []string {
	t.Helper()
	list, err := quick().Versions(t.Context(), "", config, t.TempDir())
	testutil.Must(t, err)
	var ids []string
	for _, v := range list {
		ids = append(ids, v.ID)
	}
	return ids
}

func TestRealBuildsAreListed(t *testing.T) {
	job := newJob()
	older, newest := one(job, 10, raw), one(job, 30, raw)
	failed := one(job, 40, raw)
	failed.Result = "FAILURE"
	retried := one(job, 41, raw)
	retried.Result, retried.Final = "RETRY", false
	check := one(job, 42, raw)
	check.Pipeline, check.Refs = "check", []row{{"change": 4711, "patchset": "2", "ref": "refs/changes/11/4711/2"}}
	unmerged := one(job, 43, raw)
	unmerged.Refs = []row{{"change": 4712, "patchset": "1", "ref": "refs/changes/12/4712/1"}}
	project := one(job, 44, raw)
	project.Refs = []row{{"project": "org/other"}}
	branch := one(job, 45, raw)
	branch.Refs = []row{{"branch": "stable/1", "ref": "refs/heads/stable/1"}}
	bare, manifest := one(job, 46), one(job, 47, artifact("https://x/m", "type", "zuul_manifest"))
	elsewhere := one(job, 48, raw)
	elsewhere.Tenant = "closed"
	// The IDs are assigned in this order: the build with the lowest ID ended last.
	put(t, newest, older, failed, retried, check, unmerged, project, branch, bare, manifest, elsewhere)

	withStars := func(ids ...string) []string {
		if isOld(t) {
			return nil // that version of Zuul did not support patterns
		}
		return ids
	}
	for _, test := range []struct {
		name   string
		config cty.Value
		want   []string
	}{
		{"usual", block(t, job), []string{branch.UUID, newest.UUID, older.UUID}},
		{"branch", block(t, job, "branch", "main"), []string{newest.UUID, older.UUID}},
		{"branch with a star", block(t, job, "branch", "stable/*"), withStars(branch.UUID)},
		{"project with a star", block(t, job, "project", "org/o*"), withStars(project.UUID)},
		{"two pipelines", block(t, job, "pipelines", buildertest.Words("post", "check"), "trusted_pipelines", buildertest.Words("check")), []string{check.UUID}},
		{"pipeline that is not trusted", block(t, job, "pipelines", buildertest.Words("check")), nil},
		{"changes of a trusted pipeline", block(t, job, "trusted_pipelines", buildertest.Words("periodic"), "branch", "main"), []string{unmerged.UUID, newest.UUID, older.UUID}},
		{"no such job", block(t, "no-"+job), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := offered(t, test.config); !slices.Equal(got, test.want) {
				t.Errorf("builds are %v, want %v", got, test.want)
			}
		})
	}
	list, err := quick().Versions(t.Context(), "", block(t, job, "branch", "main"), "")
	if want := time.Date(2025, 3, 11, 2, 30, 7, 0, time.UTC); err != nil || !list[0].Time.Equal(want) || list[0].Time.Location() != time.UTC {
		t.Errorf("versions are %v, %v, want the first at %v", list, err, want)
	}
	newer := one(job, 59, raw)
	put(t, newer)
	if got := offered(t, block(t, job)); len(got) == 0 || got[0] != newer.UUID {
		t.Errorf("after a new build the list is %v, want %s first", got, newer.UUID)
	}
}

func TestRealBuildIsFetched(t *testing.T) {
	f := newFiles(t, map[string][]byte{"/5f3/debian.raw.zst": zstded(t, rawImage), "/5f3/debian.qcow2": qcow2Image})
	f.half("/5f3/debian.raw.zst")
	name := newJob()
	// The address of the first artifact is relative: Zuul resolves it against log_url.
	first := one(name, 20,
		artifact("debian.raw.zst", "format", "raw", "image_name", "debian", "sha256", sha(rawImage), "md5sum", md(rawImage)),
		artifact(f.URL+"/5f3/debian.qcow2", "format", "qcow2", "image_name", "debian", "sha256", sha(qcow2Image)),
		artifact("ubuntu.qcow2", "format", "qcow2", "image_name", "ubuntu")).loggedAt(f.URL + "/5f3")
	wrong := one(name, 30, artifact(f.URL+"/5f3/debian.qcow2", "image_name", "debian", "sha256", sha(rawImage)))
	gone := one(name, 40, artifact(f.URL+"/gone.qcow2", "image_name", "debian"))
	check := one(name, 50, artifact(f.URL+"/5f3/debian.qcow2", "image_name", "debian"))
	check.Refs = []row{{"change": 17, "patchset": "1", "ref": "refs/changes/17/17/1"}}
	put(t, first, wrong, gone, check)

	build := func(version string, formats ...string) (builders.Job, builders.Artifact, error) {
		j := job(t, block(t, name, "image_name", "debian"), formats...)
		j.Version = version
		made, err := quick().Build(t.Context(), j, &bytes.Buffer{})
		return j, made, err
	}
	j, made, err := build(first.UUID, "raw", "qcow2")
	testutil.Must(t, err)
	checkContent(t, j, map[string][]byte{"debian-b1.raw": rawImage, "debian-b1.qcow2": qcow2Image})
	want := map[string]string{
		"zuul_build": first.UUID, "zuul_job": name, "zuul_project": "org/images", "zuul_branch": "main", "zuul_pipeline": "periodic",
		"zuul_end_time": "2025-03-11T02:20:07Z", "zuul_log_url": f.URL + "/5f3", "url_raw": f.URL + "/5f3/debian.raw.zst", "sha256_raw": sha(rawImage),
	}
	for key, value := range want {
		if made.Extra[key] != value {
			t.Errorf("remembered is %s = %q, want %q", key, made.Extra[key], value)
		}
	}
	if got := f.requests(); len(got) != 3 {
		t.Errorf("requests were %q, want one of them for a rest", got)
	}
	if _, _, err := build(wrong.UUID, "qcow2"); err == nil || !strings.Contains(err.Error(), "wrong checksum: the file has sha256 "+sha(qcow2Image)+", expected "+sha(rawImage)) {
		t.Errorf("error is %v", err)
	}
	if _, _, err := build(gone.UUID, "qcow2"); !errors.Is(err, builders.ErrVersionGone) {
		t.Errorf("error is %v, want %v", err, builders.ErrVersionGone)
	}
	if _, _, err := build("0123456789abcdef0123456789abcdef", "qcow2"); !errors.Is(err, builders.ErrVersionGone) {
		t.Errorf("error is %v, want %v", err, builders.ErrVersionGone)
	}
	if _, _, err := build(check.UUID, "qcow2"); err == nil || !strings.Contains(err.Error(), "it built a change that is not merged") {
		t.Errorf("error is %v", err)
	}
}

func TestRealAddresses(t *testing.T) {
	name := newJob()
	build := one(name, 10, raw)
	put(t, build)
	base := environment(t, "NPCTL_TEST_ZUUL")
	target, err := url.Parse(base)
	testutil.Must(t, err)
	// Proxy rules of Zuul's documentation, for a white label and for a Zuul in a directory.
	proxy := func(rewrite func(path string) string) string {
		server := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.URL.Path = rewrite(r.In.URL.Path)
		}})
		t.Cleanup(server.Close)
		return server.URL
	}
	white := proxy(func(path string) string {
		if rest, ok := strings.CutPrefix(path, "/api/"); ok {
			return "/api/tenant/open/" + rest
		}
		return path
	})
	inside := proxy(func(path string) string { return strings.TrimPrefix(path, "/ci/zuul") })
	for _, test := range []struct{ address, tenant, want string }{
		{base, "open", ""}, {base + "/", "open", ""}, {base + "/t/open/builds", "", ""}, {base + "/api/tenant/open/", "", ""},
		{white, "", ""}, {white + "/builds", "", ""}, {white, "open", ""}, {inside + "/ci/zuul", "open", ""}, {inside + "/ci/zuul/t/open/status", "", ""},
		{base, "", "has several tenants: write tenant"}, {base, "other", `is there a tenant "other"?`},
		{white, "other", `is the address of tenant "open" only`}, {base + "/nowhere", "open", "web page"},
	} {
		tenant := any(test.tenant)
		if test.tenant == "" {
			tenant = nil
		}
		got, err := quick().Versions(t.Context(), "", block(t, name, "api_url", test.address, "tenant", tenant), "")
		if test.want == "" && (err != nil || len(got) != 1 || got[0].ID != build.UUID) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s, tenant %q: %v, %v, want %q", test.address, test.tenant, got, err, test.want)
		}
	}
}

func TestRealTenantThatWantsAToken(t *testing.T) {
	name := newJob()
	build := one(name, 10, raw)
	build.Tenant = "closed"
	put(t, build)
	token := environment(t, "NPCTL_TEST_ZUUL_TOKEN")
	for _, test := range []struct {
		name string
		with []any
		want string
	}{
		{"none", nil, "it requires a token: set token, token_file or token_command"},
		{"made at each use", []any{"token_command", buildertest.Words(token, "npctl", "60")}, ""},
		{"of somebody else", []any{"token_command", buildertest.Words(token, "other", "60")}, "no permission"},
		{"of the operators", []any{"token_command", buildertest.Words(environment(t, "NPCTL_TEST_ZUUL_ADMIN_TOKEN"))}, ""},
		{"that has expired", []any{"token_command", buildertest.Words(token, "npctl", "-60")}, "does not accept the token"},
		{"no token at all", []any{"token", "hunter2"}, "does not accept the token"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := quick().Versions(t.Context(), "", block(t, name, append([]any{"tenant", "closed"}, test.with...)...), "")
			if test.want == "" && (err != nil || len(got) != 1) || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, error %v, want %q", got, err, test.want)
			}
			t.Log(err)
		})
	}
	// The client replaces an expired token once.
	stale, err := exec.CommandContext(t.Context(), token, "npctl", "-60").Output()
	testutil.Must(t, err)
	dir := t.TempDir()
	write(t, dir, "old", string(stale))
	write(t, dir, "next", "#!/bin/sh\nif test -e old; then cat old; rm old; else exec "+token+" npctl 60; fi\n")
	got, err := quick().Versions(t.Context(), "", block(t, name, "tenant", "closed", "token_command", buildertest.Words("./next")), dir)
	if err != nil || len(got) != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// The double of the other tests must match the real Zuul.
func TestRealShapeIsThatOfTheDouble(t *testing.T) {
	name := newJob()
	build := one(name, 10, raw).loggedAt("https://logs.example.org/5f3")
	put(t, build)
	d := newDouble(t, periodic(1, 10, raw))
	d.old = isOld(t)
	d.rows[0]["refs"] = []row{d.rows[0]["ref"].(row)}
	base := environment(t, "NPCTL_TEST_ZUUL")
	for _, test := range []struct{ real, double string }{
		{"/api/info", "/api/info"},
		{"/api/tenant/open/info", "/api/tenant/T/info"},
		{"/api/tenant/open/builds?job_name=" + name, "/api/tenant/T/builds"},
		{"/api/tenant/open/build/" + build.UUID, "/api/tenant/T/build/" + d.rows[0]["uuid"].(string)},
		{"/api/tenant/none/builds", "/api/tenant/none/builds"},
		{"/api/tenant/open/builds?provides=x", "/api/tenant/T/builds?provides=x"},
		{"/api/tenant/open/build/0123", "/api/tenant/T/build/0123"},
		{"/nowhere", "/nowhere"},
	} {
		want, got := shapeOf(t, base+test.real), shapeOf(t, d.URL+test.double)
		if !slices.Equal(want, got) {
			t.Errorf("%s: the double's answer is\n%q, the real one's\n%q", test.real, got, want)
		}
	}
}

// shapeOf lists the status, the content type and all names in an answer with the types of their values, except unused
// ones that differ between versions.
func shapeOf(t *testing.T, address string) []string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	testutil.Must(t, err)
	response, err := http.DefaultClient.Do(request)
	testutil.Must(t, err)
	defer response.Body.Close()
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	shape := []string{response.Status, kind}
	if kind != "application/json" {
		return shape
	}
	var value any
	testutil.Must(t, json.NewDecoder(response.Body).Decode(&value))
	names := map[string]bool{}
	collect(names, "", value)
	maps.DeleteFunc(names, func(name string, _ bool) bool {
		for _, other := range []string{".execute_time", ".queue_item_uuid", ".stats", ".websocket_url", ".capabilities.", "provides"} {
			if strings.Contains(name, other) {
				return true
			}
		}
		return false
	})
	return append(shape, slices.Sorted(maps.Keys(names))...)
}

func collect(names map[string]bool, at string, value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			collect(names, at+"."+name, inner)
		}
	case []any:
		for _, inner := range value {
			collect(names, at+"[]", inner)
		}
	case nil:
		names[at+" null"] = true
	case float64:
		names[at+" number"] = true
	case bool:
		names[at+" bool"] = true
	default:
		names[at+" text"] = true
	}
}
