package zuul_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/buildertest"
	"github.com/npctl/npctl/builders/zuul"
	"github.com/npctl/npctl/internal/fetch"
)

// double responds like zuul-web: routes, parameters, JSON and errors are those of its code.
type double struct {
	*httptest.Server
	prefix     string // path of its root, such as "/sub"
	tenant     string
	whiteLabel bool // the proxy in front of it forwards only to the tenant
	old        bool // before Zuul 10
	deaf       bool // ignores filters and the order
	noInfo     bool

	mu     sync.Mutex
	rows   []row                              // guarded by mu
	token  string                             // guarded by mu; required from clients
	faults []func(w http.ResponseWriter) bool // guarded by mu; faults of the next calls
	asked  []string                           // guarded by mu: path and query
	tokens []string                           // guarded by mu: Authorization
}

// row is a build as the API returns it since Zuul 10.
type row map[string]any

func newDouble(t *testing.T, rows ...row) *double {
	t.Helper()
	d := &double{tenant: "T", rows: rows}
	d.Server = httptest.NewServer(d)
	t.Cleanup(d.Close)
	return d
}

func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, r.URL.RequestURI())
	d.tokens = append(d.tokens, r.Header.Get("Authorization"))
	if len(d.faults) > 0 {
		fault := d.faults[0]
		d.faults = d.faults[1:]
		if fault(w) {
			return
		}
	}
	path, ok := strings.CutPrefix(r.URL.Path, d.prefix+"/api/")
	if !ok {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><html><title>Zuul</title></html>") // the web interface, whatever the path
		return
	}
	if d.whiteLabel {
		path = "tenant/" + d.tenant + "/" + path
	}
	d.route(w, r, path)
}

func (d *double) route(w http.ResponseWriter, r *http.Request, path string) {
	tenant, rest := "", path
	if after, ok := strings.CutPrefix(path, "tenant/"); ok {
		tenant, rest, _ = strings.Cut(after, "/")
	}
	name, id, _ := strings.Cut(rest, "/")
	switch {
	case rest == "info" && !d.noInfo:
		d.info(w, tenant)
	case tenant == "" || name != "builds" && name != "build":
		notFound(w, "The path was not found.")
	case d.token != "" && r.Header.Get("Authorization") != "Bearer "+d.token:
		w.Header().Set("WWW-Authenticate", `Bearer realm="zuul.example.com"`)
		answer(w, 401, map[string]any{"description": "token expired " + r.Header.Get("Authorization"), "error": "invalid_token", "realm": "zuul.example.com"})
	case tenant != d.tenant:
		notFound(w, "Tenant does not exist.")
	case name == "builds":
		d.builds(w, r.URL.Query())
	default:
		d.build(w, id)
	}
}

func (d *double) info(w http.ResponseWriter, tenant string) {
	info := map[string]any{"capabilities": map[string]any{"auth": map[string]any{"read_protected": d.token != ""}}}
	if tenant != "" {
		info["tenant"] = tenant
	}
	answer(w, 200, map[string]any{"info": info})
}

var parameters = strings.Fields(`project pipeline change branch patchset ref newrev uuid job_name voting nodeset result
	exclude_result final held complete limit skip idx_min idx_max`)

func (d *double) builds(w http.ResponseWriter, query url.Values) {
	for name := range query {
		if !slices.Contains(parameters, name) {
			notFound(w, "Unexpected query string parameters: "+name)
			return
		}
	}
	limit := 50
	if text := query.Get("limit"); text != "" {
		limit, _ = strconv.Atoi(text)
	}
	found := []row{}
	for _, r := range d.rows {
		if d.deaf || r.fits(query) {
			found = append(found, d.shape(r, false))
		}
	}
	if !d.deaf {
		slices.SortStableFunc(found, func(a, b row) int { return b["_id"].(int) - a["_id"].(int) })
	}
	answer(w, 200, found[:min(limit, len(found))])
}

func (r row) fits(query url.Values) bool {
	ref := r["ref"].(row)
	for name, value := range map[string]any{"project": ref["project"], "branch": ref["branch"], "pipeline": r["pipeline"], "job_name": r["job_name"], "result": r["result"]} {
		if wanted, ok := query[name]; ok && !slices.ContainsFunc(wanted, func(w string) bool {
			like, _ := filepath.Match(strings.ReplaceAll(w, "/", "\x00"), strings.ReplaceAll(fmt.Sprint(value), "/", "\x00"))
			return like
		}) {
			return false
		}
	}
	final := query.Get("final")
	return (final == "" || r["final"] == (final == "true")) && (query.Get("complete") != "true" || r["result"] != nil)
}

func (d *double) build(w http.ResponseWriter, id string) {
	for _, r := range d.rows {
		if r["uuid"] == id {
			answer(w, 200, d.shape(r, true))
			return
		}
	}
	notFound(w, "Build not found")
}

// shape converts a build to the form of a Zuul version.
func (d *double) shape(r row, alone bool) row {
	shown := maps.Clone(r)
	if refs, ok := shown["refs"]; ok {
		delete(shown, "refs")
		if alone && !d.old {
			shown["buildset"] = row{"uuid": "c2b1a0f9e8d7c6b5a4938271605f4e3d", "refs": refs}
		}
	}
	if d.old {
		ref := shown["ref"].(row)
		maps.Copy(shown, ref)
		shown["ref"] = ref["ref"]
	}
	return shown
}

func notFound(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/html;charset=utf-8")
	w.WriteHeader(http.StatusNotFound)
	fmt.Fprintf(w, "<!DOCTYPE html PUBLIC><html><title>404 Not Found</title><p>%s</p></html>", text)
}

func answer(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value)
}

func fails(code int) func(http.ResponseWriter) bool {
	return func(w http.ResponseWriter) bool { w.WriteHeader(code); return true }
}

func (d *double) calls() (paths, tokens []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.asked), slices.Clone(d.tokens)
}

// number returns an ID for a number.
func number(n int) string { return fmt.Sprintf("%032x", n) }

// periodic returns a successful build that ended minute minutes after two o'clock.
func periodic(id, minute int, artifacts ...row) row {
	ended := time.Date(2025, 3, 11, 2, minute, 7, 0, time.UTC)
	return row{
		"_id": id, "uuid": number(id), "job_name": "build-image", "result": "SUCCESS", "held": false, "final": true, "voting": true,
		"start_time": "2025-03-11T02:00:41", "end_time": ended.Format("2006-01-02T15:04:05"), "duration": 1826.0,
		"log_url": "https://logs.example.org/5f3/", "nodeset": "image-builder", "error_detail": nil,
		"artifacts": artifacts, "provides": []row{{"name": "image"}}, "pipeline": "periodic",
		"ref": row{"project": "org/images", "branch": "main", "change": nil, "patchset": nil, "ref": "refs/heads/main",
			"oldrev": nil, "newrev": nil, "ref_url": "https://git.example.org/org/images"},
		"event_id": "0a9f7f3f6c2d4f0cb0f4a8b7c9d1e2f3", "event_timestamp": "2025-03-11T02:00:00", "buildset": row{"uuid": number(id + 1000)},
	}
}

// with sets attributes of a build, or of its ref.
func (r row) with(pairs ...any) row {
	changed := maps.Clone(r)
	changed["ref"] = maps.Clone(r["ref"].(row))
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		if _, ok := changed["ref"].(row)[name]; ok && name != "ref" {
			changed["ref"].(row)[name] = pairs[i+1]
		} else {
			changed[name] = pairs[i+1]
		}
	}
	return changed
}

func artifact(address string, pairs ...any) row {
	metadata := row{"type": "zuul_image"}
	for i := 0; i < len(pairs); i += 2 {
		metadata[pairs[i].(string)] = pairs[i+1]
	}
	return row{"name": "image of the night", "url": address, "metadata": metadata}
}

// files is a server of artifacts: path to content. Each fault applies once, to a path that starts with its name.
type files struct {
	*httptest.Server
	mu      sync.Mutex
	content map[string][]byte
	faults  map[string][]func(w http.ResponseWriter, r *http.Request) bool
	asked   []string // guarded by mu
	secrets []string // guarded by mu: received credentials
}

func newFiles(t *testing.T, content map[string][]byte) *files {
	t.Helper()
	f := &files{content: content, faults: map[string][]func(http.ResponseWriter, *http.Request) bool{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *files) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, strings.TrimSpace(r.URL.Path+" "+r.Header.Get("Range")))
	if r.Header.Get("Authorization")+r.Header.Get("Cookie") != "" {
		f.secrets = append(f.secrets, r.Header.Get("Authorization"))
	}
	content, ok := f.content[r.URL.Path]
	var fault func(http.ResponseWriter, *http.Request) bool
	if list := f.faults[r.URL.Path]; len(list) > 0 {
		fault, f.faults[r.URL.Path] = list[0], list[1:]
	}
	f.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	if !ok {
		http.Error(w, "not there", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, len(content)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func (f *files) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.asked))
}

// half sends the first half and closes the connection.
func (f *files) half(path string) {
	f.faults[path] = append(f.faults[path], func(w http.ResponseWriter, _ *http.Request) bool {
		content := f.content[path]
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, len(content)))
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content[:len(content)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
}

// block returns a zuul_image block from pairs, with the values that most tests need and the defaults.
func (d *double) block(pairs ...any) cty.Value {
	values := new(zuul.Builder).Schema().Null().AsValueMap()
	written := map[string]any{
		"api_url": d.URL + d.prefix, "tenant": "T", "project": "org/images", "pipelines": buildertest.Words("periodic"), "job": "build-image",
		"artifact": wants("raw", "qcow2"), "local_artifacts": cty.True,
	}
	for i := 0; i < len(pairs); i += 2 {
		written[pairs[i].(string)] = pairs[i+1]
	}
	for name, value := range written {
		switch value := value.(type) {
		case string:
			values[name] = cty.StringVal(value)
		case int:
			values[name] = cty.NumberIntVal(int64(value))
		case cty.Value:
			values[name] = value
		case nil:
			values[name] = cty.NullVal(values[name].Type())
		}
	}
	return cty.ObjectVal(values)
}

// wants returns artifact blocks for formats, written as format, format:type or format:type:name.
func wants(list ...string) cty.Value {
	blocks := map[string]cty.Value{}
	for _, text := range list {
		format, rest, _ := strings.Cut(text, ":")
		kind, name, _ := strings.Cut(rest, ":")
		if kind == "" {
			kind = "zuul_image"
		}
		values := map[string]cty.Value{"type": cty.StringVal(kind), "name": cty.NullVal(cty.String)}
		if name != "" {
			values["name"] = cty.StringVal(name)
		}
		blocks[format] = cty.ObjectVal(values)
	}
	return cty.MapVal(blocks)
}

// quick returns a builder with timeouts that suit a test.
func quick() *zuul.Builder {
	return &zuul.Builder{Wait: time.Millisecond, Fetch: fetch.Client{
		Stall: 5 * time.Second, Floor: 1 << 10, Tries: 3, FirstWait: time.Millisecond, LongestWait: time.Millisecond,
	}}
}

func job(t *testing.T, config cty.Value, formats ...string) builders.Job {
	t.Helper()
	return builders.Job{
		Image: "debian", BuildID: "b1", Name: "debian-b1", Dir: t.TempDir(), BaseDir: t.TempDir(), Config: config, Formats: formats,
	}
}

// versions lists the numbers of the offered builds, newest first.
func versions(t *testing.T, b builders.Versioned, config cty.Value) []int {
	t.Helper()
	list, err := b.Versions(t.Context(), "", config, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	numbers := []int{}
	for _, v := range list {
		n, err := strconv.ParseInt(v.ID, 16, 32)
		if err != nil || v.Time.IsZero() {
			t.Errorf("version %+v: %v", v, err)
		}
		numbers = append(numbers, int(n))
	}
	return numbers
}
