package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/npctl/npctl/drivers"
)

// client sends the calls. It has no retries and no rate limit.
type client struct{ rest rest.Interface }

// pageSize is the number of objects in a page of a list.
const pageSize = "500"

// send executes a request and decodes the response, unless into is nil.
func (c client) send(ctx context.Context, doing string, r *rest.Request, into any) error {
	quiet := klog.NewContext(ctx, klog.Logger{}) // client-go prints errors to stderr, which the caller reports
	result := r.MaxRetries(0).Do(quiet)
	if err := result.Error(); err != nil {
		status := 0
		result.StatusCode(&status)
		return wrap(doing, status, err)
	}
	if into == nil {
		return nil
	}
	body, err := result.Raw()
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

func (c client) get(ctx context.Context, path string, into any) error {
	return c.send(ctx, "read "+shortPath(path), c.rest.Get().AbsPath(path), into)
}

func (c client) create(ctx context.Context, path, name string, object, into any) error {
	return c.send(ctx, "create "+shortPath(path)+"/"+name, c.rest.Post().AbsPath(path).Body(bodyOf(object)), into)
}

// delete deletes the object with the UID. Dependent objects go in the background.
func (c client) delete(ctx context.Context, path string, meta metav1.ObjectMeta) error {
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"},
		Preconditions: &metav1.Preconditions{UID: &meta.UID}, PropagationPolicy: &background,
	}
	return c.send(ctx, "delete "+shortPath(path), c.rest.Delete().AbsPath(path).Body(bodyOf(options)), nil)
}

// list returns all pages of a list. An empty selector selects all objects.
func list[T any](ctx context.Context, c client, path, selector string) (items []T, err error) {
	var listed drivers.Pages
	for next := ""; ; {
		var page struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []T             `json:"items"`
		}
		r := c.rest.Get().AbsPath(path).Param("limit", pageSize)
		if selector != "" {
			r = r.Param("labelSelector", selector)
		}
		if next != "" {
			r = r.Param("continue", next)
		}
		if err := c.send(ctx, "list "+shortPath(path), r, &page); err != nil {
			return nil, err
		}
		items = append(items, page.Items...)
		next = page.Metadata.Continue
		if err := listed.Next(next, len(page.Items)); err != nil {
			return nil, fmt.Errorf("list %s: %w", shortPath(path), err)
		}
		if next == "" {
			return items, nil
		}
	}
}

// shortPath returns a path without the version of its API, for errors.
func shortPath(path string) string {
	for _, prefix := range []string{coreAPI, roleAPI, projectAPI} {
		path = strings.TrimPrefix(path, prefix+"/")
	}
	return path
}

// The APIs.
const (
	coreAPI    = "/api/v1"
	roleAPI    = "/apis/rbac.authorization.k8s.io/v1"
	projectAPI = "/apis/project.openshift.io/v1"
)

// inNamespace returns the path of the objects of a kind in a namespace.
func inNamespace(api, namespace, kind string) string {
	return api + "/namespaces/" + namespace + "/" + kind
}
