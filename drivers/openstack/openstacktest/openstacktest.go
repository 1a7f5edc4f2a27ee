// Package openstacktest acts like other users of a project that npctl uses: for the driver's contract tests, on the
// emulator and on a real OpenStack.
package openstacktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// Project holds a client of each service of one project.
type Project struct {
	Compute, Network, Volume, Image *gophercloud.ServiceClient

	Settle time.Duration // the longest that something may take; default a minute
}

// Names of what the emulator and the real lab are filled with.
const (
	privateNetwork = "private"
	publicNetwork  = "public"
)

// ownerName is the name of everything that is made here.
const ownerName = "somebody-elses"

type object = map[string]any

// Attach attaches a volume, a port, and a floating IP on that port to a server. None of them carries marks, and all of
// them are deleted when the test ends.
func (p *Project) Attach(t *testing.T, server string) []drivertest.Foreign {
	t.Helper()
	volume := p.volume(t, nil)
	p.post(t, p.Compute, "servers/"+server+"/os-volume_attachments", object{"volumeAttachment": object{"volumeId": volume}}, nil)
	p.until(t, "volume "+volume+" in use", func() error { return p.hasStatus(volume, "in-use") })

	port := p.port(t, ownerName)
	p.post(t, p.Compute, "servers/"+server+"/os-interface", object{"interfaceAttachment": object{"port_id": port}}, nil)
	p.until(t, "port "+port+" attached", func() error {
		now, err := p.show(p.Network, "ports/"+port, "port")
		if err == nil && now["device_id"] != server {
			err = fmt.Errorf("it is attached to %v", now["device_id"])
		}
		return err
	})

	address := p.floatingIP(t, port, ownerName)
	return []drivertest.Foreign{
		p.foreign("volume "+volume, p.Volume, "volumes/"+volume, "volume"),
		p.foreign("port "+port, p.Network, "ports/"+port, "port"),
		p.foreign("floating IP "+address, p.Network, "floatingips/"+address, "floatingip"),
	}
}

// Spoil are the ways to make a server unusable. Those of its floating IP need one.
func (p *Project) Spoil(floating bool) map[string]func(*testing.T, resources.Instance) {
	all := map[string]func(*testing.T, resources.Instance){
		"stopped": func(t *testing.T, i resources.Instance) {
			p.post(t, p.Compute, "servers/"+i.ID+"/action", object{"os-stop": nil}, nil)
		},
		"deleted": func(t *testing.T, i resources.Instance) {
			_, err := p.Compute.Delete(t.Context(), p.Compute.ServiceURL("servers", i.ID), nil) //nolint:bodyclose // gophercloud has read and closed it
			if err != nil {
				t.Fatal(err)
			}
		},
	}
	if floating {
		all["without its floating IP"] = func(t *testing.T, i resources.Instance) { p.moveFloatingIP(t, i.Addresses.PublicIPv4, nil) }
		all["its floating IP moved"] = func(t *testing.T, i resources.Instance) {
			p.moveFloatingIP(t, i.Addresses.PublicIPv4, p.port(t, ownerName))
		}
	}
	return all
}

// moveFloatingIP associates a floating IP with another port, or with none.
func (p *Project) moveFloatingIP(t *testing.T, address string, port any) {
	t.Helper()
	var answer struct {
		FloatingIPs []struct {
			ID string `json:"id"`
		} `json:"floatingips"`
	}
	_, err := p.Network.Get(t.Context(), p.Network.ServiceURL("floatingips")+"?floating_ip_address="+url.QueryEscape(address), &answer, nil) //nolint:bodyclose // gophercloud has read and closed it
	if err != nil || len(answer.FloatingIPs) != 1 {
		t.Fatalf("floating IP %s: %+v, %v", address, answer, err)
	}
	p.change(t, "floatingips/"+answer.FloatingIPs[0].ID, object{"floatingip": object{"port_id": port}})
}

// ForeignImage makes an image without content.
func (p *Project) ForeignImage(t *testing.T) drivertest.Foreign {
	t.Helper()
	return p.image(t, object{"name": ownerName})
}

// image makes an image without content.
func (p *Project) image(t *testing.T, properties object) drivertest.Foreign {
	t.Helper()
	properties["disk_format"], properties["container_format"] = "raw", "bare"
	var answer struct {
		ID string `json:"id"`
	}
	p.post(t, p.Image, "images", properties, &answer)
	p.removeLater(t, p.Image, "images/"+answer.ID)
	f := p.foreign("image "+answer.ID, p.Image, "images/"+answer.ID, "")
	f.ID = answer.ID
	return f
}

// Copies copies an image or a server of npctl as other users do: of an image, an image with its properties and tags, and a volume
// and a server with its properties as metadata; of a server, an image of it.
func (p *Project) Copies(t *testing.T, isImage bool, original, flavor string) []drivertest.Foreign {
	t.Helper()
	if !isImage {
		p.post(t, p.Compute, "servers/"+original+"/action", object{"createImage": object{"name": ownerName}}, nil)
		return []drivertest.Foreign{p.copied(t, p.Image, "images/"+p.snapshotOf(t, original), "")}
	}
	source, err := p.show(p.Image, "images/"+original, "")
	if err != nil {
		t.Fatal(err)
	}
	request, metadata := object{"name": ownerName, "tags": source["tags"]}, map[string]string{}
	for name, value := range source {
		if text, isText := value.(string); isText && strings.HasPrefix(name, "npctl_") {
			request[name], metadata[name] = text, text
		}
	}
	image := p.image(t, request).ID
	server := p.server(t, ownerName, original, flavor, drivertest.WithoutObject(metadata))
	return []drivertest.Foreign{p.copied(t, p.Image, "images/"+image, ""), p.copied(t, p.Compute, "servers/"+server, "server"),
		p.copied(t, p.Volume, "volumes/"+p.volume(t, drivertest.WithoutObject(metadata)), "volume")}
}

// Neighbours makes objects with the names of a node and of an upload: two servers and an image.
func (p *Project) Neighbours(t *testing.T, node drivers.Spec, upload drivers.ImageSpec, flavor string) []drivertest.Foreign {
	t.Helper()
	var all []drivertest.Foreign
	for _, name := range []string{node.Hostname, node.Hostname + "-old"} {
		id := p.server(t, name, node.ImageID, flavor, nil)
		f := p.foreign("server "+id, p.Compute, "servers/"+id, "server")
		f.ID = id
		all = append(all, f)
	}
	return append(all, p.image(t, object{"name": upload.Name}))
}

// server makes a server.
func (p *Project) server(t *testing.T, name, image, flavor string, metadata map[string]string) string {
	t.Helper()
	var made struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
	}
	server := object{"name": name, "imageRef": image, "flavorRef": p.flavor(t, flavor), "networks": []object{{"uuid": p.network(t, privateNetwork)}}}
	if len(metadata) > 0 {
		server["metadata"] = metadata
	}
	p.post(t, p.Compute, "servers", object{"server": server}, &made)
	p.removeLater(t, p.Compute, "servers/"+made.Server.ID)
	return made.Server.ID
}

// copied returns an object, which has ownership tags.
func (p *Project) copied(t *testing.T, client *gophercloud.ServiceClient, path, key string) drivertest.Foreign {
	t.Helper()
	_, id, _ := strings.Cut(path, "/")
	return drivertest.Foreign{ID: id, Stays: func() error {
		now, err := p.show(client, path, key)
		if status := fmt.Sprint(now["status"]); err == nil && strings.Contains(status, "delet") {
			err = fmt.Errorf("%s is %s", path, status)
		}
		return err
	}}
}

// snapshotOf returns the ID of the image of a server, and deletes it when the test ends.
func (p *Project) snapshotOf(t *testing.T, server string) string {
	t.Helper()
	answer, err := p.show(p.Image, "images?"+url.Values{"instance_uuid": {server}}.Encode(), "")
	if err != nil {
		t.Fatal(err)
	}
	images, _ := answer["images"].([]any)
	if len(images) != 1 {
		t.Fatalf("server %s has %d images", server, len(images))
	}
	id := fmt.Sprint(images[0].(object)["id"])
	p.removeLater(t, p.Image, "images/"+id)
	p.until(t, "image "+id+" active", func() error {
		now, err := p.show(p.Image, "images/"+id, "")
		if err == nil && now["status"] != "active" {
			err = fmt.Errorf("it is %v", now["status"])
		}
		return err
	})
	return id
}

// flavor returns the ID of a flavor.
func (p *Project) flavor(t *testing.T, name string) string {
	t.Helper()
	answer, err := p.show(p.Compute, "flavors", "")
	if err != nil {
		t.Fatal(err)
	}
	flavors, _ := answer["flavors"].([]any)
	for _, f := range flavors {
		if f.(object)["name"] == name {
			return fmt.Sprint(f.(object)["id"])
		}
	}
	t.Fatalf("there is no flavor %s", name)
	return ""
}

// NoLeftovers are types of leftovers that the driver never creates.
var NoLeftovers = []string{resources.LeftoverSnapshot, resources.LeftoverObject, resources.LeftoverHost, resources.LeftoverLaunchTemplate}

// Leftovers are the types of objects that remain. server creates a server that can use volumes; nil means that no volumes are tested,
// because a real server takes long.
func (p *Project) Leftovers(server func(*testing.T) string) map[string]drivertest.Leftover {
	text := func(m resources.OwnerTags) string {
		if m.Installation == "" {
			return ownerName
		}
		return "npctl:" + url.Values{"installation": {m.Installation}, "kind": {string(m.Kind)}, "id": {m.ID}}.Encode()
	}
	all := map[string]drivertest.Leftover{
		resources.LeftoverPort: {Use: p.usePort, Leave: func(t *testing.T, m resources.OwnerTags) resources.Leftover {
			return resources.Leftover{Type: resources.LeftoverPort, ID: p.port(t, text(m)), Marks: m}
		}},
		resources.LeftoverFloatingIP: {Use: p.useFloatingIP, Leave: func(t *testing.T, m resources.OwnerTags) resources.Leftover {
			return resources.Leftover{Type: resources.LeftoverFloatingIP, ID: p.floatingIP(t, nil, text(m)), Marks: m}
		}},
	}
	if server != nil {
		all[resources.LeftoverVolume] = drivertest.Leftover{
			Leave: func(t *testing.T, m resources.OwnerTags) resources.Leftover {
				return resources.Leftover{Type: resources.LeftoverVolume, ID: p.volume(t, drivers.EncodeTags(m)), Marks: m}
			},
			Use: func(t *testing.T, l resources.Leftover) func() { return p.useVolume(t, l.ID, server(t)) },
		}
	}
	return all
}

// usePort makes a new server use a port, as far as Neutron knows, until end.
func (p *Project) usePort(t *testing.T, l resources.Leftover) (end func()) {
	t.Helper()
	use := func(server, owner string) {
		p.change(t, "ports/"+l.ID, object{"port": object{"device_id": server, "device_owner": owner}})
	}
	use(fmt.Sprintf("11111111-2222-4333-8444-%012x", rand.Uint64N(1<<48)), "compute:nova")
	return func() { use("", "") }
}

// useFloatingIP associates a floating IP with a new port until end.
func (p *Project) useFloatingIP(t *testing.T, l resources.Leftover) (end func()) {
	t.Helper()
	associate := func(port any) { p.change(t, "floatingips/"+l.ID, object{"floatingip": object{"port_id": port}}) }
	associate(p.port(t, ownerName))
	return func() { associate(nil) }
}

// change changes an object of Neutron.
func (p *Project) change(t *testing.T, path string, body object) {
	t.Helper()
	_, err := p.Network.Put(context.WithoutCancel(t.Context()), p.Network.ServiceURL(path), body, nil, &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK}}) //nolint:bodyclose // gophercloud has read and closed it
	testutil.Must(t, err)
}

// useVolume attaches a volume to a server until end.
func (p *Project) useVolume(t *testing.T, volume, server string) (end func()) {
	t.Helper()
	p.post(t, p.Compute, "servers/"+server+"/os-volume_attachments", object{"volumeAttachment": object{"volumeId": volume}}, nil)
	p.until(t, "volume "+volume+" in use", func() error { return p.hasStatus(volume, "in-use") })
	return func() {
		address := p.Compute.ServiceURL("servers", server, "os-volume_attachments", volume)
		if _, err := p.Compute.Delete(context.WithoutCancel(t.Context()), address, nil); err != nil { //nolint:bodyclose // gophercloud has read and closed it
			t.Errorf("detach volume %s: %v", volume, err)
		}
		p.until(t, "volume "+volume+" free", func() error { return p.hasStatus(volume, "available") })
	}
}

func (p *Project) volume(t *testing.T, metadata map[string]string) string {
	t.Helper()
	var answer struct {
		Volume struct {
			ID string `json:"id"`
		} `json:"volume"`
	}
	request := object{"name": ownerName, "size": 1}
	if len(metadata) > 0 {
		request["metadata"] = metadata
	}
	p.post(t, p.Volume, "volumes", object{"volume": request}, &answer)
	id := answer.Volume.ID
	p.removeLater(t, p.Volume, "volumes/"+id)
	p.until(t, "volume "+id+" available", func() error { return p.hasStatus(id, "available") })
	return id
}

func (p *Project) hasStatus(volume, want string) error {
	now, err := p.show(p.Volume, "volumes/"+volume, "volume")
	if err == nil && now["status"] != want {
		err = fmt.Errorf("it is %v", now["status"])
	}
	return err
}

func (p *Project) port(t *testing.T, description string) string {
	t.Helper()
	var answer struct {
		Port struct {
			ID string `json:"id"`
		} `json:"port"`
	}
	p.post(t, p.Network, "ports", object{"port": object{"network_id": p.network(t, privateNetwork), "name": ownerName, "description": description}}, &answer)
	p.removeLater(t, p.Network, "ports/"+answer.Port.ID)
	return answer.Port.ID
}

func (p *Project) floatingIP(t *testing.T, port any, description string) string {
	t.Helper()
	var answer struct {
		FloatingIP struct {
			ID string `json:"id"`
		} `json:"floatingip"`
	}
	request := object{"floating_network_id": p.network(t, publicNetwork), "port_id": port, "description": description}
	p.post(t, p.Network, "floatingips", object{"floatingip": request}, &answer)
	p.removeLater(t, p.Network, "floatingips/"+answer.FloatingIP.ID)
	return answer.FloatingIP.ID
}

func (p *Project) network(t *testing.T, name string) string {
	t.Helper()
	var answer struct {
		Networks []struct {
			ID string `json:"id"`
		} `json:"networks"`
	}
	_, err := p.Network.Get(t.Context(), p.Network.ServiceURL("networks")+"?name="+url.QueryEscape(name), &answer, nil) //nolint:bodyclose // gophercloud has read and closed it
	if err != nil || len(answer.Networks) == 0 {
		t.Fatalf("network %s: %v", name, err)
	}
	return answer.Networks[0].ID
}

// ChangeOf describes a call that changes something; other calls have no description.
func ChangeOf(r *http.Request) string {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || strings.HasSuffix(r.URL.Path, "/auth/tokens") {
		return ""
	}
	return r.Method + " " + r.URL.Path
}

// Objects returns the sorted kinds and IDs of the project's servers, ports, floating IPs, volumes and images, except objects that
// are being deleted.
func (p *Project) Objects(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, list := range []struct {
		client    *gophercloud.ServiceClient
		path, key string
	}{
		{p.Compute, "servers/detail", "servers"}, {p.Network, "ports", "ports"}, {p.Network, "floatingips", "floatingips"},
		{p.Volume, "volumes/detail", "volumes"}, {p.Image, "images", "images"},
	} {
		answer, err := p.show(list.client, list.path, "")
		if err != nil {
			t.Fatal(err)
		}
		objects, _ := answer[list.key].([]any)
		for _, one := range objects {
			if o := one.(object); !strings.Contains(fmt.Sprint(o["status"], o["OS-EXT-STS:task_state"]), "delet") {
				all = append(all, fmt.Sprintf("%s %v", strings.TrimSuffix(list.key, "s"), o["id"]))
			}
		}
	}
	slices.Sort(all)
	return all
}

// foreign describes a thing that must stay as it is.
func (p *Project) foreign(what string, client *gophercloud.ServiceClient, path, key string) drivertest.Foreign {
	return drivertest.Foreign{ID: what, Stays: func() error {
		now, err := p.show(client, path, key)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if text := fmt.Sprint(now); strings.Contains(text, "npctl") {
			return fmt.Errorf("%s carries marks: %s", what, text)
		}
		if status := fmt.Sprint(now["status"]); strings.Contains(status, "delet") {
			return fmt.Errorf("%s is %s", what, status)
		}
		return nil
	}}
}

func (p *Project) show(client *gophercloud.ServiceClient, path, key string) (object, error) {
	var answer object
	_, err := client.Get(context.Background(), client.ServiceURL(path), &answer, nil) //nolint:bodyclose // gophercloud has read and closed it
	if err != nil || key == "" {
		return answer, err
	}
	inner, ok := answer[key].(object)
	if !ok {
		return nil, errors.New("the answer has no " + key)
	}
	return inner, nil
}

func (p *Project) post(t *testing.T, client *gophercloud.ServiceClient, path string, body, into any) {
	t.Helper()
	ok := &gophercloud.RequestOpts{OkCodes: []int{http.StatusOK, http.StatusCreated, http.StatusAccepted}}
	if _, err := client.Post(t.Context(), client.ServiceURL(path), body, into, ok); err != nil { //nolint:bodyclose // gophercloud has read and closed it
		t.Fatalf("POST %s: %v", path, err)
	}
}

// removeLater deletes a thing when the test ends, as soon as nothing uses it.
func (p *Project) removeLater(t *testing.T, client *gophercloud.ServiceClient, path string) {
	t.Cleanup(func() {
		p.until(t, path+" deleted", func() error {
			_, err := client.Delete(context.WithoutCancel(t.Context()), client.ServiceURL(path), nil) //nolint:bodyclose // gophercloud has read and closed it
			if gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
				return nil
			}
			return err
		})
	})
}

// until waits for something to be so.
func (p *Project) until(t *testing.T, what string, check func() error) {
	t.Helper()
	settle := cmp.Or(p.Settle, time.Minute)
	var err error
	if !testutil.Poll(settle, func() bool { err = check(); return err == nil }) {
		t.Errorf("%s: after %s: %v", what, settle, err)
	}
}
