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
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/kubernetes"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/gate"
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

// lab opens one of the drivers, counts its calls, and knows the objects that its clients and others have created.
type lab struct {
	driver    drivers.Driver
	config    map[string]cty.Value // of the provider
	project   string               // of openshiftpods
	calls     atomic.Int64
	loseNext  atomic.Bool  // the response of the next creation is lost
	limitNext atomic.Bool  // the next creation has the token of a user without permissions
	deleted   atomic.Int64 // the time of the last deletion in Unix milliseconds

	mu   sync.Mutex
	made map[string]bool // guarded by mu; the paths of the objects
}

func (l *lab) open(t *testing.T) (drivers.Cloud, error) {
	t.Helper()
	return l.openBy(t, l.wrap, nil)
}

func (l *lab) openBy(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper, config map[string]cty.Value) (drivers.Cloud, error) {
	t.Helper()
	values := l.driver.Schema().Provider.Null().AsValueMap()
	maps.Copy(values, l.config)
	maps.Copy(values, config)
	return l.driver.Open(t.Context(), drivers.Env{Provider: "drivertest", WrapTransport: wrap}, cty.ObjectVal(values))
}

func (l *lab) mustOpen(t *testing.T) drivers.Cloud {
	t.Helper()
	cloud, err := l.open(t)
	testutil.Must(t, err)
	return cloud
}

// mortal opens the driver for a client that k kills.
func (l *lab) mortal(t *testing.T, k *testutil.Killer) drivers.Cloud {
	t.Helper()
	cloud, err := l.openBy(t, func(next http.RoundTripper) http.RoundTripper {
		return k.Transport(l.wrap(complete(next)), changes)
	}, nil)
	testutil.Must(t, err)
	return cloud
}

// changes describes a call that changes something. The drivers send no reviews and no dry runs.
func changes(r *http.Request) string {
	if call := r.Method + " " + r.URL.Path; gate.Changes(call) {
		return call
	}
	return ""
}

func (l *lab) wrap(next http.RoundTripper) http.RoundTripper {
	next = cluster.Projects{Next: l.recording(next)}
	return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		l.calls.Add(1)
		l.slowDown(r)
		if r.Method == http.MethodPost && l.limitNext.CompareAndSwap(true, false) {
			r = r.Clone(r.Context())
			r.Header.Set("Authorization", "Bearer "+cluster.LimitedToken)
		}
		answer, err := next.RoundTrip(r)
		if err == nil && r.Method == http.MethodPost && l.loseNext.CompareAndSwap(true, false) {
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			return nil, errors.New("connection reset")
		}
		return answer, err
	})
}

// slowDown makes lists slow, and polls of them rare, while the controller of namespaces waits before a deletion. On an idle machine
// these polls took much of the CPU time.
func (l *lab) slowDown(r *http.Request) {
	now := time.Now().UnixMilli()
	switch kind := path.Base(r.URL.Path); {
	case r.Method == http.MethodDelete:
		l.deleted.Store(now)
	case (kind == "namespaces" || kind == "projects") && now-l.deleted.Load() < 5000:
		time.Sleep(100 * time.Millisecond)
	}
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
	project(t, "restored")
	limits := map[string]cty.Value{"max_servers": cty.NumberIntVal(1000)}
	inProject := map[string]cty.Value{"max_servers": cty.NumberIntVal(1000), "project": cty.StringVal("existing")}
	for name, c := range map[string]struct {
		driver  drivers.Driver
		config  map[string]cty.Value
		project string
		label   map[string]cty.Value
	}{
		"kubernetes pod":       {kubernetes.New(), limits, "", podLabel(nil)},
		"kubernetes namespace": {kubernetes.New(), limits, "", podLabel(map[string]cty.Value{"type": cty.StringVal("namespace")})},
		"openshift pod":        {kubernetes.NewOpenShift(), limits, "", podLabel(nil)},
		"openshift project":    {kubernetes.NewOpenShift(), limits, "", podLabel(map[string]cty.Value{"type": cty.StringVal("project")})},
		"openshiftpods":        {kubernetes.NewOpenShiftPods(), inProject, "existing", podLabel(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, func(t *testing.T) drivertest.Setup {
				if c.project == "" { // others wait for the deletion of namespaces
					t.Parallel()
				}
				return setup(t, &lab{driver: c.driver, config: c.config, project: c.project, made: map[string]bool{}}, c.label)
			})
		})
	}
}

func setup(t *testing.T, l *lab, attributes map[string]cty.Value) drivertest.Setup {
	isPods := l.project != ""
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
		FromCatalogue: func(names resources.Catalogue) (drivers.Resolver, error) {
			return l.driver.(drivers.CatalogueReader).ResolverOf(cty.NilVal, names)
		},
		Omits: map[string]string{
			"Attach":   "what another user creates in a namespace is deleted with it; a pod has no other objects",
			"Exhaust":  "an offer has no list of types",
			"Withdraw": "TestTokenOfAPluginIsRenewedOnce of the drivers",
		},
		Foreign: func(t *testing.T) string { return l.foreign(t).ID },
		Kill:    l.mortal,
		Objects: l.objects,
		Neighbours: func(t *testing.T, node drivers.Spec, _ drivers.ImageSpec) []drivertest.Foreign {
			return l.neighbours(t, node)
		},
		Copies: func(t *testing.T, _ resources.Kind, original string) []drivertest.Foreign {
			return l.copies(t, original)
		},
		Rejected: map[string]func(*drivers.Spec){
			"no permission": func(*drivers.Spec) { l.limitNext.Store(true) },
			"name of others": func(spec *drivers.Spec) {
				l.others(t, l.collection(), map[string]any{"name": nameOf(*spec), "labels": ourLabels(*spec)})
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
		s.Rejected["no image"] = func(spec *drivers.Spec) {
			spec.Config = label(t, l.driver, map[string]cty.Value{"type": cty.StringVal("pod")})
		}
	}
	if isPods {
		s.FillQuota = func(t *testing.T) { fillQuota(t, "existing") }
	} else {
		s.Omits["FillQuota"] = "a new namespace has no quota"
	}
	if !isPod {
		s.Omits["BadOffers"] = "an offer of a namespace names nothing of the cluster"
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
