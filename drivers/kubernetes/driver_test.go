package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func all() []*Driver { return []*Driver{New(), NewOpenShift(), NewOpenShiftPods()} }

func TestSchemas(t *testing.T) {
	for _, d := range all() {
		t.Run(d.Kind(), func(t *testing.T) { drivertest.Schema(t, d.Schema()) })
	}
}

// label returns a label with these attributes.
func label(t *testing.T, d *Driver, attributes map[string]cty.Value) cty.Value {
	t.Helper()
	values := d.Schema().Label.Null().AsValueMap()
	for name, value := range attributes {
		if _, ok := values[name]; !ok {
			t.Fatalf("labels have no attribute %s", name)
		}
		values[name] = value
	}
	return cty.ObjectVal(values)
}

func pod(attributes map[string]cty.Value) map[string]cty.Value {
	result := map[string]cty.Value{"type": cty.StringVal("pod"), "image": cty.StringVal("debian:12")}
	for name, value := range attributes {
		result[name] = value
	}
	return result
}

func TestPodHasTheResourcesOfItsLabel(t *testing.T) {
	config := label(t, New(), pod(map[string]cty.Value{
		"cpu": cty.NumberFloatVal(1.5), "memory": cty.NumberIntVal(512), "storage": cty.NumberIntVal(1000), "memory_limit": cty.NumberIntVal(1024),
		"gpu": cty.NumberIntVal(1), "gpu_resource": cty.StringVal("nvidia.com/gpu"), "env": cty.MapVal(map[string]cty.Value{"B": cty.StringVal("2"), "A": cty.StringVal("1")}),
		"privileged": cty.True, "volumes": cty.StringVal(`[{"name":"cache","emptyDir":{}}]`), "volume_mounts": cty.StringVal(`[{"name":"cache","mountPath":"/cache"}]`),
		"extra_resources": cty.MapVal(map[string]cty.Value{"licenses": cty.NumberIntVal(3)}),
	}))
	s, err := settingsOf(config)
	testutil.Must(t, err)
	if p := s.problems(); len(p) > 0 {
		t.Fatalf("problems: %+v", p)
	}
	want := `{"volumes":[{"name":"cache","emptyDir":{}}],"containers":[{"name":"node","image":"debian:12","command":["/bin/sh","-c"],` +
		`"args":["while true; do sleep 30; done;"],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}],` +
		`"resources":{"limits":{"cpu":"1500m","ephemeral-storage":"1G","memory":"1Gi","nvidia.com/gpu":"1"},` +
		`"requests":{"cpu":"1500m","ephemeral-storage":"1G","memory":"512Mi","nvidia.com/gpu":"1"}},` +
		`"volumeMounts":[{"name":"cache","mountPath":"/cache"}],"imagePullPolicy":"IfNotPresent","securityContext":{"privileged":true}}],` +
		`"restartPolicy":"Never","terminationGracePeriodSeconds":1}`
	var got, expected any
	testutil.Must(t, errors.Join(json.Unmarshal(bodyOf(s.podSpec()), &got), json.Unmarshal([]byte(want), &expected)))
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("specification (-want +got):\n%s", diff)
	}
	amounts := resources.ResourceAmounts{Instances: 1, Cores: 2, RAM: 512, Other: map[string]int64{"ephemeral-storage": 1000, "nvidia.com/gpu": 1, "licenses": 3}}
	if diff := cmp.Diff(amounts, s.amounts()); diff != "" {
		t.Errorf("amounts (-want +got):\n%s", diff)
	}
}

func TestContradictionsAreProblems(t *testing.T) {
	for name, c := range map[string]struct {
		attributes map[string]cty.Value
		attribute  string
		near       string
	}{
		"no image":          {map[string]cty.Value{"type": cty.StringVal("pod")}, "image", ""},
		"image and spec":    {pod(map[string]cty.Value{"spec": cty.StringVal(`{"containers":[{"name":"a","image":"b"}]}`)}), "image", ""},
		"unknown field":     {map[string]cty.Value{"type": cty.StringVal("pod"), "spec": cty.StringVal(`{"container":[]}`)}, "spec", ""},
		"no container":      {map[string]cty.Value{"type": cty.StringVal("pod"), "spec": cty.StringVal(`{}`)}, "spec", ""},
		"limit below cpu":   {pod(map[string]cty.Value{"cpu": cty.NumberIntVal(2), "cpu_limit": cty.NumberIntVal(1)}), "cpu_limit", ""},
		"gpu of no kind":    {pod(map[string]cty.Value{"gpu": cty.NumberIntVal(2)}), "gpu_resource", ""},
		"unknown volume":    {pod(map[string]cty.Value{"volumes": cty.StringVal(`[{"name":"cache"}]`), "volume_mounts": cty.StringVal(`[{"name":"cahce","mountPath":"/c"}]`)}), "volume_mounts", "cache"},
		"mount, no volumes": {pod(map[string]cty.Value{"volume_mounts": cty.StringVal(`[{"name":"cache","mountPath":"/c"}]`)}), "volume_mounts", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, err := (&base{}).ResolveOffer(t.Context(), label(t, New(), c.attributes))
			testutil.Must(t, err)
			if len(problems) != 1 || problems[0].Attribute != c.attribute || c.near != "" && !cmp.Equal(problems[0].Suggestions, []string{c.near}) {
				t.Errorf("problems are %+v, want one of %s", problems, c.attribute)
			}
		})
	}
}

func TestNamesOfNpctlAreReserved(t *testing.T) {
	label := New().Schema().Label
	for name, invalid := range map[string]cty.Value{
		"labels":             cty.MapVal(map[string]cty.Value{"npctl/node-id": cty.StringVal("1")}),
		"node_selector":      cty.MapVal(map[string]cty.Value{"disk": cty.StringVal("no value")}),
		"annotations":        cty.MapVal(map[string]cty.Value{"app.kubernetes.io/managed-by": cty.StringVal("x")}),
		"request_properties": cty.MapVal(map[string]cty.Value{"tenant": cty.StringVal("{tenant}")}),
		"env":                cty.MapVal(map[string]cty.Value{"A=B": cty.StringVal("x")}),
		"volumes":            cty.StringVal(`[{"nam":"x"}]`),
	} {
		if err := label.Find(name).Check(invalid); err == nil {
			t.Errorf("%s accepts %#v", name, invalid)
		}
	}
}

func spec(t *testing.T) drivers.Spec {
	return drivers.Spec{
		Marks:    resources.OwnerTags{Installation: "one", Kind: resources.KindNode, ID: "0000000001", Provider: "main", Pool: strings.Repeat("p", 70), Label: "two words", Hash: "v1:abc"},
		Hostname: "np0000000001", Config: label(t, New(), pod(nil)), Properties: map[string]string{"tenant": "a b/" + strings.Repeat("c", 80)},
	}
}

// Without its pod, or without the permissions of jobs, a node is not ready.
func TestNodeNeedsItsPodAndItsRoleBinding(t *testing.T) {
	var running, failed podObject
	running.Status.Phase, failed.Status.Phase = corev1.PodRunning, corev1.PodFailed
	for name, test := range map[string]struct {
		nodeType string
		inside   contents
		want     resources.Status
	}{
		"pod":                       {"pod", contents{&running, true}, resources.StatusReady},
		"pod deleted":               {"pod", contents{nil, true}, resources.StatusPending},
		"role binding deleted":      {"pod", contents{&running, false}, resources.StatusPending},
		"pod failed":                {"pod", contents{&failed, true}, resources.StatusFailed},
		"namespace":                 {"namespace", contents{nil, true}, resources.StatusReady},
		"namespace without binding": {"namespace", contents{}, resources.StatusPending},
	} {
		spec := spec(t)
		spec.Config = label(t, New(), map[string]cty.Value{"type": cty.StringVal(test.nodeType)})
		s, err := settingsOf(spec.Config)
		testutil.Must(t, err)
		meta := metav1.ObjectMeta{Name: nameOf(spec), Annotations: recordOf(spec, s).annotations(nil)}
		if i := (&Cloud{spaces: namespaces()}).instance(spaceObject{Metadata: meta}, test.inside); i.Status != test.want {
			t.Errorf("%s: %s, want %s", name, i.Status, test.want)
		}
	}
}

func TestObjectsOfOthersAreReadyAndHaveTheirNames(t *testing.T) {
	theirs := metav1.ObjectMeta{Name: "theirs"}
	for what, i := range map[string]resources.Instance{
		"namespace": (&Cloud{spaces: namespaces()}).instance(spaceObject{Metadata: theirs}, contents{}),
		"pod":       (&PodCloud{}).instance(podObject{Metadata: theirs}),
	} {
		if i.ID != "theirs" || i.Name != "theirs" || i.Status != resources.StatusReady || i.Marks != (resources.OwnerTags{}) {
			t.Errorf("the %s of others is %+v", what, i)
		}
	}
}

func TestTagsAreInAnnotationsAndLabelsAreValid(t *testing.T) {
	spec := spec(t)
	s, err := settingsOf(spec.Config)
	testutil.Must(t, err)
	r := recordOf(spec, s)
	meta := metav1.ObjectMeta{Name: nameOf(spec), Labels: r.labels(s, spec.Properties), Annotations: r.annotations(map[string]string{"team": "ci"})}
	if diff := cmp.Diff(spec.Marks, recordIn(meta).marks()); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	want := map[string]string{"app.kubernetes.io/managed-by": "npctl", "npctl/installation": "one", "npctl/node-id": "0000000001", "npctl/provider": "main", "tenant": "a-b-" + strings.Repeat("c", 59)}
	if diff := cmp.Diff(want, meta.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	project := metav1.ObjectMeta{Name: nameOf(spec), Annotations: map[string]string{"openshift.io/description": projects().body("x", r, meta).(spaceBody).Description}}
	if recordIn(project).marks() != spec.Marks {
		t.Error("the description of a project does not have the tags")
	}
	inside := metav1.ObjectMeta{Name: worker, Namespace: meta.Name, Annotations: meta.Annotations}
	if recordIn(inside).marks() != spec.Marks {
		t.Error("an object in the namespace does not have the tags")
	}
	for _, copied := range []metav1.ObjectMeta{meta, project} {
		if copied.Name = "restored"; recordIn(copied).Installation != "" {
			t.Error("a copy with another name has tags")
		}
	}
	for _, description := range []string{"a project", r.text()} {
		if recordIn(metav1.ObjectMeta{Name: meta.Name, Annotations: map[string]string{"openshift.io/description": description}}).Installation != "" {
			t.Errorf("a project of others with the description %s has tags", description)
		}
	}
	for _, text := range []string{`{"id":"1"}`, `{"installation":"one"}`, `{"installation":"one","id":"1","login":"root"}`} {
		if got := recordIn(metav1.ObjectMeta{Annotations: map[string]string{"npctl/node": text}}).marks(); got != (resources.OwnerTags{}) {
			t.Errorf("annotation %s has tags %+v", text, got)
		}
	}
	r.Project = "ci"
	for project, want := range map[string]string{"ci": "one", "restored": ""} {
		pod := metav1.ObjectMeta{Name: meta.Name, Namespace: project, Annotations: r.annotations(nil)}
		if got := recordIn(pod).Installation; got != want {
			t.Errorf("a pod of project ci in project %s has installation %q, want %q", project, got, want)
		}
	}
}

// The drivers adopt nothing, so empty tags stand for no object.
func TestObjectWithoutTagsIsNotDeleted(t *testing.T) {
	kubeconfig(t, server(t, http.StatusOK, map[string]string{"Content-Type": "application/json"}, `{"metadata":{"name":"theirs"}}`))
	for _, d := range all() {
		cloud, err := open(t, d, "prod")
		testutil.Must(t, err)
		if err := cloud.Delete(t.Context(), "theirs", resources.OwnerTags{}); !errors.Is(err, drivers.ErrNotOurs) {
			t.Errorf("%s: Delete = %v, want %v", d.Kind(), err, drivers.ErrNotOurs)
		}
	}
}

func TestNamesFollowFromNodeAndInstallation(t *testing.T) {
	first := spec(t)
	other := first
	other.Marks.Installation = "two"
	if a, b := nameOf(first), nameOf(other); a == b || !strings.HasPrefix(a, "np0000000001-") || a != nameOf(spec(t)) {
		t.Errorf("names are %s and %s", a, b)
	}
	first.Hostname = strings.Repeat("Long.Name_", 10)
	if name := nameOf(first); len(name) > 63 || name != strings.ToLower(name) {
		t.Errorf("name is %s", name)
	}
}

// server is an API server that gives one answer.
func server(t *testing.T, status int, header map[string]string, body string) string {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// kubeconfig makes the file with a context prod the kubeconfig of the test.
func kubeconfig(t *testing.T, url string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	testutil.WriteFile(t, path, fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
		"users":[{"name":"u","user":{"token":"s3cret"}}],"contexts":[{"name":"prod","context":{"cluster":"c","user":"u","namespace":"ci"}}]}`, url))
	t.Setenv("KUBECONFIG", path)
}

func open(t *testing.T, d *Driver, context string) (drivers.Cloud, error) {
	t.Helper()
	return openBy(t, d, context, nil)
}

func openBy(t *testing.T, d *Driver, context string, wrap func(http.RoundTripper) http.RoundTripper) (drivers.Cloud, error) {
	t.Helper()
	values := d.Schema().Provider.Null().AsValueMap()
	values["context"] = cty.StringVal(context)
	cloud, err := d.Open(t.Context(), drivers.Env{Provider: "main", WrapTransport: wrap}, cty.ObjectVal(values))
	if cloud != nil {
		t.Cleanup(func() { testutil.Must(t, cloud.Close()) })
	}
	return cloud, err
}

func TestResponsesHaveTheKindsOfTheContract(t *testing.T) {
	status := func(reason, message, details string) string {
		return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":%q,"details":{%s}}`, reason, message, details)
	}
	asJSON := map[string]string{"Content-Type": "application/json"}
	for name, c := range map[string]struct {
		status int
		header map[string]string
		body   string
		kind   error
		text   string
		after  time.Duration
	}{
		"no permission": {403, asJSON, status("Forbidden", `namespaces is forbidden: User "ci" cannot list resource "namespaces" in API group "" at the cluster scope`, ""), drivers.ErrRejected, `cannot list resource "namespaces"`, 0},
		"wrong token":   {401, asJSON, status("Unauthorized", "Unauthorized", ""), drivers.ErrRejected, "Unauthorized", 0},
		"throttled":     {429, map[string]string{"Retry-After": "3"}, "Too many requests, please try again later.", drivers.ErrThrottled, "", 3 * time.Second},
		"quota":         {403, asJSON, status("Forbidden", `pods "x" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=5, limited: pods=5`, ""), drivers.ErrQuota, "exceeded quota", 0},
		"webhook":       {500, asJSON, status("InternalError", `failed calling webhook "x": timeout`, ""), drivers.ErrUnavailable, "webhook", 0},
		"unavailable":   {503, nil, "no endpoints", drivers.ErrUnavailable, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig(t, server(t, c.status, c.header, c.body))
			_, err := open(t, New(), "prod")
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("error is %v, want %v with %q", err, c.kind, c.text)
			}
			var after drivers.RetryAfter
			if errors.As(err, &after); after == nil || after.RetryAfter() != c.after {
				t.Errorf("retry after %v, want %s", after, c.after)
			}
		})
	}
}

// An exec plugin need not say when its token ends.
func TestTokenOfAPluginIsRenewedOnce(t *testing.T) {
	var requests atomic.Int64
	var valid atomic.Value
	valid.Store("token-1")
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer "+valid.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`)
			return
		}
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.Copy(w, r.Body)
			return
		}
		fmt.Fprint(w, `{"items":[]}`)
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	program, path := filepath.Join(dir, "program"), filepath.Join(dir, "config")
	testutil.WriteFile(t, program, `cd "${0%/*}" && echo >>issued && printf '{"kind":"ExecCredential","apiVersion":"client.authentication.k8s.io/v1","status":{"token":"token-%s"}}' $(grep -c "" issued)`)
	testutil.WriteFile(t, path, fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],
		"users":[{"name":"u","user":{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"sh","args":[%q],"interactiveMode":"Never"}}}],
		"contexts":[{"name":"prod","context":{"cluster":"c","user":"u","namespace":"ci"}}]}`, s.URL, program))
	t.Setenv("KUBECONFIG", path)
	c, err := open(t, New(), "prod")
	testutil.Must(t, err)
	_, err = c.List(t.Context())
	testutil.Must(t, err)
	valid.Store("token-2")
	if _, err := c.Create(t.Context(), spec(t)); err != nil {
		t.Errorf("Create after the end of the token: %v", err)
	}
	requests.Store(0)
	valid.Store("another")
	if _, err := c.List(t.Context()); !errors.Is(err, drivers.ErrRejected) || requests.Load() != 2 {
		t.Errorf("with a token that the cluster never accepts: %d requests, %v", requests.Load(), err)
	}
}

func TestUnschedulablePodHasTheReasonOfTheScheduler(t *testing.T) {
	var p podObject
	testutil.Must(t, json.Unmarshal([]byte(`{"metadata":{"name":"np1"},"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False",
		"reason":"Unschedulable","message":"0/3 nodes are available: 3 Insufficient cpu."}]}}`), &p))
	var n node
	n.setPod(p)
	if n.Status != resources.StatusPending || n.Fault != "Unschedulable: 0/3 nodes are available: 3 Insufficient cpu." || n.FaultKind != resources.FaultCapacity {
		t.Errorf("the pod is %s, fault %q of kind %q", n.Status, n.Fault, n.FaultKind)
	}
	p.Status.Conditions[0].Status = corev1.ConditionTrue
	n = node{}
	if n.setPod(p); n.Fault != "" || n.FaultKind != "" {
		t.Errorf("a scheduled pod has the fault %q of kind %q", n.Fault, n.FaultKind)
	}
}

// client-go logs a response of which the call ends before its end.
func TestCancelledCallsPrintNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	kubeconfig(t, server(t, http.StatusOK, map[string]string{"Content-Type": "application/json"}, `{"items":[]}`))
	c, err := openBy(t, New(), "prod", func(next http.RoundTripper) http.RoundTripper {
		return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(r)
			if err == nil && r.Context().Value(cutKey{}) != nil {
				cancel()
				answer.Body = struct {
					io.Reader
					io.Closer
				}{iotest.ErrReader(context.Canceled), answer.Body}
			}
			return answer, err
		})
	})
	testutil.Must(t, err)
	output, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	testutil.Must(t, err)
	stderr := os.Stderr
	os.Stderr = output
	defer func() { os.Stderr = stderr }()
	if _, err := c.List(context.WithValue(ctx, cutKey{}, true)); !errors.Is(err, context.Canceled) {
		t.Errorf("List = %v", err)
	}
	printed, err := os.ReadFile(output.Name())
	testutil.Must(t, err)
	if len(printed) > 0 {
		t.Errorf("printed: %s", printed)
	}
}

// cutKey is the key of the call that ends early.
type cutKey struct{}

func TestUnknownContextNamesSimilarOnes(t *testing.T) {
	kubeconfig(t, "https://127.0.0.1:1")
	for context, want := range map[string]string{"pord": "did you mean prod?", "xxxxxxxx": "there are prod"} {
		if _, err := open(t, New(), context); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q", err, want)
		}
	}
	if _, err := open(t, New(), "prod"); !errors.Is(err, drivers.ErrUnavailable) || !drivers.IsNothingDone(err) {
		t.Errorf("error is %v, want %v", err, drivers.ErrUnavailable)
	}
}

func TestLocationIsTheAPIServer(t *testing.T) {
	url := server(t, 200, nil, `{"items":[]}`)
	kubeconfig(t, url)
	for _, d := range all() {
		cloud, err := open(t, d, "prod")
		testutil.Must(t, err)
		want := "cluster " + strings.TrimPrefix(url, "https://")
		if d.Kind() == kindOpenShiftPods {
			want = "project ci of " + want
		}
		if got := cloud.(drivers.Locator).Location(); got != want {
			t.Errorf("location is %q, want %q", got, want)
		}
	}
}

func TestListReadsAllPages(t *testing.T) {
	pages := 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.HasSuffix(r.URL.Path, "/pods") || r.URL.Query().Get("limit") == "1" {
			fmt.Fprint(w, `{"items":[]}`)
			return
		}
		pages++
		if r.URL.Query().Get("continue") == "" {
			fmt.Fprint(w, `{"metadata":{"continue":"more"},"items":[{"metadata":{"name":"one"}}]}`)
			return
		}
		fmt.Fprint(w, `{"items":[{"metadata":{"name":"two"}}]}`)
	}))
	t.Cleanup(s.Close)
	kubeconfig(t, s.URL)
	cloud, err := open(t, NewOpenShiftPods(), "prod")
	testutil.Must(t, err)
	instances, err := cloud.List(t.Context())
	if err != nil || len(instances) != 2 || pages != 2 || instances[1].ID != "two" {
		t.Errorf("List = %+v, %v in %d pages", instances, err, pages)
	}
}

func TestEndlessListsAreErrors(t *testing.T) {
	kubeconfig(t, server(t, http.StatusOK, nil, `{"items":[]}`))
	drivertest.EndlessLists(t, drivertest.Listing{
		Open: func(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) drivers.Cloud {
			cloud, err := openBy(t, NewOpenShiftPods(), "prod", wrap)
			testutil.Must(t, err)
			return cloud
		},
		Is: func(r *http.Request) bool { return r.URL.Query().Get("limit") == pageSize },
		Page: func(items int, token string) string {
			return `{"metadata": {"continue": "` + token + `"}, "items": [{}` + strings.Repeat(`,{}`, items-1) + `]}`
		},
	})
}
