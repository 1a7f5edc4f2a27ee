//go:build integration

package integration

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"

	"github.com/npctl/npctl/internal/testutil"
)

// api makes plain calls as one user of the lab. It does not use npctl's driver.
type api struct {
	provider *gophercloud.ProviderClient
	identity string
}

func login(t *testing.T, authURL, user, project string) *api {
	t.Helper()
	client, err := openstack.NewClient(authURL)
	testutil.Must(t, err)
	err = openstack.Authenticate(t.Context(), client, gophercloud.AuthOptions{IdentityEndpoint: authURL, Username: user, Password: password,
		TenantName: project, DomainName: "Default", AllowReauth: true})
	if err != nil {
		t.Fatalf("log in as %s: %v", user, err)
	}
	return &api{client, strings.TrimSuffix(authURL, "/") + "/"}
}

// The types of the services in the catalog.
const (
	identity = "identity"
	compute  = "compute"
	network  = "network"
	image    = "image"
	volume   = "volumev3"
)

// url returns the endpoint of a service, including the version.
func (a *api) url(service string) (string, error) {
	if service == identity {
		return a.identity, nil
	}
	base, err := a.provider.EndpointLocator(gophercloud.EndpointOpts{Type: service, Aliases: []string{service},
		Region: "RegionOne", Availability: gophercloud.AvailabilityPublic})
	version := map[string]string{network: "v2.0/", image: "v2/"}[service]
	return base + version, err
}

// object is a JSON object of a response.
type object = map[string]any

// try makes a call and returns the status and the response.
func (a *api) try(ctx context.Context, method, service, path string, body any) (int, object, error) {
	base, err := a.url(service)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, testutil.Patience)
	defer cancel()
	answer := object{}
	opts := &gophercloud.RequestOpts{JSONBody: body, OkCodes: []int{200, 201, 202, 204, 404, 409}}
	if service == compute {
		opts.MoreHeaders = map[string]string{"X-OpenStack-Nova-API-Version": "2.79"}
	}
	if method != http.MethodDelete && (method != http.MethodPut || service != identity) { // these calls return no body
		opts.JSONResponse = &answer
	}
	resp, err := a.provider.Request(ctx, method, base+path, opts)
	if err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, answer, nil
}

// do is like try and fails the test unless the call succeeds. A deletion may return 404.
func (a *api) do(t *testing.T, method, service, path string, body any) object {
	t.Helper()
	status, answer, err := a.try(context.WithoutCancel(t.Context()), method, service, path, body)
	if err != nil || status >= 300 && (method != http.MethodDelete || status != 404) {
		t.Fatalf("%s %s %s: %d %v %v", method, service, path, status, answer, err)
	}
	return answer
}

// list returns the objects of a listing.
func (a *api) list(t *testing.T, service, path, key string) []object {
	t.Helper()
	var all []object
	for _, o := range a.do(t, http.MethodGet, service, path, nil)[key].([]any) {
		all = append(all, o.(object))
	}
	return all
}

// make creates an object and returns it.
func (a *api) make(t *testing.T, service, path, key string, body object) object {
	t.Helper()
	return a.do(t, http.MethodPost, service, path, object{key: body})[key].(object)
}

// find returns the object with the given name in a listing, and fails the test if there is none.
func (a *api) find(t *testing.T, service, path, key, name string) object {
	t.Helper()
	for _, o := range a.list(t, service, path, key) {
		if o["name"] == name {
			return o
		}
	}
	t.Fatalf("there is no %s in %s of %s", name, path, service)
	return nil
}

// eventually waits as long as real services may take.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	testutil.Await(t, what, yes)
}
