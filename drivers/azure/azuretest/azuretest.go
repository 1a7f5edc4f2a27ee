// Package azuretest is an Azure for tests: the generated fake servers of azure-sdk-for-go for Microsoft.Compute, which decode
// and check requests as Microsoft describes them, with behavior and state; and small servers for what the driver calls
// without a generated client: resource groups, Microsoft.Network, the pages of disks and the login service.
package azuretest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v7/fake"
)

// What the cloud has from the start.
const (
	Subscription = "11111111-2222-4333-8444-555555555555"
	Group        = "ci"
	Location     = "westeurope"
	Network      = "lab"
	Subnet       = "default"
	Tenant       = "tenant"
	Client       = "client"
	Secret       = "secret-of-the-test"
	Marketplace  = "Debian:debian-12:12-gen2:latest"
	// Endpoint is the address of the Resource Manager in the process of the test.
	Endpoint = "https://azure.test"
)

// Cloud is a subscription with one resource group. It is an HTTP handler and a transport.
type Cloud struct {
	// Delay is the time in which virtual machines start and end.
	Delay time.Duration
	// PageSize is the number of objects in a page of a list; 0 means all.
	PageSize int

	compute *fake.ServerFactoryTransport

	mu          sync.Mutex
	endpoint    string // all fields below are guarded by mu
	vms         map[string]*machine
	disks       map[string]*armcompute.Disk
	images      map[string]*armcompute.Image
	nics        map[string]*object
	ips         map[string]*object
	pages       map[string][]byte // of disks and images
	calls       map[string]int
	answers     []answer
	started     map[string]string   // API by path, for polls
	refusals    map[string]*refusal // by size
	withdrawals int                 // of access tokens
	serial      int
	maxCores    int64
}

// answer replaces the responses to calls of one API.
type answer struct {
	api, code, message string
	status, times      int
	after              bool // the call is executed and its response is lost
}

// New returns a cloud.
func New() *Cloud {
	c := &Cloud{Delay: 20 * time.Millisecond, endpoint: Endpoint, vms: map[string]*machine{}, disks: map[string]*armcompute.Disk{}, images: map[string]*armcompute.Image{},
		nics: map[string]*object{}, ips: map[string]*object{}, pages: map[string][]byte{}, calls: map[string]int{}, started: map[string]string{}, maxCores: 100}
	servers := c.servers()
	c.compute = fake.NewServerFactoryTransport(&servers)
	return c
}

// Serve starts an HTTPS server for other processes and returns its URL. Its certificate is written to a file.
func (c *Cloud) Serve(wrap func(http.Handler) http.Handler) *httptest.Server {
	server := httptest.NewTLSServer(wrap(c))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endpoint = server.URL
	return server
}

// Fail replaces the responses to the next calls of an API.
func (c *Cloud) Fail(api string, times, status int, code, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, answer{api: api, times: times, status: status, code: code, message: message})
}

// LoseNext executes the next call of an API and loses its response.
func (c *Cloud) LoseNext(api string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, answer{api: api, times: 1, after: true})
}

// Calls returns the calls by API, without those of the login service.
func (c *Cloud) Calls() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	copied := map[string]int{}
	for api, n := range c.calls {
		copied[api] = n
	}
	return copied
}

// RoundTrip implements http.RoundTripper, for tests in this process.
func (c *Cloud) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := context.Cause(r.Context()); err != nil {
		return nil, err
	}
	recorder := httptest.NewRecorder()
	request := r.Clone(r.Context())
	if request.Body == nil {
		request.Body = http.NoBody
	}
	defer func() {
		if r.Body != nil {
			r.Body.Close()
		}
	}()
	if lost := c.serve(recorder, request); lost {
		return nil, io.ErrUnexpectedEOF
	}
	response := recorder.Result()
	response.Request = r
	return response, nil
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if lost := c.serve(w, r); lost {
		panic(http.ErrAbortHandler)
	}
}

func (c *Cloud) serve(w http.ResponseWriter, r *http.Request) (lost bool) {
	if r.URL.Host == "" {
		r.URL.Scheme, r.URL.Host = "https", r.Host
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	switch api := c.API(r); {
	case api == "":
		fail(w, http.StatusNotFound, "NotFound", "the test has no "+r.Method+" "+r.URL.Path)
	case strings.HasPrefix(api, "login"):
		c.login(w, r)
	default:
		c.calls[api]++
		return c.authorized(w, r, api)
	}
	return false
}

// authorized serves a call unless a test has its own response.
func (c *Cloud) authorized(w http.ResponseWriter, r *http.Request, api string) (lost bool) {
	if !strings.HasPrefix(api, "storage") && r.Header.Get("Authorization") != "Bearer "+c.token() {
		fail(w, http.StatusUnauthorized, "InvalidAuthenticationToken", "The access token is invalid.")
		return false
	}
	for i := range c.answers {
		a := &c.answers[i]
		if a.api != api || a.times == 0 {
			continue
		}
		a.times--
		if !a.after {
			fail(w, a.status, a.code, a.message)
			return false
		}
		c.route(httptest.NewRecorder(), r, api)
		return true
	}
	c.route(w, r, api)
	return false
}

func (c *Cloud) route(w http.ResponseWriter, r *http.Request, api string) {
	switch {
	case strings.HasPrefix(api, "storage"):
		c.storage(w, r)
	case strings.HasPrefix(api, "network"), strings.HasPrefix(api, "group"):
		c.resource(w, r, api)
	default:
		if r.Method != http.MethodGet {
			c.started[r.URL.Path] = api
		}
		ctx := context.WithoutCancel(r.Context()) // Do would return and leave a call that changes the state of the library
		response, err := c.compute.Do(r.WithContext(context.WithValue(ctx, runtime.CtxAPINameKey{}, api)))
		var refusal *azcore.ResponseError
		if errors.As(err, &refusal) {
			fail(w, refusal.StatusCode, refusal.ErrorCode, "The request "+api+" failed.")
			return
		}
		if err != nil {
			fail(w, http.StatusInternalServerError, "Fake", err.Error())
			return
		}
		defer response.Body.Close()
		for name, values := range response.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
	}
}

func fail(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Ms-Error-Code", code)
	respond(w, status, map[string]any{"error": map[string]string{"code": code, "message": message}})
}

func respond(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// routes map methods and paths to APIs, by the names of the SDK where it has a client.
var routes = []struct {
	method, api string
	path        *regexp.Regexp
}{
	{"", "login", regexp.MustCompile(`^/[^/]+/(oauth2/v2\.0/token|v2\.0/\.well-known/openid-configuration)$|^/common/discovery/instance$`)},
	{"PUT", "storage.PutPage", regexp.MustCompile(`^/blob/`)},
	{"GET", "storage.Get", regexp.MustCompile(`^/console/`)},
	{"GET", "groups.List", regexp.MustCompile(`^/subscriptions/[^/]+/resourcegroups$`)},
	{"GET", "group.Get", regexp.MustCompile(`^/subscriptions/[^/]+/resourcegroups/[^/]+$`)},
	{"GET", "group.Locations", regexp.MustCompile(`^/subscriptions/[^/]+/locations$`)},
	{"GET", "network.List", regexp.MustCompile(`/microsoft.network/\w+$`)},
	{"GET", "network.Get", regexp.MustCompile(`/microsoft.network/\w+/.+`)},
	{"PATCH", "network.UpdateTags", regexp.MustCompile(`/microsoft.network/\w+/[^/]+$`)},
	{"DELETE", "network.Delete", regexp.MustCompile(`/microsoft.network/\w+/[^/]+$`)},
	{"GET", "ResourceSKUsClient.NewListPager", regexp.MustCompile(`/microsoft.compute/skus$`)},
	{"GET", "UsageClient.NewListPager", regexp.MustCompile(`/usages$`)},
	{"GET", "VirtualMachineImagesClient.List", regexp.MustCompile(`/publishers/.*/skus/[^/]+/versions$`)},
	{"GET", "VirtualMachineImagesClient.ListSKUs", regexp.MustCompile(`/publishers/.*/skus$`)},
	{"GET", "GalleryImageVersionsClient.Get", regexp.MustCompile(`/microsoft.compute/galleries/[^/]+/images/[^/]+/versions/[^/]+$`)},
	{"GET", "SharedGalleryImageVersionsClient.Get", regexp.MustCompile(`/sharedgalleries/[^/]+/images/[^/]+/versions/[^/]+$`)},
	{"GET", "CommunityGalleryImageVersionsClient.Get", regexp.MustCompile(`/communitygalleries/[^/]+/images/[^/]+/versions/[^/]+$`)},
	{"GET", "VirtualMachinesClient.NewListAllPager", regexp.MustCompile(`^/subscriptions/[^/]+/providers/microsoft.compute/virtualmachines$`)},
	{"GET", "VirtualMachinesClient.NewListPager", regexp.MustCompile(`/virtualmachines$`)},
	{"GET", "VirtualMachinesClient.InstanceView", regexp.MustCompile(`/virtualmachines/[^/]+/instanceview$`)},
	{"POST", "VirtualMachinesClient.RetrieveBootDiagnosticsData", regexp.MustCompile(`/retrievebootdiagnosticsdata$`)},
	{"PUT", "VirtualMachinesClient.BeginCreateOrUpdate", regexp.MustCompile(`/virtualmachines/[^/]+$`)},
	{"GET", "VirtualMachinesClient.Get", regexp.MustCompile(`/virtualmachines/[^/]+$`)},
	{"PATCH", "VirtualMachinesClient.BeginUpdate", regexp.MustCompile(`/virtualmachines/[^/]+$`)},
	{"DELETE", "VirtualMachinesClient.BeginDelete", regexp.MustCompile(`/virtualmachines/[^/]+$`)},
	{"GET", "DisksClient.NewListByResourceGroupPager", regexp.MustCompile(`/disks$`)},
	{"POST", "DisksClient.BeginGrantAccess", regexp.MustCompile(`/begingetaccess$`)},
	{"POST", "DisksClient.BeginRevokeAccess", regexp.MustCompile(`/endgetaccess$`)},
	{"PUT", "DisksClient.BeginCreateOrUpdate", regexp.MustCompile(`/disks/[^/]+$`)},
	{"GET", "DisksClient.Get", regexp.MustCompile(`/disks/[^/]+$`)},
	{"PATCH", "DisksClient.BeginUpdate", regexp.MustCompile(`/disks/[^/]+$`)},
	{"DELETE", "DisksClient.BeginDelete", regexp.MustCompile(`/disks/[^/]+$`)},
	{"GET", "ImagesClient.NewListByResourceGroupPager", regexp.MustCompile(`/images$`)},
	{"PUT", "ImagesClient.BeginCreateOrUpdate", regexp.MustCompile(`/images/[^/]+$`)},
	{"GET", "ImagesClient.Get", regexp.MustCompile(`/images/[^/]+$`)},
	{"PATCH", "ImagesClient.BeginUpdate", regexp.MustCompile(`/images/[^/]+$`)},
	{"DELETE", "ImagesClient.BeginDelete", regexp.MustCompile(`/images/[^/]+$`)},
}

// fakeSuffix ends the paths of pages and polls of the SDK's fakes.
var fakeSuffix = regexp.MustCompile(`/fake_page_\d+$|/get/fake/status$`)

// API returns the API of a request, or "" if the cloud has none. It must not run at the same time as a request.
func (c *Cloud) API(r *http.Request) string {
	path := fakeSuffix.ReplaceAllString(r.URL.Path, "")
	if strings.HasSuffix(r.URL.Path, "/get/fake/status") {
		return c.started[path]
	}
	return APIOf(r.Method, path)
}

// APIOf returns the API of a method and path.
func APIOf(method, path string) string {
	for _, route := range routes {
		if (route.method == "" || route.method == method) && route.path.MatchString(strings.ToLower(path)) {
			return route.api
		}
	}
	return ""
}

// token returns the only valid access token. The caller holds mu.
func (c *Cloud) token() string { return fmt.Sprint("token-of-the-test", c.withdrawals) }

// Token returns the access token that is valid now.
func (c *Cloud) Token() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token()
}

// Withdraw makes all access tokens invalid.
func (c *Cloud) Withdraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withdrawals++
}

// login is the service at AZURE_AUTHORITY_HOST.
func (c *Cloud) login(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		base := c.endpoint + "/" + Tenant
		respond(w, http.StatusOK, map[string]string{"issuer": base + "/v2.0", "authorization_endpoint": base + "/oauth2/v2.0/authorize", "token_endpoint": base + "/oauth2/v2.0/token"})
		return
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	form, _ := url.ParseQuery(string(body))
	if form.Get("client_id") != Client || form.Get("client_secret") != Secret {
		respond(w, http.StatusUnauthorized, map[string]any{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."})
		return
	}
	respond(w, http.StatusOK, map[string]any{"token_type": "Bearer", "expires_in": 3600, "access_token": c.token()})
}

// next returns a number that no other object has.
func (c *Cloud) next() int {
	c.serial++
	return c.serial
}

// ID returns the ID of an object in the resource group, such as ID("Microsoft.Compute/disks", "a").
func ID(kind, name string) string {
	return fmt.Sprintf("/subscriptions/%s/resourceGroups/%s/providers/%s/%s", Subscription, Group, kind, name)
}
