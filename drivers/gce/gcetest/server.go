// Package gcetest is Google Compute Engine in memory, as far as npctl uses it. It rejects what Google documents as invalid:
// unknown fields in bodies, masks and filters, bad names and labels, and references to objects that do not exist. Objects
// change their status with each request, as operations do.
package gcetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/npctl/npctl/internal/testutil"
)

// The project and the region of a new Server, and its images.
const (
	Project     = "ci-project"
	Region      = "europe-west1"
	Zone        = "europe-west1-b"
	ImageFamily = "debian-12"
	Image       = "projects/debian-cloud/global/images/debian-12-bookworm-v20260310"
)

// Server is a Compute Engine with one project. The fields that tests may set are guarded by mu, see Change.
type Server struct {
	Limits map[string]float64 // quotas by metric
	// Fails returns the error of the operation that inserts an instance; "" is none.
	Fails func(zone, machineType string) (code, message string)
	// Unreachable are zones that do not respond.
	Unreachable []string
	// Denied are permissions that the credentials lack, such as compute.instances.create.
	Denied []string

	mu          sync.Mutex
	url         string
	instances   map[string]*compute.Instance // by zone and name
	disks       map[string]*compute.Disk     // by zone and name
	operations  map[string]*compute.Operation
	images      map[string][]*compute.Image // by project
	serial      int
	withdrawals int
	calls       int
}

// New starts a Server for other processes.
func New(t testing.TB) *Server {
	t.Helper()
	s := InMemory()
	server := httptest.NewServer(s.handler())
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// InMemory returns a Server without connections: clients use its Transport.
func InMemory() *Server {
	return &Server{
		url:       "https://gce.test",
		Limits:    map[string]float64{"INSTANCES": 1000, "CPUS": 4000, "N2_CPUS": 400, "PREEMPTIBLE_CPUS": 0, "IN_USE_ADDRESSES": 1000, "SSD_TOTAL_GB": 500},
		instances: map[string]*compute.Instance{}, disks: map[string]*compute.Disk{}, operations: map[string]*compute.Operation{},
		images: map[string][]*compute.Image{"debian-cloud": {
			image("debian-cloud", "debian-12-bookworm-v20260210", ImageFamily, "2026-02-10T01:02:03.000-08:00", "X86_64"),
			image("debian-cloud", "debian-12-bookworm-v20260310", ImageFamily, "2026-03-10T01:02:03.000-07:00", "X86_64"),
			image("debian-cloud", "debian-12-bookworm-arm64-v20260310", "debian-12-arm64", "2026-03-10T01:02:03.000-07:00", "ARM64"),
			deprecated(image("debian-cloud", "debian-12-bookworm-v20260401", ImageFamily, "2026-04-01T01:02:03.000-07:00", "X86_64")),
		}, Project: {image(Project, "own", "", "2026-01-01T00:00:00.000-08:00", "X86_64")}},
	}
}

// Transport returns a transport for clients in this process.
func (s *Server) Transport() http.RoundTripper { return testutil.Direct(s.handler()) }

// Client returns the authorized client of another user in this process.
func (s *Server) Client() *http.Client {
	transport := s.Transport()
	return &http.Client{Transport: testutil.RoundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		s.Change(func(s *Server) { r.Header.Set("Authorization", "Bearer "+s.accessTokenNow()) })
		return transport.RoundTrip(r)
	})}
}

// Objects returns the kinds and names of all instances and disks that are not in deletion.
func (s *Server) Objects() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for at, i := range s.instances {
		if i.Status != "STOPPING" {
			all = append(all, "instance "+at)
		}
	}
	for at := range s.disks {
		all = append(all, "disk "+at)
	}
	slices.Sort(all)
	return all
}

// Endpoint returns the URL of the API.
func (s *Server) Endpoint() string { return s.url + "/compute/v1/" }

// Calls returns the number of API calls.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// Change calls f while no request is served.
func (s *Server) Change(f func(s *Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
}

// Modify changes an instance, named ZONE/NAME, as another user or Google itself would.
func (s *Server) Modify(at string, f func(*compute.Instance)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.instances[at])
}

// AddImage adds a ready image to a project.
func (s *Server) AddImage(project, name, family, created string, labels map[string]string) {
	one := image(project, name, family, created, "X86_64")
	one.Labels = labels
	s.Change(func(s *Server) { s.images[project] = append(s.images[project], one) })
}

func image(project, name, family, created, architecture string) *compute.Image {
	return &compute.Image{Name: name, Family: family, CreationTimestamp: created, Status: "READY", Architecture: architecture, DiskSizeGb: 10,
		SelfLink: "https://www.googleapis.com/compute/v1/projects/" + project + "/global/images/" + name}
}

func deprecated(i *compute.Image) *compute.Image {
	i.Deprecated = &compute.DeprecationStatus{State: "DEPRECATED"}
	return i
}

func machineTypes() map[string]compute.MachineType {
	types := map[string]compute.MachineType{}
	for _, t := range []compute.MachineType{{Name: "e2-small", GuestCpus: 2, MemoryMb: 2048}, {Name: "e2-medium", GuestCpus: 2, MemoryMb: 4096},
		{Name: "e2-standard-2", GuestCpus: 2, MemoryMb: 8192}, {Name: "n2-standard-4", GuestCpus: 4, MemoryMb: 16384}} {
		types[t.Name] = t
	}
	return types
}

func zones() []string { return []string{"europe-west1-b", "europe-west1-c", "europe-west1-d"} }

var (
	diskTypes   = []string{"pd-standard", "pd-ssd", "pd-balanced"}
	networks    = []string{"default", "ci-network"}
	subnetworks = []string{"default", "ci-subnet"}
)

// fault is an error response.
type fault struct {
	status          int
	reason, message string
}

func notFound(path string) *fault {
	return &fault{404, "notFound", "The resource '" + path + "' was not found"}
}

func invalid(format string, values ...any) *fault {
	return &fault{400, "invalid", "Invalid value for field " + fmt.Sprintf(format, values...)}
}

func (f *fault) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(f.status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": f.status, "message": f.message,
		"errors": []map[string]string{{"message": f.message, "domain": "global", "reason": f.reason}}}})
}

// call is one request.
type call struct {
	*http.Request
	project, zone, name string
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.token)
	const own = "/compute/v1/projects/{project}/"
	for pattern, route := range map[string]struct {
		permission string
		handle     func(call) (any, *fault)
	}{
		"GET " + own + "regions":                                   {"regions.list", s.listRegions},
		"GET " + own + "regions/{name}":                            {"regions.get", s.getRegion},
		"GET " + own + "zones/{zone}/machineTypes":                 {"machineTypes.list", s.listMachineTypes},
		"GET " + own + "zones/{zone}/machineTypes/{name}":          {"machineTypes.get", s.getMachineType},
		"GET " + own + "zones/{zone}/diskTypes":                    {"diskTypes.list", s.listDiskTypes},
		"GET " + own + "zones/{zone}/diskTypes/{name}":             {"diskTypes.get", s.getDiskType},
		"GET " + own + "global/networks":                           {"networks.list", s.listNetworks},
		"GET " + own + "regions/{name}/subnetworks":                {"subnetworks.list", s.listSubnetworks},
		"GET " + own + "global/images":                             {"images.list", s.listImages},
		"GET " + own + "global/images/{name}":                      {"images.get", s.getImage},
		"GET " + own + "global/images/family/{name}":               {"images.getFromFamily", s.getFamily},
		"GET " + own + "aggregated/instances":                      {"instances.list", s.aggregatedInstances},
		"GET " + own + "aggregated/disks":                          {"disks.list", s.aggregatedDisks},
		"GET " + own + "zones/{zone}/instances":                    {"instances.list", s.listInstances},
		"POST " + own + "zones/{zone}/instances":                   {"instances.create", s.insertInstance},
		"GET " + own + "zones/{zone}/instances/{name}":             {"instances.get", s.getInstance},
		"DELETE " + own + "zones/{zone}/instances/{name}":          {"instances.delete", s.deleteInstance},
		"GET " + own + "zones/{zone}/instances/{name}/serialPort":  {"instances.getSerialPortOutput", s.serialPort},
		"POST " + own + "zones/{zone}/instances/{name}/attachDisk": {"instances.attachDisk", s.attachDisk},
		"GET " + own + "zones/{zone}/disks":                        {"disks.list", s.listDisks},
		"POST " + own + "zones/{zone}/disks":                       {"disks.create", s.insertDisk},
		"GET " + own + "zones/{zone}/disks/{name}":                 {"disks.get", s.getDisk},
		"DELETE " + own + "zones/{zone}/disks/{name}":              {"disks.delete", s.deleteDisk},
		"GET " + own + "zones/{zone}/operations/{name}":            {"zoneOperations.get", s.getOperation},
		"POST " + own + "zones/{zone}/operations/{name}/wait":      {"zoneOperations.get", s.waitOperation},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, route.permission, route.handle) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { notFound(r.Method + " " + r.URL.Path).write(w) })
	return mux
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, permission string, handle func(call) (any, *fault)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	c := call{r, r.PathValue("project"), r.PathValue("zone"), r.PathValue("name")}
	answer, f := any(nil), s.check(c, "compute."+permission)
	if f == nil {
		answer, f = handle(c)
	}
	if f != nil {
		f.write(w)
		return
	}
	data, f := masked(answer, r.URL.Query().Get("fields"))
	if f != nil {
		f.write(w)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	_, _ = w.Write(data)
}

func (s *Server) check(c call, permission string) *fault {
	if c.Header.Get("Authorization") != "Bearer "+s.accessTokenNow() {
		return &fault{401, "authError", "Request had invalid authentication credentials."}
	}
	if s.images[c.project] == nil || c.project != Project && !strings.Contains(c.URL.Path, "/images") {
		return notFound("projects/" + c.project)
	}
	if slices.Contains(s.Denied, permission) {
		return &fault{403, "forbidden", fmt.Sprintf("Required '%s' permission for 'projects/%s'", permission, c.project)}
	}
	if c.zone != "" && !slices.Contains(zones(), c.zone) {
		return notFound("projects/" + c.project + "/zones/" + c.zone)
	}
	return nil
}

func items[T any](list []T) map[string]any { return map[string]any{"items": list} }

func named(names []string) map[string]any {
	var list []map[string]string
	for _, name := range names {
		list = append(list, map[string]string{"name": name})
	}
	return items(list)
}

func (s *Server) listRegions(call) (any, *fault) { return named([]string{Region, "europe-west3"}), nil }

func (s *Server) getRegion(c call) (any, *fault) {
	if c.name != Region {
		return nil, notFound("projects/" + c.project + "/regions/" + c.name)
	}
	r := &compute.Region{Name: Region, Status: "UP"}
	for _, zone := range zones() {
		r.Zones = append(r.Zones, "https://www.googleapis.com/compute/v1/projects/"+c.project+"/zones/"+zone)
	}
	usage := s.usage()
	for _, metric := range slices.Sorted(maps.Keys(s.Limits)) {
		r.Quotas = append(r.Quotas, &compute.Quota{Metric: metric, Limit: s.Limits[metric], Usage: usage[metric], ForceSendFields: []string{"Limit", "Usage"}})
	}
	return r, nil
}

// usage returns the use of the quotas.
func (s *Server) usage() map[string]float64 {
	used := map[string]float64{}
	for _, i := range s.instances {
		for metric, n := range s.demand(i) {
			used[metric] += n
		}
	}
	return used
}

func (s *Server) demand(i *compute.Instance) map[string]float64 {
	name := last(i.MachineType)
	metric := "CPUS"
	if strings.HasPrefix(name, "n2-") {
		metric = "N2_CPUS"
	}
	if i.Scheduling != nil && i.Scheduling.ProvisioningModel == "SPOT" && s.Limits["PREEMPTIBLE_CPUS"] > 0 {
		metric = "PREEMPTIBLE_CPUS"
	}
	addresses := 0
	for _, n := range i.NetworkInterfaces {
		addresses += len(n.AccessConfigs)
	}
	return map[string]float64{"INSTANCES": 1, metric: float64(machineTypes()[name].GuestCpus), "IN_USE_ADDRESSES": float64(addresses)}
}

func last(url string) string { return url[strings.LastIndexByte(url, '/')+1:] }

func (s *Server) listMachineTypes(call) (any, *fault) {
	return named(slices.Sorted(maps.Keys(machineTypes()))), nil
}

// hasType reports whether a zone has a machine type: n2-standard-4 exists in one zone only.
func hasType(zone, name string) bool {
	_, ok := machineTypes()[name]
	return ok && (zone == Zone || !strings.HasPrefix(name, "n2-"))
}

func (s *Server) getMachineType(c call) (any, *fault) {
	if !hasType(c.zone, c.name) {
		return nil, notFound("projects/" + c.project + "/zones/" + c.zone + "/machineTypes/" + c.name)
	}
	t := machineTypes()[c.name]
	return &t, nil
}

func (s *Server) listDiskTypes(call) (any, *fault) { return named(diskTypes), nil }

func (s *Server) getDiskType(c call) (any, *fault) {
	if !slices.Contains(diskTypes, c.name) {
		return nil, notFound("projects/" + c.project + "/zones/" + c.zone + "/diskTypes/" + c.name)
	}
	return &compute.DiskType{Name: c.name}, nil
}

func (s *Server) listNetworks(call) (any, *fault) { return named(networks), nil }

func (s *Server) listSubnetworks(call) (any, *fault) { return named(subnetworks), nil }

func (s *Server) listImages(c call) (any, *fault) { return page(c, s.images[c.project]) }

func (s *Server) getImage(c call) (any, *fault) {
	if !validName.MatchString(c.name) {
		return nil, invalid("'image': '%s'. Must be a match of regex '%s'", c.name, validName)
	}
	for _, i := range s.images[c.project] {
		if i.Name == c.name {
			return i, nil
		}
	}
	return nil, notFound("projects/" + c.project + "/global/images/" + c.name)
}

func (s *Server) getFamily(c call) (any, *fault) {
	var newest *compute.Image
	for _, i := range s.images[c.project] {
		if i.Family == c.name && i.Deprecated == nil && (newest == nil || i.CreationTimestamp > newest.CreationTimestamp) {
			newest = i
		}
	}
	if newest == nil {
		return nil, notFound("projects/" + c.project + "/global/images/family/" + c.name)
	}
	return newest, nil
}

// page returns one page of a list.
func page[T any](c call, all []T) (map[string]any, *fault) {
	size, start := 500, 0
	if text := c.URL.Query().Get("maxResults"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > 500 {
			return nil, invalid("'maxResults': '%s'", text)
		}
		size = n
	}
	if token := c.URL.Query().Get("pageToken"); token != "" {
		n, err := strconv.Atoi(token)
		if err != nil || n > len(all) {
			return nil, invalid("'pageToken': '%s'", token)
		}
		start = n
	}
	end := min(start+size, len(all))
	answer := items(all[start:end])
	if end < len(all) {
		answer["nextPageToken"] = strconv.Itoa(end)
	}
	return answer, nil
}

var (
	validName  = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	validKey   = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)
	validLabel = regexp.MustCompile(`^[a-z0-9_-]{0,63}$`)
	validMeta  = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
)

func checkLabels(labels map[string]string) *fault {
	if len(labels) > 64 {
		return invalid("'resource.labels': more than 64")
	}
	for key, value := range labels {
		if !validKey.MatchString(key) || !validLabel.MatchString(value) {
			return invalid("'resource.labels': '%s=%s'", key, value)
		}
	}
	return nil
}

// operation returns a new operation.
func (s *Server) operation(c call, kind, target string) *compute.Operation {
	s.serial++
	op := &compute.Operation{Name: fmt.Sprintf("operation-%d", s.serial), OperationType: kind, Status: "RUNNING", TargetLink: target,
		Zone: "https://www.googleapis.com/compute/v1/projects/" + c.project + "/zones/" + c.zone}
	s.operations[c.zone+"/"+op.Name] = op
	return op
}

func now() string { return time.Now().Format("2006-01-02T15:04:05.000-07:00") }
