//go:build integration

package kubernetes

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/kubernetes"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/test/kubernetes/cluster"
)

// The paths of namespaces and of their role bindings.
const (
	namespaces = "/api/v1/namespaces"
	bindings   = "/apis/rbac.authorization.k8s.io/v1/namespaces/%s/rolebindings"
)

// collection is the path of the objects that are nodes.
func (l *lab) collection() string {
	if l.project != "" {
		return podsIn(l.project)
	}
	return namespaces
}

func podsIn(namespace string) string { return namespaces + "/" + namespace + "/pods" }

// recording notes the objects that are created.
func (l *lab) recording(next http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil && answer.StatusCode == http.StatusCreated {
			l.note(r.URL.Path + "/" + nameIn(r))
		}
		return answer, err
	})
}

func (l *lab) note(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.made[path] = true
}

// nameIn returns the name of the object in a request.
func nameIn(r *http.Request) string {
	var o cluster.Object
	body, err := r.GetBody()
	if err == nil {
		err = json.NewDecoder(body).Decode(&o)
	}
	if err != nil {
		return err.Error()
	}
	return o.Metadata.Name
}

// complete returns a transport whose new namespaces have their default objects. Without them a client repeats calls, so that
// their number depends on the controllers.
func complete(next http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil && answer.StatusCode == http.StatusCreated && r.URL.Path == namespaces {
			account := namespaces + "/" + nameIn(r) + "/serviceaccounts/default"
			testutil.Poll(testutil.Patience, func() bool { return kube.Request(http.MethodGet, account, nil, nil) == nil })
		}
		return answer, err
	})
}

// objects returns the kinds and paths of the noted objects that are there and not being deleted.
func (l *lab) objects(t *testing.T) (all []string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range slices.Sorted(maps.Keys(l.made)) {
		if _, err := stays(one); errors.Is(err, errGone) {
			delete(l.made, one)
		} else if err == nil {
			all = append(all, path.Base(path.Dir(one))+" "+one)
		} else if !errors.Is(err, errDeleted) {
			t.Error(err)
		}
	}
	slices.Sort(all)
	return all
}

var errGone, errDeleted = errors.New("it is gone"), errors.New("it is being deleted")

// stays returns an object, with an error if it is gone or being deleted.
func stays(path string) (o cluster.Object, err error) {
	err = kube.Request(http.MethodGet, path, nil, &o)
	switch {
	case err != nil && strings.Contains(err.Error(), ": 404 "):
		err = errGone
	case err == nil && o.Metadata.Deletion != "":
		err = errDeleted
	}
	return o, err
}

// foreign creates an object that does not resemble those of npctl.
func (l *lab) foreign(t *testing.T) drivertest.Foreign {
	t.Helper()
	return l.others(t, l.collection(), map[string]any{"generateName": "foreign-", "annotations": map[string]string{"team": "other"}})
}

// others creates an object of others, which nothing may change until the test ends.
func (l *lab) others(t *testing.T, collection string, meta map[string]any) drivertest.Foreign {
	t.Helper()
	body := map[string]any{"metadata": meta}
	switch path.Base(collection) {
	case "pods":
		body["spec"] = map[string]any{"containers": []any{map[string]any{"name": "a", "image": "debian:12"}}}
	case "secrets":
		body["data"] = map[string][]byte{"token": []byte("theirs")}
	case "rolebindings":
		body["roleRef"] = map[string]string{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
	}
	var made cluster.Object
	testutil.Await(t, "a new namespace accepts objects", func() bool {
		err := kube.Request(http.MethodPost, collection, body, &made)
		if err != nil && !strings.Contains(err.Error(), "error looking up service account") {
			t.Fatal(err)
		}
		return err == nil
	})
	at := collection + "/" + made.Metadata.Name
	l.note(at)
	one := drivertest.Foreign{ID: made.Metadata.Name, Stays: func() error {
		now, err := stays(at)
		if diff := cmp.Diff(made.Metadata, now.Metadata); err == nil && diff != "" {
			err = fmt.Errorf("others have changed it (-before +after):\n%s", diff)
		}
		return err
	}}
	t.Cleanup(func() {
		if err := one.Stays(); err != nil {
			t.Errorf("%s: %v", at, err)
			return
		}
		testutil.Must(t, kube.Request(http.MethodDelete, at, nil, nil))
	})
	return one
}

// nameOf is the name of a node's object, as the page of the driver describes it.
func nameOf(spec drivers.Spec) string {
	return fmt.Sprintf("%s-%x", spec.Hostname, sha256.Sum256([]byte(spec.Marks.Installation)))[:len(spec.Hostname)+9]
}

func ourLabels(spec drivers.Spec) map[string]string {
	return map[string]string{"app.kubernetes.io/managed-by": "npctl", "npctl/installation": spec.Marks.Installation, "npctl/node-id": spec.Marks.ID}
}

// neighbours have names and labels like those of a node, and tags that do not prove that they are npctl's.
func (l *lab) neighbours(t *testing.T, node drivers.Spec) (all []drivertest.Foreign) {
	t.Helper()
	for end, changed := range map[string]map[string]any{
		"-other":     {"installation": node.Marks.Installation + "-other"},
		"-no-id":     {"id": nil},
		"-unknown":   {"login": "of another type"},
		"-described": {},
		"-kept":      nil,
	} {
		name, annotations := nameOf(node)+end, map[string]string{}
		tags := map[string]any{"object": name, "installation": node.Marks.Installation, "kind": node.Marks.Kind, "id": node.Marks.ID, "type": "pod", "hostname": node.Hostname}
		maps.Copy(tags, changed)
		text, err := json.Marshal(tags)
		testutil.Must(t, err)
		switch end {
		case "-described": // without the prefix of npctl
			annotations["openshift.io/description"] = string(text)
		case "-kept": // someone has removed the annotation
		default:
			annotations["npctl/node"] = string(text)
		}
		all = append(all, l.others(t, l.collection(), map[string]any{"name": name, "labels": ourLabels(node), "annotations": annotations}))
		if end == "-kept" && l.project == "" {
			l.others(t, fmt.Sprintf(bindings, name), map[string]any{"name": "zuul-role", "labels": ourLabels(node)})
		}
	}
	return all
}

// copies restores a node with its labels and annotations, as backup tools do: under another name, and a pod of openshiftpods
// also in another project.
func (l *lab) copies(t *testing.T, original string) []drivertest.Foreign {
	t.Helper()
	source, err := stays(l.collection() + "/" + original)
	testutil.Must(t, err)
	copied := func(o cluster.Object, name string) map[string]any {
		return map[string]any{"name": name, "labels": o.Metadata.Labels, "annotations": o.Metadata.Annotations}
	}
	restored := l.others(t, l.collection(), copied(source, original+"-restored"))
	if l.project != "" {
		return []drivertest.Foreign{restored, l.inAnotherProject(t, copied(source, original))}
	}
	for _, kind := range []string{podsIn("%s"), bindings, namespaces + "/%s/secrets"} {
		inside, err := kube.List(fmt.Sprintf(kind, original))
		testutil.Must(t, err)
		for _, o := range inside {
			l.others(t, fmt.Sprintf(kind, restored.ID), copied(o, o.Metadata.Name))
		}
	}
	return []drivertest.Foreign{restored}
}

// inAnotherProject creates a pod that another provider of the same installation lists.
func (l *lab) inAnotherProject(t *testing.T, meta map[string]any) drivertest.Foreign {
	t.Helper()
	const project = "restored"
	other, err := l.openBy(t, l.wrap, map[string]cty.Value{"project": cty.StringVal(project)})
	testutil.Must(t, err)
	t.Cleanup(func() { testutil.Must(t, other.Close()) })
	pod := l.others(t, podsIn(project), meta)
	return drivertest.Foreign{ID: project + "/" + pod.ID, Stays: func() error {
		list, err := other.List(t.Context())
		i := slices.IndexFunc(list, func(i resources.Instance) bool { return i.ID == pod.ID })
		if err == nil && (i < 0 || list[i].Marks != (resources.OwnerTags{})) {
			err = fmt.Errorf("pod %s is not one of others in %+v", pod.ID, list)
		}
		return errors.Join(err, pod.Stays())
	}}
}

// TestNewObjectOfTheSameNameStays replaces a pod between the two calls of its deletion.
func TestNewObjectOfTheSameNameStays(t *testing.T) {
	t.Parallel()
	project(t, "replaced")
	l := &lab{driver: kubernetes.NewOpenShiftPods(), config: map[string]cty.Value{"project": cty.StringVal("replaced")}, project: "replaced", made: map[string]bool{}}
	spec := drivers.Spec{Marks: resources.OwnerTags{Installation: "replaced", Kind: resources.KindNode, ID: "1"}, Hostname: "np1", Config: label(t, l.driver, podLabel(nil))}
	cloud, err := l.openBy(t, func(next http.RoundTripper) http.RoundTripper {
		return testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete {
				testutil.Must(t, kube.Request(http.MethodDelete, r.URL.Path, nil, nil))
				l.others(t, l.collection(), map[string]any{"name": nameOf(spec)})
			}
			return next.RoundTrip(r)
		})
	}, nil)
	testutil.Must(t, err)
	defer cloud.Close()
	made, err := cloud.Create(t.Context(), spec)
	testutil.Must(t, err)
	testutil.Must(t, cloud.Delete(t.Context(), made.ID, spec.Marks))
}
