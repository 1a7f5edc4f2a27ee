//go:build integration

package emulator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/npctl/npctl/internal/testutil"
)

// The same calls are made to the emulator and to the OpenStack that test/openstack/up.sh starts; status codes, headers
// and the keys and types of answers must be the same. Project "other" of that lab is used, so that tests in npctl's own
// are not disturbed.

// side is one of the two clouds.
type side struct {
	name      string
	client    *gophercloud.ProviderClient
	transport http.RoundTripper
	roots     map[service]string
	values    map[string]string // what earlier steps found, by name
}

// step is one call. In path and body {x} stands for a value found before.
type step struct {
	service service
	method  string
	path    string
	body    string
	micro   string // compute's microversion
	kind    string // of the body's content
	capture string // name=path.to.value in the answer
	until   string // path=value: repeated until the answer has it
	gone    bool   // repeated until 404
	token   string // instead of the right one
	loose   bool   // only the status is compared
}

func steps() []step {
	const server = `{"server":{"name":"shape","imageRef":"{image}","flavorRef":"{flavor}","networks":[{"uuid":"{network}"}],"metadata":{"a":"b"}%s}}`
	return []step{
		{service: identity, method: "GET", path: ""},
		{service: identity, method: "GET", path: "/v3"},
		{service: identity, method: "GET", path: "/v3/auth/projects"},
		{service: identity, method: "GET", path: "/v3/auth/projects", token: "garbage"},
		{service: identity, method: "POST", path: "/v3/auth/tokens", body: `{"auth":{"identity":{"methods":["password"],"password":{"user":{"name":"other","domain":{"name":"Default"},"password":"wrong"}}}}}`, token: "none"},
		{service: compute, method: "GET", path: "", token: "none"},
		{service: compute, method: "GET", path: "/v2.1", token: "none"},
		{service: compute, method: "GET", path: "/v2.1/flavors/detail"},
		{service: compute, method: "GET", path: "/v2.1/flavors/detail", micro: "2.93"},
		{service: compute, method: "GET", path: "/v2.1/flavors"},
		{service: compute, method: "GET", path: "/v2.1/flavors/{flavor}", micro: "2.61"},
		{service: compute, method: "GET", path: "/v2.1/flavors/nosuch"},
		{service: compute, method: "GET", path: "/v2.1/flavors", token: "garbage"},
		{service: compute, method: "GET", path: "/v2.1/flavors", micro: "2.999"},
		{service: compute, method: "GET", path: "/v2.1/limits"},
		{service: compute, method: "GET", path: "/v2.1/limits", micro: "2.93"},
		{service: compute, method: "GET", path: "/v2.1/os-quota-sets/{project}"},
		{service: compute, method: "GET", path: "/v2.1/os-quota-sets/{project}", micro: "2.93"},
		{service: compute, method: "GET", path: "/v2.1/os-availability-zone"},
		{service: compute, method: "GET", path: "/v2.1/os-availability-zone/detail"},
		{service: compute, method: "GET", path: "/v2.1/os-keypairs", micro: "2.93"},
		{service: compute, method: "POST", path: "/v2.1/os-keypairs", micro: "2.93", body: `{"keypair":{"name":"shape","type":"ssh","public_key":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl x"}}`},
		{service: compute, method: "GET", path: "/v2.1/os-keypairs", micro: "2.93"},
		{service: compute, method: "DELETE", path: "/v2.1/os-keypairs/shape", micro: "2.93"},

		{service: neutron, method: "GET", path: ""},
		{service: neutron, method: "GET", path: "/v2.0/networks?name=shared", capture: "network=networks.0.id"},
		{service: neutron, method: "GET", path: "/v2.0/networks?router:external=true", capture: "external=networks.0.id"},
		{service: neutron, method: "GET", path: "/v2.0/networks/{network}"},
		{service: neutron, method: "GET", path: "/v2.0/networks/nosuch"},
		{service: neutron, method: "GET", path: "/v2.0/networks", token: "garbage"},
		{service: neutron, method: "GET", path: "/v2.0/networks?limit=1", loose: true},
		{service: neutron, method: "GET", path: "/v2.0/subnets?network_id={network}"},
		{service: neutron, method: "GET", path: "/v2.0/security-groups"},
		{service: neutron, method: "GET", path: "/v2.0/quotas/{project}"},
		{service: neutron, method: "GET", path: "/v2.0/quotas/{project}/details"},
		{service: neutron, method: "GET", path: "/v2.0/extensions"},
		{service: neutron, method: "POST", path: "/v2.0/ports", body: `{"port":{"network_id":"{network}","name":"shape","description":"x"}}`, capture: "port=port.id"},
		{service: neutron, method: "GET", path: "/v2.0/ports?name=shape"},
		{service: neutron, method: "GET", path: "/v2.0/ports/{port}"},
		{service: neutron, method: "POST", path: "/v2.0/ports", body: `{"port":{"network_id":"00000000-0000-4000-8000-00000000dead"}}`},
		{service: neutron, method: "DELETE", path: "/v2.0/ports/{port}"},
		{service: neutron, method: "DELETE", path: "/v2.0/ports/{port}"},

		{service: imaging, method: "GET", path: "", token: "none"},
		{service: imaging, method: "GET", path: "/v2/images", token: "garbage"},
		{service: imaging, method: "POST", path: "/v2/images", body: `{"name":"shape","disk_format":"raw","container_format":"bare","tags":["t"],"npctl_x":"y"}`, capture: "image=id"},
		{service: imaging, method: "POST", path: "/v2/images", body: `{"name":"shape","disk_format":"nosuch","container_format":"bare"}`},
		{service: imaging, method: "POST", path: "/v2/images", body: `{"name":"shape","visibility":"public"}`},
		{service: imaging, method: "POST", path: "/v2/images", body: `{"name":"shape","size":1}`},
		{service: imaging, method: "GET", path: "/v2/images/{image}/file"},
		{service: imaging, method: "PUT", path: "/v2/images/{image}/file", body: "xxxx", kind: "text/plain"},
		{service: compute, method: "POST", path: "/v2.1/servers", body: fmt.Sprintf(server, "")},
		{service: imaging, method: "PUT", path: "/v2/images/{image}/file", body: "xxxx", kind: "application/octet-stream"},
		{service: imaging, method: "PUT", path: "/v2/images/{image}/file", body: "xxxx", kind: "application/octet-stream"},
		{service: imaging, method: "GET", path: "/v2/images/{image}"},
		{service: imaging, method: "GET", path: "/v2/images?name=shape&limit=1"},
		{service: imaging, method: "GET", path: "/v2/images?tag=nosuchtag&sort=name:asc"},
		{service: imaging, method: "GET", path: "/v2/images?sort_key=nosuch"},
		{service: imaging, method: "GET", path: "/v2/images?visibility=nosuch"},
		{service: imaging, method: "GET", path: "/v2/images?marker=nosuch"},
		{service: imaging, method: "GET", path: "/v2/images?npctl_x=y"},
		{service: imaging, method: "PATCH", path: "/v2/images/{image}", body: `[{"op":"add","path":"/z","value":"1"},{"op":"replace","path":"/name","value":"shape2"}]`, kind: patchV21},
		{service: imaging, method: "PATCH", path: "/v2/images/{image}", body: `[{"op":"replace","path":"/nosuch","value":"1"}]`, kind: patchV21},
		{service: imaging, method: "PATCH", path: "/v2/images/{image}", body: `[{"op":"remove","path":"/nosuch"}]`, kind: patchV21},
		{service: imaging, method: "PATCH", path: "/v2/images/{image}", body: `[{"op":"replace","path":"/status","value":"x"}]`, kind: patchV21},
		{service: imaging, method: "PATCH", path: "/v2/images/{image}", body: `[{"op":"remove","path":"/name"}]`, kind: patchV21},
		{service: imaging, method: "PATCH", path: "/v2/images/{image}", body: `[]`, kind: "application/json"},
		{service: imaging, method: "PUT", path: "/v2/images/{image}/tags/x"},
		{service: imaging, method: "GET", path: "/v2/images/nosuch"},
		{service: imaging, method: "DELETE", path: "/v2/images/nosuch"},
		{service: imaging, method: "PATCH", path: "/v2/images/{image}", body: `[{"op":"replace","path":"/protected","value":true}]`, kind: patchV21},
		{service: imaging, method: "DELETE", path: "/v2/images/{image}"},
		{service: imaging, method: "PATCH", path: "/v2/images/{image}", body: `[{"op":"replace","path":"/protected","value":false}]`, kind: patchV21},

		{service: compute, method: "POST", path: "/v2.1/servers", body: fmt.Sprintf(server, `,"nosuch":1`)},
		{service: compute, method: "POST", path: "/v2.1/servers", body: fmt.Sprintf(server, `,"availability_zone":"mars"`)},
		{service: compute, method: "POST", path: "/v2.1/servers", body: fmt.Sprintf(server, `,"key_name":"nosuch"`)},
		{service: compute, method: "POST", path: "/v2.1/servers", body: fmt.Sprintf(server, `,"min_count":5000`)},
		{service: compute, method: "POST", path: "/v2.1/servers", body: fmt.Sprintf(server, `,"security_groups":[{"name":"nosuch"}]`)},
		{service: compute, method: "POST", path: "/v2.1/servers", body: fmt.Sprintf(server, `,"user_data":"%%%"`)},
		{service: compute, method: "POST", path: "/v2.1/servers", body: strings.Replace(fmt.Sprintf(server, ""), "{flavor}", "nosuch", 1)},
		{service: compute, method: "POST", path: "/v2.1/servers", body: strings.Replace(fmt.Sprintf(server, ""), "{image}", "00000000-0000-4000-8000-00000000dead", 1)},
		{service: compute, method: "POST", path: "/v2.1/servers", body: strings.Replace(fmt.Sprintf(server, ""), "{network}", "00000000-0000-4000-8000-00000000dead", 1)},
		{service: compute, method: "POST", path: "/v2.1/servers", body: strings.Replace(fmt.Sprintf(server, ""), "{network}", "{external}", 1)},
		{service: compute, method: "POST", path: "/v2.1/servers", body: `{"server":{"name":"x","flavorRef":"1"}}`, micro: "2.93"},
		{service: compute, method: "POST", path: "/v2.1/servers", body: fmt.Sprintf(server, `,"tags":["x"]`), micro: "2.93", capture: "server=server.id"},
		{service: compute, method: "GET", path: "/v2.1/servers/{server}", micro: "2.93", until: "server.status=ACTIVE", loose: true},
		{service: compute, method: "GET", path: "/v2.1/servers/{server}"},
		{service: compute, method: "GET", path: "/v2.1/servers/{server}", micro: "2.93"},
		{service: compute, method: "GET", path: "/v2.1/servers/detail?name=shape&status=ACTIVE"},
		{service: compute, method: "GET", path: "/v2.1/servers/detail?tags=x&limit=1", micro: "2.93"},
		{service: compute, method: "GET", path: "/v2.1/servers/detail?tags=x", micro: "2.93"},
		{service: compute, method: "GET", path: "/v2.1/servers?name=shape"},
		{service: compute, method: "GET", path: "/v2.1/servers?marker=nosuch"},
		{service: compute, method: "GET", path: "/v2.1/servers/detail?all_tenants=1"},
		{service: compute, method: "GET", path: "/v2.1/servers/detail?limit=x"},
		{service: compute, method: "GET", path: "/v2.1/servers/nosuch"},
		{service: compute, method: "POST", path: "/v2.1/servers/{server}/metadata", body: `{"metadata":{"c":"d"}}`},
		{service: compute, method: "DELETE", path: "/v2.1/servers/{server}/metadata/nosuch"},
		{service: compute, method: "POST", path: "/v2.1/servers/{server}/action", body: `{"os-getConsoleOutput":{"length":10}}`},
		{service: compute, method: "POST", path: "/v2.1/servers/{server}/action", body: `{"nosuch":null}`},
		{service: compute, method: "POST", path: "/v2.1/servers/{server}/action", body: `{"os-start":null}`},
		{service: compute, method: "POST", path: "/v2.1/servers/nosuch/action", body: `{"os-start":null}`},
		{service: neutron, method: "GET", path: "/v2.0/ports?device_id={server}", capture: "nic=ports.0.id"},
		{service: neutron, method: "POST", path: "/v2.0/floatingips", body: `{"floatingip":{"floating_network_id":"{external}","description":"shape"}}`, capture: "fip=floatingip.id"},
		{service: neutron, method: "POST", path: "/v2.0/floatingips", body: `{"floatingip":{"floating_network_id":"{network}"}}`},
		{service: neutron, method: "GET", path: "/v2.0/floatingips?description=shape"},
		{service: neutron, method: "GET", path: "/v2.0/floatingips/{fip}"},
		{service: neutron, method: "GET", path: "/v2.0/floatingips/nosuch"},
		{service: neutron, method: "PUT", path: "/v2.0/floatingips/{fip}", body: `{"floatingip":{"port_id":null}}`},
		{service: neutron, method: "DELETE", path: "/v2.0/floatingips/{fip}"},
		{service: neutron, method: "DELETE", path: "/v2.0/floatingips/{fip}"},
		{service: compute, method: "DELETE", path: "/v2.1/servers/{server}"},
		{service: compute, method: "GET", path: "/v2.1/servers/{server}", gone: true},
		{service: compute, method: "DELETE", path: "/v2.1/servers/{server}"},

		{service: compute, method: "POST", path: "/v2.1/servers", body: strings.Replace(fmt.Sprintf(server, ""), "{flavor}", "{toobig}", 1), capture: "broken=server.id"},
		{service: compute, method: "GET", path: "/v2.1/servers/{broken}", until: "server.status=ERROR"},
		{service: compute, method: "DELETE", path: "/v2.1/servers/{broken}"},
		{service: compute, method: "GET", path: "/v2.1/servers/{broken}", gone: true},

		{service: cinder, method: "GET", path: "/v3", loose: true, token: "none"},
		{service: cinder, method: "GET", path: "/v3/{project}/limits"},
		{service: cinder, method: "GET", path: "/v3/{project}/os-quota-sets/{project}", loose: true},
		{service: cinder, method: "GET", path: "/v3/{project}/volumes/detail"},
		{service: cinder, method: "POST", path: "/v3/{project}/volumes", body: `{"volume":{"size":1,"name":"shape","metadata":{"a":"b"}}}`, capture: "volume=volume.id"},
		{service: cinder, method: "GET", path: "/v3/{project}/volumes/{volume}", until: "volume.status=available"},
		{service: cinder, method: "GET", path: "/v3/{project}/volumes/detail?limit=1"},
		{service: cinder, method: "GET", path: "/v3/{project}/volumes/detail?name=shape"},
		{service: cinder, method: "GET", path: "/v3/{project}/volumes/nosuch"},
		{service: cinder, method: "POST", path: "/v3/{project}/volumes", body: `{"volume":{"size":1000000}}`},
		{service: cinder, method: "GET", path: "/v3/{project}/volumes/detail", token: "garbage"},
		{service: cinder, method: "DELETE", path: "/v3/{project}/volumes/{volume}"},
		{service: cinder, method: "GET", path: "/v3/{project}/volumes/{volume}", gone: true},
		{service: imaging, method: "DELETE", path: "/v2/images/{image}"},
		{service: imaging, method: "DELETE", path: "/v2/images/{image}"},
	}
}

// extra are keys that the real services show and the emulator does not, since they belong to extensions that the lab
// happens to have. "service path" is where they are.
func known(at string) bool {
	for _, part := range []string{
		".qos_", ".dns_", ".l2_adjacency", ".vlan_", ".provider:", ".port_forwardings", ".segment", ".ip_allocation",
		".resource_request", ".numa_", ".propagate", ".device_profile", ".hints", ".binding:",
		".describedby", ".locations", ".stores", ".server_group", ".rxtx", ".group", ".shared_targets", ".service_uuid",
		".volume_type_id", ".provider_id", ".consumes_quota", ".standard_attr_id",
	} {
		if strings.Contains(at, part) {
			return true
		}
	}
	return false
}

func realSide(t *testing.T) *side {
	t.Helper()
	name := os.Getenv("NPCTL_SHAPE_CLOUD")
	if name == "" {
		name = "other"
	}
	if os.Getenv("OS_CLIENT_CONFIG_FILE") == "" {
		t.Fatal("OS_CLIENT_CONFIG_FILE is empty; start the lab with test/openstack/up.sh and read its env.sh")
	}
	auth, _, tlsConfig, err := clouds.Parse(clouds.WithCloudName(name), clouds.WithLocations(os.Getenv("OS_CLIENT_CONFIG_FILE")))
	testutil.Must(t, err)
	client, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(tlsConfig))
	testutil.Must(t, err)
	return newSide(t, "real", client, http.DefaultTransport)
}

func emulatorSide(t *testing.T) *side {
	t.Helper()
	cloud := open(t, Options{Networks: []Network{{Name: "shared", CIDRs: []string{"127.79.0.0/16"}, Shared: true}}})
	return newSide(t, "emulator", login(t, cloud, Other).provider, cloud.Transport())
}

// newSide finds the roots of the services, without their versions.
func newSide(t *testing.T, name string, client *gophercloud.ProviderClient, transport http.RoundTripper) *side {
	t.Helper()
	s := &side{name: name, client: client, transport: transport, roots: map[service]string{}, values: map[string]string{}}
	s.roots[identity] = strings.TrimSuffix(strings.TrimSuffix(client.IdentityEndpoint, "/"), "/v3")
	for kind, make := range map[service]func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error){
		compute: openstack.NewComputeV2, imaging: openstack.NewImageV2, neutron: openstack.NewNetworkV2, cinder: openstack.NewBlockStorageV3,
	} {
		c, err := make(client, gophercloud.EndpointOpts{Region: Region})
		testutil.Must(t, err)
		root, _, _ := strings.Cut(c.Endpoint, "/v2.1")
		root, _, _ = strings.Cut(root, "/v3/")
		s.roots[kind] = strings.TrimSuffix(root, "/")
	}
	found := s.call(t, step{service: identity, method: "GET", path: "/v3/auth/projects"})
	s.values["project"] = fmt.Sprint(dig(found.json, "projects.0.id"))
	found = s.call(t, step{service: compute, method: "GET", path: "/v2.1/flavors"})
	names := map[any]string{"small": "flavor", "toobig": "toobig"} // real services list them in a random order
	for i := range 10 {
		if name := names[dig(found.json, fmt.Sprintf("flavors.%d.name", i))]; name != "" {
			s.values[name] = fmt.Sprint(dig(found.json, fmt.Sprintf("flavors.%d.id", i)))
		}
	}
	return s
}

type reply struct {
	status int
	header http.Header
	text   string
	json   any
}

func (s *side) fill(text string) string {
	for name, value := range s.values {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

func (s *side) call(t *testing.T, one step) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), one.method, s.roots[one.service]+s.fill(one.path), bytes.NewReader([]byte(s.fill(one.body))))
	testutil.Must(t, err)
	switch one.token {
	case "":
		req.Header.Set("X-Auth-Token", s.client.Token())
	case "none":
	default:
		req.Header.Set("X-Auth-Token", one.token)
	}
	req.Header.Set("Accept", "application/json")
	if one.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if one.kind != "" {
		req.Header.Set("Content-Type", one.kind)
	}
	if one.micro != "" {
		req.Header.Set("OpenStack-API-Version", "compute "+one.micro)
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s: %s %s: %v", s.name, one.method, one.path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	testutil.Must(t, err)
	r := reply{status: resp.StatusCode, header: resp.Header, text: string(text)}
	_ = json.Unmarshal(text, &r.json)
	return r
}

// run makes the call, again and again where the step says so.
func (s *side) run(t *testing.T, one step) reply {
	t.Helper()
	for deadline := time.Now().Add(testutil.Patience); ; time.Sleep(200 * time.Millisecond) {
		r := s.call(t, one)
		path, want, _ := strings.Cut(one.until, "=")
		waiting := (one.until != "" && fmt.Sprint(dig(r.json, path)) != want) || (one.gone && r.status != http.StatusNotFound)
		if waiting && time.Now().Before(deadline) {
			continue
		}
		if name, path, found := strings.Cut(one.capture, "="); found {
			s.values[name] = fmt.Sprint(dig(r.json, path))
		}
		return r
	}
}

// dig follows a path such as servers.0.id.
func dig(v any, path string) any {
	for part := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(at) {
				return nil
			}
			v = at[i]
		default:
			return nil
		}
	}
	return v
}

// shape lists the keys of a value with their types. Elements of a list share one shape; null has none.
func shape(at string, v any, into map[string]string) {
	switch value := v.(type) {
	case map[string]any:
		into[at] = "object"
		for key, inner := range value {
			shape(at+"."+keyName(at, key), inner, into)
		}
	case []any:
		into[at] = "list"
		for _, inner := range value {
			shape(at+"[]", inner, into)
		}
	case nil:
		if _, known := into[at]; !known {
			into[at] = "null"
		}
	default:
		into[at] = fmt.Sprintf("%T", v)
	}
}

// keyName makes keys that are names of the users' things the same.
func keyName(at, key string) string {
	if strings.HasSuffix(at, "addresses") || strings.HasSuffix(at, "metadata") || strings.HasSuffix(at, "extra_specs") {
		return "*"
	}
	return key
}

func TestAnswersHaveTheShapeOfTheRealServices(t *testing.T) {
	theirs, ours := realSide(t), emulatorSide(t)
	for _, s := range []*side{theirs, ours} {
		t.Cleanup(func() { s.tidy(t) })
	}
	for _, one := range steps() {
		name := fmt.Sprintf("%s %s %s %s", one.method, one.service, one.path, one.micro)
		want, got := theirs.run(t, one), ours.run(t, one)
		if want.status != got.status {
			t.Errorf("%s %s\n  real    %d %.300s\n  emulator %d %.300s", name, one.body, want.status, want.text, got.status, got.text)
			continue
		}
		if one.loose {
			continue
		}
		for _, line := range differences(want, got) {
			t.Errorf("%s: %s", name, line)
		}
		if want.status >= 400 && theirs.words(want) != ours.words(got) {
			t.Logf("%s: words differ\n  real    %s\n  emulator %s", name, want.text, got.text)
		}
	}
}

// tidy deletes the servers that came of calls which might have been refused.
func (s *side) tidy(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	compute := &gophercloud.ServiceClient{ProviderClient: s.client, Endpoint: s.roots[compute] + "/v2.1/"}
	pages, err := servers.List(compute, servers.ListOpts{Name: "^shape$"}).AllPages(ctx)
	if err != nil {
		t.Error(err)
		return
	}
	all, err := servers.ExtractServers(pages)
	for _, one := range all {
		err = errors.Join(err, servers.Delete(ctx, compute, one.ID).ExtractErr())
	}
	if err != nil {
		t.Error(err)
	}
}

// words is what an answer says, whatever the order of its keys and the ids in it.
func (s *side) words(r reply) string {
	text, _ := json.Marshal(r.json) // it was JSON before
	for name, value := range s.values {
		if value != "" {
			text = bytes.ReplaceAll(text, []byte(value), []byte("{"+name+"}"))
		}
	}
	return string(text)
}

func differences(want, got reply) []string {
	var lines []string
	a, b := map[string]string{}, map[string]string{}
	shape("", want.json, a)
	shape("", got.json, b)
	for _, at := range slices.Sorted(maps.Keys(a)) {
		switch kind, found := b[at]; {
		case !found && !known(at) && !insideEmpty(at, b):
			lines = append(lines, "emulator lacks "+at+" "+a[at])
		case found && kind != a[at] && kind != "null" && a[at] != "null":
			lines = append(lines, at+" is "+kind+", not "+a[at])
		}
	}
	for _, at := range slices.Sorted(maps.Keys(b)) {
		if _, found := a[at]; !found && !known(at) && !insideEmpty(at, a) {
			lines = append(lines, "only the emulator has "+at)
		}
	}
	for _, header := range []string{"Content-Type", "Openstack-Api-Version", "X-Openstack-Nova-Api-Version", "Location", "X-Openstack-Request-Id", "Www-Authenticate"} {
		if (want.header.Get(header) == "") != (got.header.Get(header) == "") {
			lines = append(lines, fmt.Sprintf("header %s is %q, not %q", header, got.header.Get(header), want.header.Get(header)))
		}
	}
	return lines
}

// insideEmpty reports whether a key is missing only because a list or object around it has nothing in it.
func insideEmpty(at string, in map[string]string) bool {
	for i := len(at) - 1; i > 0; i-- {
		if at[i] != '.' && at[i] != '[' {
			continue
		}
		outer := at[:i]
		if kind, found := in[outer]; found {
			return kind == "null" || (kind == "list" && at[i] == '[')
		}
	}
	return false
}
