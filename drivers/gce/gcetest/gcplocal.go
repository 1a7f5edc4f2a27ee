package gcetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// Gcplocal starts a proxy before gcplocal 0.1, an emulator of Google Cloud, and returns the URL of its API. gcplocal has the
// instances, disks and operations of zones. The proxy adds the parts that npctl uses: lists of all zones, addresses of
// instances, IDs of operations as numbers, and, from s, the login, the names of machine types and so on.
func (s *Server) Gcplocal(t testing.TB, upstream string) string {
	t.Helper()
	target, err := url.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	p := gcplocal{target}
	mux := http.NewServeMux()
	mux.Handle("/", s.handler())
	mux.HandleFunc("/compute/v1/projects/{project}/zones/{zone}/instances/", p.forward)
	mux.HandleFunc("/compute/v1/projects/{project}/zones/{zone}/instances", p.forward)
	mux.HandleFunc("/compute/v1/projects/{project}/zones/{zone}/disks/", p.forward)
	mux.HandleFunc("/compute/v1/projects/{project}/zones/{zone}/disks", p.forward)
	mux.HandleFunc("/compute/v1/projects/{project}/zones/{zone}/operations/", p.forward)
	mux.HandleFunc("/compute/v1/projects/{project}/aggregated/{kind}", p.aggregated)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL + "/compute/v1/"
}

type gcplocal struct{ target *url.URL }

func (p gcplocal) send(r *http.Request, path string) (status int, answer map[string]any, err error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, err
	}
	to := *p.target
	to.Path = path
	request, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	err = json.NewDecoder(response.Body).Decode(&answer)
	return response.StatusCode, answer, err
}

func (p gcplocal) forward(w http.ResponseWriter, r *http.Request) {
	status, answer, err := p.send(r, r.URL.Path)
	reply(w, status, answer, err)
}

func (p gcplocal) aggregated(w http.ResponseWriter, r *http.Request) {
	scopes := map[string]any{}
	for _, zone := range zones() {
		path := strings.Replace(r.URL.Path, "/aggregated/", "/zones/"+zone+"/", 1)
		_, answer, err := p.send(r, path)
		if err != nil {
			reply(w, 0, nil, err)
			return
		}
		scopes["zones/"+zone] = map[string]any{r.PathValue("kind"): answer["items"]}
		complete(answer)
	}
	reply(w, http.StatusOK, map[string]any{"items": scopes}, nil)
}

func reply(w http.ResponseWriter, status int, answer map[string]any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	complete(answer)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// complete adds the fields that gcplocal lacks.
func complete(object map[string]any) {
	items, _ := object["items"].([]any)
	for _, one := range items {
		if inner, ok := one.(map[string]any); ok {
			complete(inner)
		}
	}
	switch object["kind"] {
	case "compute#operation":
		delete(object, "id") // not a number
	case "compute#instance":
		interfaces, _ := object["networkInterfaces"].([]any)
		for n, one := range interfaces {
			nic, _ := one.(map[string]any)
			nic["networkIP"] = fmt.Sprintf("10.132.0.%d", n+2)
			configs, _ := nic["accessConfigs"].([]any)
			for _, config := range configs {
				if access, ok := config.(map[string]any); ok {
					access["natIP"] = "34.76.0.2"
				}
			}
		}
	}
}
