// Package ibmvpctest is the part of IBM Cloud that the driver ibmvpc uses, in memory: IAM, the VPC API and Cloud Object
// Storage. It is strict: it rejects unknown fields, parameters and names. Its shapes are those of IBM's library, with which the
// tests with the tag integration read and write them. It has no other author than the driver: it shows the requests of npctl, not
// the behavior of IBM Cloud.
package ibmvpctest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// APIKey is the only valid API key. It must appear nowhere.
const APIKey = "secret-api-key-of-the-test"

// Region and VPC are the names of the only ones.
const (
	Region = "eu-test"
	VPC    = "ci"
	Bucket = "images"
)

const (
	token   = "token-of-the-test"
	account = "0123456789abcdef0123456789abcdef"
)

// doc is an object of the VPC API.
type doc map[string]any

func (d doc) text(field string) string { s, _ := d[field].(string); return s }

func (d doc) at(field string) doc { inner, _ := d[field].(doc); return inner }

// Server is the cloud.
type Server struct {
	URL string

	mu          sync.Mutex           // guards the fields below
	collections map[string][]doc     // in the order of their creation
	objects     map[string][]byte    // of the bucket, by key
	uploads     map[string]*upload   // that are not complete, by ID
	numbers     int                  // for IDs
	late        map[string]bool      // profiles of which instances fail after the request, without capacity
	refusals    map[string]*refusal  // by profile
	withdrawals int                  // of access tokens
	pending     map[string]*progress // by ID

	// MaxInstances is the quota; 0 means none.
	MaxInstances int
	// PageSize is the size of pages, if it is smaller than the requested one.
	PageSize int
}

// progress is the future of an object: each read of it is one step.
type progress struct{ statuses []string }

// New starts a cloud with a VPC of two zones, and a public image, for other processes.
func New(t testing.TB) *Server {
	t.Helper()
	var s *Server
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	s = InMemory(server.URL)
	return s
}

// InMemory is New without connections: clients use testutil.Direct. url is that of the responses.
func InMemory(url string) *Server {
	s := &Server{URL: url, collections: map[string][]doc{}, objects: map[string][]byte{}, uploads: map[string]*upload{}, late: map[string]bool{}, refusals: map[string]*refusal{}, pending: map[string]*progress{}, PageSize: 100}
	vpc := s.add("vpcs", "vpc", doc{"name": VPC, "status": "available"})
	for i := range 2 {
		zone := fmt.Sprint(Region, "-", i+1)
		s.add("subnets", "subnet", doc{"name": fmt.Sprint("ci-", i+1), "status": "available", "vpc": vpc.reference(), "zone": s.zone(zone)})
	}
	s.add("security_groups", "security-group", doc{"name": "ssh", "vpc": vpc.reference(), "rules": []any{}, "targets": []any{}})
	s.add("keys", "key", doc{"name": "ci", "type": "ed25519", "fingerprint": "SHA256:test", "length": 256, "public_key": "ssh-ed25519 AAAA"})
	for name, size := range map[string][2]int64{"cx2-2x4": {2, 4}, "bx2-2x8": {2, 8}, "bx2-4x16": {4, 16}} {
		s.collections["profiles"] = append(s.collections["profiles"], doc{"name": name, "family": "balanced", "href": s.URL + "/v1/instance/profiles/" + name, "resource_type": "instance_profile",
			"vcpu_count": doc{"type": "fixed", "value": size[0]}, "memory": doc{"type": "fixed", "value": size[1]}})
	}
	s.collections["operating_systems"] = []doc{s.system("debian-12-amd64", "Debian GNU/Linux"), s.system("ubuntu-24-04-amd64", "Ubuntu Linux")}
	s.add("images", "image", doc{"name": "ibm-debian-12-minimal-amd64-1", "status": "available", "status_reasons": []any{}, "visibility": "public", "file": doc{"size": 2}, "operating_system": s.collections["operating_systems"][0]})
	return s
}

func (s *Server) system(name, family string) doc {
	return doc{"name": name, "family": family, "vendor": strings.Fields(family)[0], "version": "12", "architecture": "amd64", "display_name": family, "dedicated_host_only": false,
		"allow_user_image_creation": true, "user_data_format": "cloud_init", "href": s.URL + "/v1/operating_systems/" + name}
}

func (s *Server) zone(name string) doc {
	return doc{"name": name, "href": s.URL + "/v1/regions/" + Region + "/zones/" + name}
}

func (d doc) reference() doc {
	r := doc{}
	for _, field := range []string{"id", "name", "crn", "href", "resource_type"} {
		if v, ok := d[field]; ok {
			r[field] = v
		}
	}
	return r
}

// Env are the variables by which npctl finds the server.
func (s *Server) Env() map[string]string {
	return map[string]string{"VPC_URL": s.URL + "/v1", "VPC_AUTH_URL": s.URL, "VPC_APIKEY": APIKey, "VPC_AUTH_TYPE": "iam"}
}

// Storage is the endpoint of the bucket.
func (s *Server) Storage() string { return s.URL + "/cos" }

// add stores an object. The caller holds mu, or is New.
func (s *Server) add(collection, kind string, d doc) doc {
	s.numbers++
	id := fmt.Sprintf("r006-%08x-0000-4000-8000-%012x", s.numbers*7919, s.numbers)
	d["id"], d["created_at"] = id, time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	d["href"] = s.URL + "/v1/" + collection + "/" + id
	d["crn"] = fmt.Sprintf("crn:v1:bluemix:public:is:%s:a/%s::%s:%s", Region, account, kind, id)
	d["resource_group"] = doc{"id": "fee82deba12e4c0fb69c3b09d1f12345", "name": "Default", "href": s.URL + "/v2/resource_groups/fee82deba12e4c0fb69c3b09d1f12345"}
	d["resource_type"] = strings.ReplaceAll(kind, "-", "_")
	s.collections[collection] = append(s.collections[collection], d)
	return d
}

// Modify calls f for each object of a collection.
func (s *Server) Modify(collection string, f func(object map[string]any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.collections[collection] {
		f(d)
	}
}

// Names returns the names of a collection, without objects that are being deleted.
func (s *Server) Names(collection string) (names []string) {
	s.Modify(collection, func(d map[string]any) {
		if d["status"] != "deleting" {
			names = append(names, doc(d).text("name"))
		}
	})
	return names
}

// ID returns the ID of the object with a name, or "".
func (s *Server) ID(collection, name string) (id string) {
	s.Modify(collection, func(d map[string]any) {
		if d["name"] == name {
			id = doc(d).text("id")
		}
	})
	return id
}

// Objects returns the keys in the bucket, and those of incomplete uploads.
func (s *Server) Objects() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.objects {
		keys = append(keys, key)
	}
	for _, u := range s.uploads {
		keys = append(keys, "upload of "+u.key)
	}
	slices.Sort(keys)
	return keys
}

// PutObject stores an object.
func (s *Server) PutObject(key string, content []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = content
}

// refusal is the error code of requests for a profile, and their number.
type refusal struct {
	code     string
	requests int
}

// Refuse answers requests for a profile with an error code. It returns the number of these requests so far.
func (s *Server) Refuse(profile, code string) (requests func() int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &refusal{code: code}
	s.refusals[profile] = r
	return func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return r.requests
	}
}

// FailLater accepts requests for a profile; the instances fail for lack of capacity.
func (s *Server) FailLater(profile string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late[profile] = true
}

// Remove removes an object, as another user would.
func (s *Server) Remove(collection, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(collection, id)
}

// Instance creates an instance of another user, with a boot volume.
func (s *Server) Instance(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	subnet := s.collections["subnets"][0]
	d, fault := s.createInstance(instanceRequest{Name: name, Profile: named{Name: "cx2-2x4"}, Zone: named{Name: Region + "-1"}, VPC: identity{s.collections["vpcs"][0].text("id")},
		Image: identity{s.collections["images"][0].text("id")}, PrimaryInterface: interfaceRequest{Name: "eth0", Subnet: identity{subnet.text("id")}},
		BootVolume: &bootRequest{Volume: volumeRequest{Name: name + "-boot", Profile: named{Name: "general-purpose"}}, Delete: true}})
	if fault != nil {
		panic(fault.Message)
	}
	d["status"] = "running"
	delete(s.pending, d.text("id"))
	return d.text("id")
}

// Volume creates a volume, attached to an instance unless that is "".
func (s *Server) Volume(name, instance string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.add("volumes", "volume", doc{"name": name, "status": "available", "user_tags": []string{}, "volume_attachments": []doc{}})
	if i := s.find("instances", instance); i != nil {
		v["volume_attachments"] = []doc{{"id": "a", "name": "a", "href": "a", "type": "data", "delete_volume_on_instance_delete": false, "instance": i.reference()}}
	}
	return v.text("id")
}

// FloatingIP creates a floating IP, bound to an instance unless that is "".
func (s *Server) FloatingIP(name, instance string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.add("floating_ips", "floating-ip", doc{"name": name, "status": "available", "address": fmt.Sprint("198.51.100.", len(s.collections["floating_ips"])+1)})
	if i := s.find("instances", instance); i != nil {
		f["target"] = i.at("primary_network_interface").reference()
	}
	return f.text("id")
}

// Image creates an image of the account.
func (s *Server) Image(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add("images", "image", doc{"name": name, "status": "available", "status_reasons": []any{}, "visibility": "private", "file": doc{"size": 1}, "operating_system": s.collections["operating_systems"][0]}).text("id")
}

func (s *Server) find(collection, id string) doc {
	i := slices.IndexFunc(s.collections[collection], func(d doc) bool { return d["id"] == id })
	if i < 0 {
		return nil
	}
	return s.collections[collection][i]
}

func (s *Server) remove(collection, id string) {
	s.collections[collection] = slices.DeleteFunc(s.collections[collection], func(d doc) bool { return d["id"] == id })
	if collection != "instances" {
		return
	}
	for _, f := range s.collections["floating_ips"] {
		if strings.Contains(f.at("target").text("href"), id) {
			delete(f, "target")
		}
	}
	s.collections["volumes"] = slices.DeleteFunc(s.collections["volumes"], func(v doc) bool {
		all, _ := v["volume_attachments"].([]doc)
		if len(all) == 0 || all[0].at("instance")["id"] != id {
			return false
		}
		v["volume_attachments"] = []doc{}
		return all[0]["delete_volume_on_instance_delete"] == true
	})
}

// fault is an error response.
type fault struct {
	status  int
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Target  *target `json:"target,omitempty"`
}

type target struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value string `json:"value,omitempty"`
}

func bad(code, format string, args ...any) *fault {
	return &fault{status: http.StatusBadRequest, Code: code, Message: fmt.Sprintf(format, args...)}
}

func notFound(what, id string) *fault {
	return &fault{http.StatusNotFound, "not_found", fmt.Sprintf("%s with ID %s not found", what, id), &target{"id", "field", id}}
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case r.URL.Path == "/identity/token":
		s.serveToken(w, r)
	case r.Header.Get("Authorization") != "Bearer "+s.token():
		answer(w, http.StatusUnauthorized, doc{"errors": []fault{{Code: "not_authorized", Message: "The request is not authorized."}}, "trace": "t"})
	case strings.HasPrefix(r.URL.Path, "/cos/"):
		s.serveStorage(w, r)
	default:
		status, body, f := s.serveVPC(r)
		if f != nil {
			answer(w, f.status, doc{"errors": []*fault{f}, "trace": "trace-of-the-test"})
			return
		}
		answer(w, status, body)
	}
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body)
	}
}

// token returns the only valid access token. The caller holds mu.
func (s *Server) token() string { return fmt.Sprint(token, s.withdrawals) }

// Withdraw makes all access tokens invalid.
func (s *Server) Withdraw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.withdrawals++
}

func (s *Server) serveToken(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("grant_type") != "urn:ibm:params:oauth:grant-type:apikey" || r.FormValue("apikey") != APIKey {
		answer(w, http.StatusBadRequest, doc{"errorCode": "BXNIM0415E", "errorMessage": "Provided API key could not be found."})
		return
	}
	answer(w, http.StatusOK, doc{"access_token": s.token(), "refresh_token": "not_supported", "token_type": "Bearer", "expires_in": 3600, "expiration": time.Now().Add(time.Hour).Unix()})
}

// filters are the parameters of lists: the field that each of them compares.
var filters = map[string]map[string]string{
	"vpcs": {}, "keys": {}, "profiles": {}, "operating_systems": {},
	"subnets":         {"vpc.id": "vpc.id", "zone.name": "zone.name"},
	"security_groups": {"vpc.id": "vpc.id"},
	"images":          {"name": "name", "visibility": "visibility", "status": "status"},
	"instances":       {"name": "name", "vpc.id": "vpc.id"},
	"volumes":         {"name": "name", "zone.name": "zone.name"},
	"floating_ips":    {"target.id": "target.id"},
}

func (s *Server) serveVPC(r *http.Request) (int, any, *fault) {
	query := r.URL.Query()
	if !regexp.MustCompile(`^20\d\d-\d\d-\d\d$`).MatchString(query.Get("version")) || query.Get("generation") != "2" {
		return 0, nil, bad("bad_request", "version and generation are required")
	}
	path := strings.Replace(strings.TrimPrefix(r.URL.Path, "/v1/"), "instance/profiles", "profiles", 1)
	collection, id, _ := strings.Cut(path, "/")
	known, ok := filters[collection]
	if !ok || !strings.HasPrefix(r.URL.Path, "/v1/") {
		return 0, nil, &fault{status: http.StatusNotFound, Code: "not_found", Message: "no such path " + r.URL.Path}
	}
	isList := r.Method == http.MethodGet && id == ""
	for name := range query {
		if _, isFilter := known[name]; name != "version" && name != "generation" && (!isList || !isFilter && (collection == "profiles" || name != "start" && name != "limit")) {
			return 0, nil, bad("invalid_query_parameter", "unknown parameter %s of %s %s", name, r.Method, r.URL.Path)
		}
	}
	switch {
	case isList:
		body, f := s.list(collection, known, query)
		return http.StatusOK, body, f
	case r.Method == http.MethodGet:
		s.step(collection, id)
		if d := s.find(collection, id); d != nil {
			return http.StatusOK, d, nil
		}
		return 0, nil, notFound(collection, id)
	case r.Method == http.MethodDelete:
		return http.StatusNoContent, nil, s.delete(collection, id)
	case r.Method == http.MethodPost && id == "":
		d, f := s.create(collection, r)
		return http.StatusCreated, d, f
	}
	return 0, nil, &fault{status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: r.Method}
}

func (s *Server) list(collection string, known map[string]string, query map[string][]string) (any, *fault) {
	for _, d := range slices.Clone(s.collections[collection]) {
		s.step(collection, d.text("id"))
	}
	matching := slices.DeleteFunc(slices.Clone(s.collections[collection]), func(d doc) bool {
		for name, field := range known {
			if values := query[name]; len(values) > 0 {
				outer, inner, nested := strings.Cut(field, ".")
				if nested && !slices.Contains(values, d.at(outer).text(inner)) || !nested && !slices.Contains(values, d.text(outer)) {
					return true
				}
			}
		}
		return false
	})
	if collection == "profiles" { // has no pages
		return doc{collection: matching}, nil
	}
	limit := 50
	if values := query["limit"]; len(values) > 0 {
		var err error
		if limit, err = strconv.Atoi(values[0]); err != nil || limit < 1 || limit > 100 {
			return nil, bad("invalid_query_parameter", "limit %s", values[0])
		}
	}
	limit = min(limit, s.PageSize)
	from := 0
	if values := query["start"]; len(values) > 0 {
		from = slices.IndexFunc(matching, func(d doc) bool { return cmp.Or(d.text("id"), d.text("name")) == values[0] })
		if from < 0 {
			return nil, bad("invalid_query_parameter", "start %s", values[0])
		}
	}
	path := s.URL + "/v1/" + collection + "?limit=" + strconv.Itoa(limit)
	body := doc{"first": doc{"href": path}, "limit": limit, "total_count": len(matching), collection: matching[from:min(from+limit, len(matching))]}
	if from+limit < len(matching) {
		next := matching[from+limit]
		body["next"] = doc{"href": path + "&start=" + cmp.Or(next.text("id"), next.text("name"))}
	}
	return body, nil
}

// step is the progress of an object between two reads.
func (s *Server) step(collection, id string) {
	p, d := s.pending[id], s.find(collection, id)
	if p == nil || d == nil {
		return
	}
	if len(p.statuses) == 0 {
		delete(s.pending, id)
		if d["status"] == "deleting" {
			s.remove(collection, id)
		}
		return
	}
	d["status"], p.statuses = p.statuses[0], p.statuses[1:]
	if s.late[d.at("profile").text("name")] && d["status"] == "running" {
		d["status"], d["status_reasons"] = "failed", []doc{{"code": "cannot_start_capacity", "message": "The instance cannot start because of insufficient capacity."}}
	}
}

func (s *Server) delete(collection, id string) *fault {
	d := s.find(collection, id)
	if d == nil {
		return notFound(collection, id)
	}
	switch collection {
	case "instances", "images":
		if d["status"] != "deleting" {
			d["status"], s.pending[id] = "deleting", &progress{statuses: []string{"deleting"}}
		}
	case "volumes":
		if all, _ := d["volume_attachments"].([]doc); len(all) > 0 {
			return &fault{status: http.StatusConflict, Code: "volume_in_use", Message: "the volume is attached"}
		}
		s.remove(collection, id)
	case "floating_ips":
		s.remove(collection, id)
	default:
		return &fault{status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Message: "DELETE"}
	}
	return nil
}
