//go:build integration

// Package kubernetes tests the drivers kubernetes, openshift and openshiftpods against a real API server.
package kubernetes

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/kubernetes"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/kubernetes/cluster"
	"github.com/npctl/npctl/test/program"
)

var (
	npctl string // path of the program under test
	kube  *cluster.Cluster
)

func TestMain(m *testing.M) {
	var err error
	if kube, err = cluster.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := 1
	if err = os.Setenv("KUBECONFIG", kube.Kubeconfig); err == nil { // of tests that open a driver
		code = program.Main(m, &npctl)
	}
	kube.Stop()
	os.Exit(code)
}

// lab opens one of the drivers and counts its calls.
type lab struct {
	driver   drivers.Driver
	config   map[string]cty.Value // of the provider
	calls    atomic.Int64
	loseNext atomic.Bool // the response of the next creation is lost
	limited  atomic.Bool // calls have the token of a user without permissions
}

func (l *lab) open(t *testing.T) (drivers.Cloud, error) {
	t.Helper()
	values := l.driver.Schema().Provider.Null().AsValueMap()
	maps.Copy(values, l.config)
	return l.driver.Open(t.Context(), drivers.Env{Provider: "drivertest", WrapTransport: l.wrap}, cty.ObjectVal(values))
}

func (l *lab) mustOpen(t *testing.T) drivers.Cloud {
	t.Helper()
	cloud, err := l.open(t)
	testutil.Must(t, err)
	return cloud
}

func (l *lab) wrap(next http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		l.calls.Add(1)
		if l.limited.Load() {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+cluster.LimitedToken)
		}
		answer, err := cluster.Projects{Next: next}.RoundTrip(r)
		if err == nil && r.Method == http.MethodPost && l.loseNext.CompareAndSwap(true, false) {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			return nil, errors.New("connection reset")
		}
		return answer, err
	})
}

func label(t *testing.T, d drivers.Driver, attributes map[string]cty.Value) cty.Value {
	t.Helper()
	values := d.Schema().Label.Null().AsValueMap()
	for name, value := range attributes {
		if _, ok := values[name]; !ok && name != "type" {
			t.Fatalf("no attribute %s", name)
		} else if ok {
			values[name] = value
		}
	}
	return cty.ObjectVal(values)
}

func podLabel(more map[string]cty.Value) map[string]cty.Value {
	attributes := map[string]cty.Value{"type": cty.StringVal("pod"), "image": cty.StringVal("debian:12"), "cpu": cty.NumberIntVal(1), "memory": cty.NumberIntVal(256)}
	maps.Copy(attributes, more)
	return attributes
}

// TestContract runs the suite of all drivers with each driver and type of node.
func TestContract(t *testing.T) {
	t.Parallel()
	project(t, "existing")
	limits := map[string]cty.Value{"max_servers": cty.NumberIntVal(1000)}
	inProject := map[string]cty.Value{"max_servers": cty.NumberIntVal(1000), "project": cty.StringVal("existing")}
	for name, c := range map[string]struct {
		driver drivers.Driver
		config map[string]cty.Value
		label  map[string]cty.Value
	}{
		"kubernetes pod":       {kubernetes.New(), limits, podLabel(nil)},
		"kubernetes namespace": {kubernetes.New(), limits, podLabel(map[string]cty.Value{"type": cty.StringVal("namespace")})},
		"openshift pod":        {kubernetes.NewOpenShift(), limits, podLabel(nil)},
		"openshift project":    {kubernetes.NewOpenShift(), limits, podLabel(map[string]cty.Value{"type": cty.StringVal("project")})},
		"openshiftpods":        {kubernetes.NewOpenShiftPods(), inProject, podLabel(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(t *testing.T) drivertest.Setup {
				return setup(t, &lab{driver: c.driver, config: c.config}, c.label)
			})
		})
	}
}

func setup(t *testing.T, l *lab, attributes map[string]cty.Value) drivertest.Setup {
	isPods := l.driver.Kind() == "openshiftpods"
	isPod := attributes["type"].AsString() == "pod"
	cloud := l.mustOpen(t)
	t.Cleanup(func() { testutil.Must(t, cloud.Close()) })
	s := drivertest.Setup{
		Cloud: cloud, Reopen: l.mustOpen, Config: label(t, l.driver, attributes), Alone: isPods, // the other drivers share the list of namespaces
		Secrets: []string{cluster.Token, "a-wrong-token"}, Calls: func() int { return int(l.calls.Load()) },
		LoseNextAnswer: func(*testing.T) { l.loseNext.Store(true) },
		Lacks:          []string{"images", "cloud images", "sweeper", "console", "snapshots", "adopter"},
		OpenWrong: func(t *testing.T) error {
			other := &lab{driver: l.driver, config: map[string]cty.Value{"context": cty.StringVal("wrong")}}
			_, err := other.open(t)
			return err
		},
		Foreign: func(t *testing.T) string { return foreign(t, map[bool]string{true: "existing"}[isPods]) },
		Rejected: map[string]func(*drivers.Spec){
			"no permission": func(*drivers.Spec) {
				l.limited.Store(true)
				t.Cleanup(func() { l.limited.Store(false) })
			},
		},
	}
	s.Spoil = map[string]func(*testing.T, resources.Instance){}
	spoil := func(name, path string) {
		s.Spoil[name] = func(t *testing.T, i resources.Instance) {
			testutil.Must(t, kube.Request(http.MethodDelete, fmt.Sprintf(path, i.ID), nil, nil))
		}
	}
	switch {
	case isPods:
		spoil("pod deleted", "/api/v1/namespaces/existing/pods/%s")
	case isPod:
		spoil("pod deleted", "/api/v1/namespaces/%[1]s/pods/%[1]s")
		fallthrough
	default:
		spoil("namespace deleted", "/api/v1/namespaces/%s")
		spoil("role binding deleted", "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings/zuul-role")
	}
	if isPod {
		bad := podLabel(map[string]cty.Value{"volumes": cty.StringVal(`[{"name":"cache"}]`), "volume_mounts": cty.StringVal(`[{"name":"cahce","mountPath":"/c"}]`)})
		s.BadOffers = map[string]drivertest.BadOffer{"volume": {Config: label(t, l.driver, bad), Attribute: "volume_mounts", Near: "cache"}}
		s.Rejected = map[string]func(*drivers.Spec){"no image": func(spec *drivers.Spec) {
			spec.Config = label(t, l.driver, map[string]cty.Value{"type": cty.StringVal("pod")})
		}}
	}
	if isPods {
		s.FillQuota = func(t *testing.T) { fillQuota(t, "existing") }
	}
	return s
}

func project(t *testing.T, name string) {
	t.Helper()
	testutil.Must(t, kube.Request(http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"name": name}}, nil))
	testutil.Await(t, "the project has its default service account", func() bool {
		return kube.Request(http.MethodGet, "/api/v1/namespaces/"+name+"/serviceaccounts/default", nil, nil) == nil
	})
	t.Cleanup(func() { testutil.Must(t, kube.Request(http.MethodDelete, "/api/v1/namespaces/"+name, nil, nil)) })
}

// foreign creates an object that npctl does not own: a pod in a namespace, or a namespace if the name is empty.
func foreign(t *testing.T, namespace string) string {
	t.Helper()
	path, body := "/api/v1/namespaces", map[string]any{"metadata": map[string]any{"generateName": "foreign-", "annotations": map[string]string{"team": "other"}}}
	if namespace != "" {
		path = "/api/v1/namespaces/" + namespace + "/pods"
		body["spec"] = map[string]any{"containers": []any{map[string]any{"name": "a", "image": "debian:12"}}}
	}
	var made cluster.Object
	testutil.Must(t, kube.Request(http.MethodPost, path, body, &made))
	t.Cleanup(func() {
		if err := kube.Request(http.MethodDelete, path+"/"+made.Metadata.Name, nil, nil); err != nil {
			t.Errorf("the foreign object is gone: %v", err)
		}
	})
	return made.Metadata.Name
}

// fillQuota lets a quota refuse new pods. The quota in the database is not proof enough: admission sees it a little later, and
// its end, too.
func fillQuota(t *testing.T, namespace string) {
	t.Helper()
	base := "/api/v1/namespaces/" + namespace
	pod := map[string]any{"metadata": map[string]any{"generateName": "probe-"}, "spec": map[string]any{"containers": []any{map[string]any{"name": "a", "image": "debian:12"}}}}
	refuses := func() bool {
		err := kube.Request(http.MethodPost, base+"/pods?dryRun=All", pod, nil)
		return err != nil && strings.Contains(err.Error(), "exceeded quota")
	}
	testutil.Must(t, kube.Request(http.MethodPost, base+"/resourcequotas", map[string]any{"metadata": map[string]any{"name": "full"}, "spec": map[string]any{"hard": map[string]string{"pods": "0"}}}, nil))
	t.Cleanup(func() {
		testutil.Must(t, kube.Request(http.MethodDelete, base+"/resourcequotas/full", nil, nil))
		testutil.Await(t, "the quota has ended", func() bool { return !refuses() })
	})
	testutil.Await(t, "the quota is in force", refuses)
}
