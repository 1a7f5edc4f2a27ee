package azuretest

import (
	"bytes"
	"crypto/md5" //nolint:gosec // Azure's checksum of a request
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// object is an object of Microsoft.Network.
type object struct {
	ID         string            `json:"id"`
	Name       string            `json:"name"`
	Location   string            `json:"location"`
	Tags       map[string]string `json:"tags,omitempty"`
	Properties map[string]any    `json:"properties"`

	onDelete string // Delete: the object ends with its virtual machine
	vm       string
}

// AddInterface creates a network interface without a virtual machine.
func (c *Cloud) AddInterface(tags map[string]string) (name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name = fmt.Sprint("nic-", c.next())
	c.nics[strings.ToLower(name)] = &object{ID: ID("Microsoft.Network/networkInterfaces", name), Name: name, Location: Location, Tags: tags, Properties: map[string]any{}}
	return name
}

// AddAddress creates a public address that nothing uses.
func (c *Cloud) AddAddress(tags map[string]string) (name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name = fmt.Sprint("ip-", c.next())
	c.ips[strings.ToLower(name)] = &object{ID: ID("Microsoft.Network/publicIPAddresses", name), Name: name, Location: Location, Tags: tags, Properties: map[string]any{}}
	return name
}

// AttachInterface makes a virtual machine use a network interface, as another user would, or none with "".
func (c *Cloud) AttachInterface(name, vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	refer(c.nics[strings.ToLower(name)], "virtualMachine", ID("Microsoft.Compute/virtualMachines", vm), vm != "")
}

// refer makes an object refer to another one, or not.
func refer(from *object, property, to string, is bool) {
	switch {
	case from == nil: // it was deleted
	case is:
		from.Properties[property] = map[string]string{"id": to}
	default:
		delete(from.Properties, property)
	}
}

// AttachAddress gives a public address to a new network interface of a virtual machine, or takes it from its interface with "".
func (c *Cloud) AttachAddress(name, vm string) {
	nic := c.AddInterface(nil)
	c.AttachInterface(nic, vm)
	c.mu.Lock()
	defer c.mu.Unlock()
	refer(c.ips[strings.ToLower(name)], "ipConfiguration", ID("Microsoft.Network/networkInterfaces", nic)+"/ipConfigurations/ip", vm != "")
}

// TakeAddress removes the public addresses from the network interface of a machine, as another user would.
func (c *Cloud) TakeAddress(vm string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nics {
		if n.vm != strings.ToLower(vm) {
			continue
		}
		for _, configuration := range n.Properties["ipConfigurations"].([]any) {
			delete(configuration.(map[string]any)["properties"].(map[string]any), "publicIPAddress")
		}
	}
}

// Objects returns the tags of all network interfaces ("nic NAME"), public addresses ("ip NAME"), disks ("disk NAME"), images
// ("image NAME") and virtual machines ("vm NAME").
func (c *Cloud) Objects() map[string]map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle()
	all := map[string]map[string]string{}
	for _, n := range c.nics {
		all["nic "+n.Name] = n.Tags
	}
	for _, ip := range c.ips {
		all["ip "+ip.Name] = ip.Tags
	}
	for _, d := range c.disks {
		all["disk "+*d.Name] = values(d.Tags)
	}
	for _, i := range c.images {
		all["image "+*i.Name] = values(i.Tags)
	}
	for _, m := range c.vms {
		all["vm "+*m.vm.Name] = values(m.vm.Tags)
	}
	return all
}

func values(tags map[string]*string) map[string]string {
	result := map[string]string{}
	for key, value := range tags {
		result[key] = *value
	}
	return result
}

// resource serves resource groups, locations and Microsoft.Network.
func (c *Cloud) resource(w http.ResponseWriter, r *http.Request, api string) {
	if r.URL.Query().Get("api-version") == "" {
		fail(w, http.StatusBadRequest, "MissingApiVersionParameter", "The api-version query parameter (?api-version=) is required for all requests.")
		return
	}
	parts := strings.Split(fakeSuffix.ReplaceAllString(r.URL.Path, ""), "/")
	group := map[string]any{"id": "/subscriptions/" + Subscription + "/resourceGroups/" + Group, "name": Group, "location": Location, "properties": map[string]string{"provisioningState": "Succeeded"}}
	if parts[2] != Subscription {
		fail(w, http.StatusNotFound, "SubscriptionNotFound", "The subscription '"+parts[2]+"' could not be found.")
		return
	}
	if len(parts) > 4 && !strings.EqualFold(parts[4], Group) {
		fail(w, http.StatusNotFound, "ResourceGroupNotFound", "Resource group '"+parts[4]+"' could not be found.")
		return
	}
	switch api {
	case "groups.List":
		respond(w, http.StatusOK, map[string]any{"value": []any{group}})
	case "group.Get":
		respond(w, http.StatusOK, group)
	case "group.Locations":
		respond(w, http.StatusOK, map[string]any{"value": []any{map[string]string{"name": Location}, map[string]string{"name": "northeurope"}}})
	case "network.List":
		c.listNetwork(w, r, parts[7])
	default:
		c.networkObject(w, r, parts[7], strings.ToLower(parts[8]))
	}
}

// of returns the objects of a kind.
func (c *Cloud) of(kind string) map[string]*object {
	switch strings.ToLower(kind) {
	case "networkinterfaces":
		return c.nics
	case "publicipaddresses":
		return c.ips
	case "virtualnetworks":
		id := ID("Microsoft.Network/virtualNetworks", Network)
		return map[string]*object{Network: {ID: id, Name: Network, Location: Location, Properties: map[string]any{"subnets": []any{map[string]string{"id": id + "/subnets/" + Subnet, "name": Subnet}}}}}
	default:
		return nil
	}
}

func (c *Cloud) listNetwork(w http.ResponseWriter, r *http.Request, kind string) {
	all := c.of(kind)
	names := slices.Sorted(maps.Keys(all))
	skip, _ := strconv.Atoi(r.URL.Query().Get("$skip"))
	page := map[string]any{}
	end := len(names)
	if c.PageSize > 0 && skip+c.PageSize < len(names) {
		end = skip + c.PageSize
		page["nextLink"] = fmt.Sprintf("%s%s?api-version=%s&$skip=%d", c.endpoint, r.URL.Path, r.URL.Query().Get("api-version"), end)
	}
	found := []*object{}
	for _, name := range names[skip:end] {
		found = append(found, all[name])
	}
	page["value"] = found
	respond(w, http.StatusOK, page)
}

func (c *Cloud) networkObject(w http.ResponseWriter, r *http.Request, kind, name string) {
	all := c.of(kind)
	o, found := all[name]
	switch {
	case !found && r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case !found:
		fail(w, http.StatusNotFound, "ResourceNotFound", "The Resource 'Microsoft.Network/"+kind+"/"+name+"' was not found.")
	case r.Method == http.MethodPatch:
		var body struct{ Tags map[string]string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			fail(w, http.StatusBadRequest, "InvalidRequestContent", err.Error())
			return
		}
		o.Tags = body.Tags
		respond(w, http.StatusOK, o)
	case r.Method == http.MethodDelete:
		if o.vm != "" {
			fail(w, http.StatusBadRequest, "NicInUse", "The object is used by virtual machine "+o.vm+".")
			return
		}
		delete(all, name)
		w.WriteHeader(http.StatusAccepted)
	default:
		respond(w, http.StatusOK, o)
	}
}

// storage serves the pages of disks and the console log. The addresses contain their authorization.
func (c *Cloud) storage(w http.ResponseWriter, r *http.Request) {
	name := strings.ToLower(r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:])
	if r.URL.Query().Get("sig") != signature {
		fail(w, http.StatusForbidden, "AuthenticationFailed", "Server failed to authenticate the request.")
		return
	}
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, "[    0.000000] Linux version\n"+name+" login: ")
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 5<<20))
	sum := md5.Sum(body) //nolint:gosec // Azure's checksum of a request
	var from, to int64
	_, scanErr := fmt.Sscanf(r.Header.Get("X-Ms-Range"), "bytes=%d-%d", &from, &to)
	pages, found := c.pages[name]
	switch {
	case err != nil:
		fail(w, http.StatusBadRequest, "InvalidInput", err.Error())
	case !found:
		fail(w, http.StatusNotFound, "BlobNotFound", "The specified blob does not exist.")
	case r.URL.Query().Get("comp") != "page" || r.Header.Get("X-Ms-Page-Write") != "update" || r.Header.Get("X-Ms-Version") == "":
		fail(w, http.StatusBadRequest, "InvalidHeaderValue", "no Put Page request")
	case scanErr != nil || from%512 != 0 || to-from+1 != int64(len(body)) || len(body)%512 != 0 || len(body) > 4<<20 || to >= int64(len(pages)):
		fail(w, http.StatusRequestedRangeNotSatisfiable, "InvalidPageRange", "The page range specified is invalid.")
	case r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]):
		fail(w, http.StatusBadRequest, "Md5Mismatch", "The MD5 value specified in the request did not match the MD5 value calculated by the server.")
	default:
		copy(pages[from:], body)
		w.WriteHeader(http.StatusCreated)
	}
}

// signature authorizes an address.
const signature = "signature-of-the-test"

// Pages returns the content of an image.
func (c *Cloud) Pages(image string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.pages["image "+strings.ToLower(image)])
}
