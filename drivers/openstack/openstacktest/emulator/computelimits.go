package emulator

func listZones(c *call) (*answer, error) {
	views := []view{}
	err := c.view(func(w *cloudState) error {
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
	err := c.view(func(w *cloudState) error {
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

func (c *call) answerComputeQuota(show func(limit, used int64) any) (*answer, error) {
	project := c.request.PathValue("project")
	if project != c.who.project {
		return forbidCompute("os_compute_api:os-quota-sets:show")(c)
	}
	var v view
	err := c.view(func(w *cloudState) error {
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
