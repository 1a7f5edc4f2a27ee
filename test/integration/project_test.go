//go:build integration

package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/openstack/lab"
)

// password is the password of every user in the lab.
const password = "lab"

// project is an OpenStack project for one test, with a user of the same name.
type project struct {
	*api
	t        *testing.T
	lab      *lab.Lab
	admin    *api
	name, id string
	authURL  string
	entries  map[string]any // of clouds.yaml: those of the lab, and "mine"
}

// newProject creates an empty project. It is deleted with all its objects when the test ends.
func newProject(t *testing.T) *project {
	t.Helper()
	l, err := lab.Find()
	testutil.Must(t, err)
	p := &project{t: t, lab: l, name: fmt.Sprintf("it-%08x", rand.Uint32())}
	p.readClouds()
	p.admin = login(t, p.authURL, "admin", "admin")
	p.id = p.admin.make(t, identity, "projects", "project", object{"name": p.name, "domain_id": "default"})["id"].(string)
	user := p.admin.make(t, identity, "users", "user", object{"name": p.name, "password": password, "domain_id": "default",
		"default_project_id": p.id})["id"].(string)
	role := p.admin.find(t, identity, "roles", "roles", "member")["id"].(string)
	p.admin.do(t, http.MethodPut, identity, "projects/"+p.id+"/users/"+user+"/roles/"+role, nil)
	p.api = login(t, p.authURL, p.name, p.name)
	t.Cleanup(func() { p.remove(user) })
	return p
}

// with returns the project for a subtest.
func (p *project) with(t *testing.T) *project {
	same := *p
	same.t = t
	return &same
}

// readClouds reads the lab's clouds.yaml and adds the entry "mine".
func (p *project) readClouds() {
	p.t.Helper()
	text, err := os.ReadFile(p.lab.CloudsYAML())
	testutil.Must(p.t, err)
	var file struct {
		Clouds map[string]any `yaml:"clouds"`
	}
	testutil.Must(p.t, yaml.Unmarshal(text, &file))
	p.entries = file.Clouds
	p.authURL = file.Clouds["npctl"].(object)["auth"].(object)["auth_url"].(string)
	p.entries["mine"] = p.entry(p.name, password)
	p.entries["wrong-password"] = p.entry(p.name, "guessed")
}

func (p *project) entry(user, password string) map[string]any {
	return map[string]any{"region_name": "RegionOne", "auth": map[string]any{"auth_url": p.authURL, "username": user, "password": password,
		"project_name": user, "user_domain_name": "Default", "project_domain_name": "Default"}}
}

// writeClouds writes clouds.yaml and returns its path.
func (p *project) writeClouds(dir string) string {
	p.t.Helper()
	text, err := yaml.Marshal(map[string]any{"clouds": p.entries})
	testutil.Must(p.t, err)
	path := filepath.Join(dir, "clouds.yaml")
	testutil.Must(p.t, os.WriteFile(path, text, 0o600))
	return path
}

// applicationCredential adds the entry "appcred".
func (p *project) applicationCredential() {
	p.t.Helper()
	user := p.admin.list(p.t, identity, "users?name="+p.name, "users")[0]["id"].(string)
	made := p.make(p.t, identity, "users/"+user+"/application_credentials", "application_credential", object{"name": "ci", "secret": password})
	p.entries["appcred"] = map[string]any{"region_name": "RegionOne", "auth_type": "v3applicationcredential", "auth": map[string]any{
		"auth_url": p.authURL, "application_credential_id": made["id"], "application_credential_secret": password}}
}

// createUsualObjects creates the usual objects of a CI project: network "private" with a router to the outside, security group
// "ssh", and key pair "lab". The addresses belong to this machine, like those of the lab.
func (p *project) createUsualObjects() *project {
	p.t.Helper()
	private := p.network("private", "127.81.0.0/16")
	outside := p.find(p.t, network, "networks?name=public", "networks", "public")["id"]
	router := p.make(p.t, network, "routers", "router", object{"name": "router", "external_gateway_info": object{"network_id": outside}})
	p.do(p.t, http.MethodPut, network, "routers/"+router["id"].(string)+"/add_router_interface", object{"subnet_id": private})
	p.make(p.t, network, "security-groups", "security_group", object{"name": "ssh"})
	p.make(p.t, compute, "os-keypairs", "keypair", object{"name": "lab", "type": "ssh"})
	return p
}

// dualNetwork creates the network "dual", which has IPv6 too.
func (p *project) dualNetwork() {
	p.t.Helper()
	p.network("dual", "127.82.0.0/16")
	p.make(p.t, network, "subnets", "subnet", object{"name": "dual6", "network_id": p.find(p.t, network, "networks?name=dual", "networks", "dual")["id"],
		"ip_version": 6, "cidr": "fd82::/64", "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"})
}

// network creates a network and returns the ID of its subnet. It disables DHCP, which refuses loopback addresses.
func (p *project) network(name, cidr string) string {
	p.t.Helper()
	made := p.make(p.t, network, "networks", "network", object{"name": name})
	subnet := p.make(p.t, network, "subnets", "subnet", object{"name": name, "network_id": made["id"], "ip_version": 4, "cidr": cidr, "enable_dhcp": false})
	return subnet["id"].(string)
}

// quota sets limits of the project. restore sets the lab's defaults.
func (p *project) quota(limits map[string]int) (restore func()) {
	p.t.Helper()
	back, err := p.lab.Quota(p.t.Context(), p.name, limits)
	testutil.Must(p.t, err)
	return func() {
		if err := back(); err != nil {
			p.t.Error(err)
		}
	}
}

// server creates a foreign server and waits until it is ACTIVE.
func (p *project) server(name string, networks any) string {
	p.t.Helper()
	made := p.make(p.t, compute, "servers", "server", object{"name": name, "networks": networks,
		"imageRef":  p.find(p.t, image, "images?name=tiny", "images", "tiny")["id"],
		"flavorRef": p.find(p.t, compute, "flavors", "flavors", "small")["id"]})
	id := made["id"].(string)
	eventually(p.t, "server "+name+" is ACTIVE", func() bool {
		return p.do(p.t, http.MethodGet, compute, "servers/"+id, nil)["server"].(object)["status"] == "ACTIVE"
	})
	return id
}

// remove deletes the project and all its objects. It continues after a failed deletion: each test checks which objects
// must be gone.
func (p *project) remove(user string) {
	ctx := context.Background()
	gone := func(service, path string) { _, _, _ = p.admin.try(ctx, http.MethodDelete, service, path, nil) }
	ids := func(service, path, key string) (found []string) {
		_, answer, err := p.admin.try(ctx, http.MethodGet, service, path, nil)
		if list, ok := answer[key].([]any); ok && err == nil {
			for _, o := range list {
				found = append(found, o.(object)["id"].(string))
			}
		}
		return found
	}
	mine := "project_id=" + p.id
	eventually(p.t, "the project's servers are gone", func() bool {
		servers := ids(compute, "servers?all_tenants=1&"+mine, "servers")
		for _, id := range servers {
			gone(compute, "servers/"+id)
		}
		return len(servers) == 0
	})
	for _, id := range ids(volume, "volumes?all_tenants=1&"+mine, "volumes") {
		gone(volume, "volumes/"+id)
	}
	for _, id := range ids(image, "images?limit=500&owner="+p.id, "images") {
		gone(image, "images/"+id)
	}
	for _, id := range ids(network, "routers?"+mine, "routers") {
		for _, subnet := range ids(network, "subnets?"+mine, "subnets") {
			_, _, _ = p.admin.try(ctx, http.MethodPut, network, "routers/"+id+"/remove_router_interface", object{"subnet_id": subnet})
		}
		gone(network, "routers/"+id)
	}
	for _, kind := range []string{"floatingips", "ports", "networks", "security-groups"} {
		for _, id := range ids(network, kind+"?"+mine, strings.ReplaceAll(kind, "-", "_")) {
			gone(network, kind+"/"+id)
		}
	}
	gone(identity, "users/"+user)
	gone(identity, "projects/"+url.PathEscape(p.id))
}

// withGate inserts a gate before the project's services. The entry "mine" uses it.
func (p *project) withGate() *gate.Gate {
	p.t.Helper()
	g := &gate.Gate{}
	mine := p.entries["mine"].(map[string]any)
	for service, key := range map[string]string{compute: "compute", network: "network", image: "image", volume: "block_storage"} {
		upstream, err := p.url(service)
		testutil.Must(p.t, err)
		mine[key+"_endpoint_override"] = g.Serve(p.t, service, upstream, nil)
	}
	return g
}
