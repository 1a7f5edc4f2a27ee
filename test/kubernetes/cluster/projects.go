package cluster

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Projects answers the calls of project.openshift.io as OpenShift does: a project is a view of a namespace, and a
// ProjectRequest makes one. Like the default template of OpenShift, it keeps the name and the description of a
// ProjectRequest, and drops its labels and annotations.
type Projects struct{ Next http.RoundTripper }

const projectPath = "/apis/project.openshift.io/v1/"

// RoundTrip implements http.RoundTripper.
func (p Projects) RoundTrip(r *http.Request) (*http.Response, error) {
	kind, found := strings.CutPrefix(r.URL.Path, projectPath)
	if !found {
		return p.Next.RoundTrip(r)
	}
	r = r.Clone(r.Context())
	switch {
	case kind == "projectrequests" && r.Method == http.MethodPost:
		if err := asNamespace(r); err != nil {
			return nil, err
		}
		r.URL.Path = "/api/v1/namespaces"
	default:
		r.URL.Path = "/api/v1/namespaces" + strings.TrimPrefix(kind, "projects")
	}
	answer, err := p.Next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	return answer, asProject(answer)
}

// asNamespace replaces the ProjectRequest in the body by a namespace.
func asNamespace(r *http.Request) error {
	var request struct {
		Kind        string
		Metadata    struct{ Name string }
		Description string
	}
	err := json.NewDecoder(r.Body).Decode(&request)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"kind": "Namespace", "apiVersion": "v1", "metadata": map[string]any{
		"name": request.Metadata.Name, "annotations": map[string]string{
			"openshift.io/description": request.Description, "openshift.io/display-name": "", "openshift.io/requester": "admin",
		}}})
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil } // a retry of the transport reads it
	r.Body, _ = r.GetBody()
	r.ContentLength = int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return err
}

// asProject renames the kind in the response.
func asProject(answer *http.Response) error {
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	body = bytes.ReplaceAll(body, []byte(`"kind":"Namespace"`), []byte(`"kind":"Project"`))
	body = bytes.ReplaceAll(body, []byte(`"kind":"NamespaceList","apiVersion":"v1"`), []byte(`"kind":"ProjectList","apiVersion":"project.openshift.io/v1"`))
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	answer.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return err
}
