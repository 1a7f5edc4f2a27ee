package sandboxcloud

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func (c *call) flavorView(f *flavor) view {
	v := view{
		"id": f.ID, "name": f.Name, "ram": f.RAM, "disk": f.Disk, "vcpus": f.VCPUs, "swap": "", "rxtx_factor": 1.0,
		"OS-FLV-EXT-DATA:ephemeral": 0, "OS-FLV-DISABLED:disabled": false, "os-flavor-access:is_public": true,
		"links": c.links("flavors", f.ID),
	}
	if c.micro >= 55 {
		v["description"] = nil
	}
	if c.micro >= 61 {
		v["extra_specs"] = view{}
	}
	if c.micro >= 75 {
		v["swap"] = 0
	}
	return v
}

func listFlavors(c *call) (*answer, error) {
	return c.answerFlavors(func(f *flavor) any { return c.flavorView(f) })
}

func listFlavorsBriefly(c *call) (*answer, error) {
	return c.answerFlavors(func(f *flavor) any {
		v := view{"id": f.ID, "name": f.Name, "links": c.links("flavors", f.ID)}
		if c.micro >= 55 {
			v["description"] = nil
		}
		return v
	})
}

func (c *call) answerFlavors(show func(*flavor) any) (*answer, error) {
	limit, err := c.limit(c.cloud.options.PageLimit, c.cloud.options.PageLimit)
	if err != nil {
		return nil, err
	}
	minRAM, minDisk := c.number("minRam"), c.number("minDisk")
	var found []*flavor
	err = c.view(func(w *world) error {
		for f := range w.Flavors.oldestFirst(c.now) {
			if f.RAM >= minRAM && f.Disk >= minDisk {
				found = append(found, f) // flavors never change
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if marker := c.query.Get("marker"); marker != "" {
		at := slices.IndexFunc(found, func(f *flavor) bool { return f.ID == marker })
		if at < 0 {
			return nil, badRequest("marker [%s] not found", marker)
		}
		found = found[at+1:]
	}
	views := []any{}
	for _, f := range found[:min(limit, len(found))] {
		views = append(views, show(f))
	}
	body := view{"flavors": views}
	if len(views) == limit && limit > 0 {
		body["flavors_links"] = []any{linkView{"next", c.nextURL(c.base()+c.request.URL.Path, found[limit-1].ID)}}
	}
	return ok(body)
}

func (c *call) number(name string) int64 {
	n, err := strconv.ParseInt(c.query.Get(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func (c *call) findFlavor(w *world) (*flavor, error) {
	f, found := w.Flavors.get(c.id(), c.now)
	if !found {
		return nil, refuse(http.StatusNotFound, "Flavor %s could not be found.", c.id())
	}
	return f, nil
}

func showFlavor(c *call) (*answer, error) {
	var v view
	err := c.view(func(w *world) error {
		f, err := c.findFlavor(w)
		if err == nil {
			v = c.flavorView(f)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"flavor": v})
}

func showFlavorSpecs(c *call) (*answer, error) {
	err := c.view(func(w *world) error {
		_, err := c.findFlavor(w)
		return err
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"extra_specs": view{}})
}

func (c *call) keyView(k *keyPair) view {
	v := view{"name": k.Name, "public_key": k.PublicKey, "fingerprint": k.Fingerprint}
	if c.micro >= 2 {
		v["type"] = k.Type
	}
	return v
}

func listKeys(c *call) (*answer, error) {
	views := []view{}
	err := c.view(func(w *world) error {
		for k := range w.Keys.oldestFirst(c.now) {
			if k.User == c.who.user {
				views = append(views, view{"keypair": c.keyView(k)})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"keypairs": views})
}

func (c *call) findKey(w *world) (*keyPair, error) {
	name := c.request.PathValue("name")
	for k := range w.Keys.oldestFirst(c.now) {
		if k.User == c.who.user && k.Name == name {
			return k, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "Keypair %s not found for user %s", name, c.who.user)
}

func showKey(c *call) (*answer, error) {
	var v view
	err := c.view(func(w *world) error {
		k, err := c.findKey(w)
		if err != nil {
			return err
		}
		v = c.keyView(k)
		v["user_id"], v["id"], v["created_at"] = k.User, k.Seq, shortTime(k.Created)
		v["deleted"], v["deleted_at"], v["updated_at"] = false, nil, nil
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"keypair": v})
}

func createKey(c *call) (*answer, error) {
	var in struct {
		Key struct {
			Name   string `json:"name"`
			Type   string `json:"type"`
			Public string `json:"public_key"`
			User   string `json:"user_id"`
		} `json:"keypair"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if in.Key.Public == "" {
		return nil, badRequest("A sandbox makes no keys. Give it the public key of your own.")
	}
	fingerprint, err := fingerprint(in.Key.Public)
	if err != nil {
		return nil, err
	}
	if in.Key.Type == "" {
		in.Key.Type = "ssh"
	}
	k := &keyPair{Name: in.Key.Name, User: c.who.user, Type: in.Key.Type, PublicKey: in.Key.Public, Fingerprint: fingerprint}
	err = c.update(func(w *world) error { return c.addKey(w, k) })
	if err != nil {
		return nil, err
	}
	v := c.keyView(k)
	v["user_id"] = k.User
	status := http.StatusOK
	if c.micro >= 2 {
		status = http.StatusCreated
	}
	return &answer{status: status, body: view{"keypair": v}}, nil
}

func (c *call) addKey(w *world, k *keyPair) error {
	for old := range w.Keys.oldestFirst(c.now) {
		if old.User == k.User && old.Name == k.Name {
			return refuse(http.StatusConflict, "Key pair '%s' already exists.", k.Name)
		}
	}
	if q := w.quota(c.who.project); q.KeyPairs >= 0 && w.use(c.who.project).keys >= q.KeyPairs {
		return refuse(http.StatusForbidden, "Quota exceeded, too many key pairs.")
	}
	k.base = w.newBase(c.who.project, c.now)
	w.Keys.add(k)
	w.use(k.Project).keys++
	return nil
}

// fingerprint is the MD5 one that compute shows.
func fingerprint(public string) (string, error) {
	parts := strings.Fields(public)
	if len(parts) < 2 {
		return "", badRequest("Keypair data is invalid: failed to generate fingerprint")
	}
	raw, err := base64.StdEncoding.DecodeString(parts[1])
	if err != nil {
		return "", badRequest("Keypair data is invalid: failed to generate fingerprint")
	}
	sum := md5.Sum(raw)
	var pairs []string
	for _, b := range sum {
		pairs = append(pairs, hex.EncodeToString([]byte{b}))
	}
	return strings.Join(pairs, ":"), nil
}

func deleteKey(c *call) (*answer, error) {
	err := c.update(func(w *world) error {
		k, err := c.findKey(w)
		if err != nil {
			return err
		}
		w.Keys.remove(k.ID)
		w.use(k.Project).keys--
		return nil
	})
	if err != nil {
		return nil, err
	}
	if c.micro < 2 {
		return accepted(nil)
	}
	return noContent()
}

func listZones(c *call) (*answer, error) {
	views := []view{}
	err := c.view(func(w *world) error {
		for _, name := range w.Zones {
			views = append(views, view{"zoneName": name, "zoneState": view{"available": true}, "hosts": nil})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"availabilityZoneInfo": views})
}

func showLimits(c *call) (*answer, error) {
	var v view
	err := c.view(func(w *world) error {
		q, u := w.quota(c.who.project), w.use(c.who.project)
		v = view{
			"maxTotalInstances": q.Instances, "maxTotalCores": q.Cores, "maxTotalRAMSize": q.RAM, "maxServerMeta": 128,
			"maxTotalKeypairs": q.KeyPairs, "maxServerGroups": 10, "maxServerGroupMembers": 10, "totalServerGroupsUsed": 0,
			"totalInstancesUsed": u.instances, "totalCoresUsed": u.cores, "totalRAMUsed": u.ram,
		}
		if c.micro < 36 {
			v["maxSecurityGroups"], v["maxSecurityGroupRules"], v["maxTotalFloatingIps"] = -1, -1, -1
			v["totalFloatingIpsUsed"], v["totalSecurityGroupsUsed"] = 0, 0
		}
		if c.micro < 39 {
			v["maxImageMeta"] = 128
		}
		if c.micro < 57 {
			v["maxPersonality"], v["maxPersonalitySize"] = 5, 10240
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"limits": view{"rate": []any{}, "absolute": v}})
}

func showComputeQuota(c *call) (*answer, error) {
	return c.answerComputeQuota(func(limit, _ int64) any { return limit })
}

func showComputeQuotaUse(c *call) (*answer, error) {
	return c.answerComputeQuota(func(limit, used int64) any { return view{"in_use": used, "limit": limit, "reserved": 0} })
}

func (c *call) answerComputeQuota(show func(limit, used int64) any) (*answer, error) {
	project := c.request.PathValue("project")
	if project != c.who.project {
		return forbidCompute("os_compute_api:os-quota-sets:show")(c)
	}
	var v view
	err := c.view(func(w *world) error {
		q, u := w.quota(project), w.use(project)
		v = view{
			"id": project, "instances": show(q.Instances, u.instances), "cores": show(q.Cores, u.cores), "ram": show(q.RAM, u.ram),
			"key_pairs": show(q.KeyPairs, u.keys), "metadata_items": show(128, 0), "server_groups": show(10, 0),
			"server_group_members": show(10, 0),
		}
		if c.micro < 36 {
			v["floating_ips"], v["fixed_ips"] = show(-1, 0), show(-1, 0)
			v["security_groups"], v["security_group_rules"] = show(-1, 0), show(-1, 0)
		}
		if c.micro < 57 {
			v["injected_files"], v["injected_file_content_bytes"], v["injected_file_path_bytes"] = show(5, 0), show(10240, 0), show(255, 0)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(view{"quota_set": v})
}
