package sandboxcloud

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

func computeRoutes() []route {
	return []route{
		{compute, "GET", "/v2.1/servers", "server.list", false, false, listServersBriefly},
		{compute, "GET", "/v2.1/servers/detail", "server.list", false, false, listServers},
		{compute, "POST", "/v2.1/servers", "server.create", false, false, createServer},
		{compute, "GET", "/v2.1/servers/{id}", "server.show", false, false, showServer},
		{compute, "PUT", "/v2.1/servers/{id}", "server.update", false, false, updateServer},
		{compute, "DELETE", "/v2.1/servers/{id}", "server.delete", false, false, deleteServer},
		{compute, "POST", "/v2.1/servers/{id}/action", serverActions, false, false, serverAction},
		{compute, "GET", "/v2.1/servers/{id}/ips", "server.show", false, false, showServerAddresses},
		{compute, "GET", "/v2.1/servers/{id}/metadata", "server.show", false, false, showMetadata},
		{compute, "POST", "/v2.1/servers/{id}/metadata", "server.metadata", false, false, changeMetadata(false)},
		{compute, "PUT", "/v2.1/servers/{id}/metadata", "server.metadata", false, false, changeMetadata(true)},
		{compute, "DELETE", "/v2.1/servers/{id}/metadata/{key}", "server.metadata", false, false, deleteMetadata},
		{compute, "GET", "/v2.1/servers/{id}/tags", "server.show", false, false, showServerTags},
		{compute, "PUT", "/v2.1/servers/{id}/tags", "server.tags", false, false, replaceServerTags},
		{compute, "PUT", "/v2.1/servers/{id}/tags/{tag}", "server.tags", false, false, addServerTag},
		{compute, "DELETE", "/v2.1/servers/{id}/tags/{tag}", "server.tags", false, false, deleteServerTag},
		{compute, "GET", "/v2.1/servers/{id}/os-interface", "interface.list", false, false, listInterfaces},
		{compute, "POST", "/v2.1/servers/{id}/os-interface", "interface.create", false, false, attachInterface},
		{compute, "GET", "/v2.1/servers/{id}/os-security-groups", "server.show", false, false, showServerGroups},
		{compute, "GET", "/v2.1/servers/{id}/os-volume_attachments", "attachment.list", false, false, listAttachments},
		{compute, "POST", "/v2.1/servers/{id}/os-volume_attachments", "attachment.create", false, false, attachVolume},
		{compute, "DELETE", "/v2.1/servers/{id}/os-volume_attachments/{volume}", "attachment.delete", false, false, detachVolume},
		{compute, "GET", "/v2.1/flavors", "flavor.list", false, false, listFlavorsBriefly},
		{compute, "GET", "/v2.1/flavors/detail", "flavor.list", false, false, listFlavors},
		{compute, "GET", "/v2.1/flavors/{id}", "flavor.show", false, false, showFlavor},
		{compute, "GET", "/v2.1/flavors/{id}/os-extra_specs", "flavor.show", false, false, showFlavorSpecs},
		{compute, "GET", "/v2.1/os-keypairs", "keypair.list", false, false, listKeys},
		{compute, "POST", "/v2.1/os-keypairs", "keypair.create", false, false, createKey},
		{compute, "GET", "/v2.1/os-keypairs/{name}", "keypair.show", false, false, showKey},
		{compute, "DELETE", "/v2.1/os-keypairs/{name}", "keypair.delete", false, false, deleteKey},
		{compute, "GET", "/v2.1/limits", "limits.show", false, false, showLimits},
		{compute, "GET", "/v2.1/os-availability-zone", "zone.list", false, false, listZones},
		{compute, "GET", "/v2.1/os-availability-zone/detail", "zone.list", false, false, forbidCompute("os_compute_api:os-availability-zone:detail")},
		{compute, "GET", "/v2.1/os-hypervisors", "hypervisor.list", false, false, forbidCompute("os_compute_api:os-hypervisors:list")},
		{compute, "GET", "/v2.1/os-services", "compute_service.list", false, false, forbidCompute("os_compute_api:os-services:list")},
		{compute, "GET", "/v2.1/os-server-groups", "server_group.list", false, false, listServerGroups},
		{compute, "GET", "/v2.1/os-quota-sets/{project}", "compute_quota.show", false, false, showComputeQuota},
		{compute, "GET", "/v2.1/os-quota-sets/{project}/defaults", "compute_quota.show", false, false, showComputeQuota},
		{compute, "GET", "/v2.1/os-quota-sets/{project}/detail", "compute_quota.show", false, false, showComputeQuotaUse},
		{compute, "GET", "/v2.1/extensions", "extension.list", false, false, listComputeExtensions},
	}
}

func forbidCompute(rule string) func(*call) (*answer, error) {
	return func(*call) (*answer, error) {
		return nil, refuse(http.StatusForbidden, "Policy doesn't allow %s to be performed.", rule)
	}
}

func listComputeExtensions(*call) (*answer, error) { return ok(view{"extensions": []any{}}) }

func listServerGroups(*call) (*answer, error) { return ok(view{"server_groups": []any{}}) }

func jsonText(text *string) ([]byte, error) { return json.Marshal(text) }

func (c *call) findServer(w *cloudState) (*server, error) {
	s, found := w.Servers.get(c.id(), c.now)
	if !found || !c.owns(&s.base) {
		return nil, refuse(http.StatusNotFound, "Instance %s could not be found.", c.id())
	}
	return s, nil
}

func listServers(c *call) (*answer, error) {
	return answerServers(c, func(w *cloudState, s *server) any { return c.serverView(w, s) })
}

func listServersBriefly(c *call) (*answer, error) {
	return answerServers(c, func(_ *cloudState, s *server) any { return c.briefServer(s) })
}

func answerServers(c *call, show func(*cloudState, *server) any) (*answer, error) {
	limit, err := c.limit(c.cloud.options.PageLimit, c.cloud.options.PageLimit)
	if err != nil {
		return nil, err
	}
	filter, err := c.serverFilter()
	if err != nil {
		return nil, err
	}
	views := []any{}
	var last string
	err = c.view(func(w *cloudState) error {
		servers, err := c.selectServers(w, filter, limit)
		if err != nil {
			return err
		}
		for _, s := range servers {
			views = append(views, show(w, s))
			last = s.ID
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	body := view{"servers": views}
	if len(views) == limit && limit > 0 {
		body["servers_links"] = []any{linkView{"next", c.nextURL(c.base()+c.request.URL.Path, last)}}
	}
	return ok(body)
}

// listKind returns nova's name of the requested list.
func (c *call) listKind() string {
	if strings.HasSuffix(c.request.URL.Path, "/detail") {
		return "detail"
	}
	return "index"
}

// selectServers returns one page.
func (c *call) selectServers(w *cloudState, filter serverFilter, limit int) ([]*server, error) {
	from := len(w.Servers.rows) // newest first, so this is the index before which the page starts
	marker := c.query.Get("marker")
	sorted := len(c.query["sort_key"]) > 0
	if marker != "" {
		s, known := w.Servers.byID[marker]
		if !known || !c.owns(&s.base) {
			return nil, badRequest("marker [%s] not found", marker)
		}
		from = w.Servers.index(s.Seq)
	}
	if sorted {
		from = len(w.Servers.rows)
	}
	var page []*server
	for _, s := range slices.Backward(w.Servers.rows[:from]) {
		if !s.listed(c.now) || !c.owns(&s.base) || !filter(w, s) {
			continue
		}
		if page = append(page, s); len(page) == limit && !sorted {
			return page, nil
		}
	}
	if !sorted {
		return page, nil
	}
	return c.sortedPage(page, marker, limit)
}

func (c *call) sortedPage(servers []*server, marker string, limit int) ([]*server, error) {
	if err := c.sortServers(servers); err != nil {
		return nil, err
	}
	if marker != "" {
		at := slices.IndexFunc(servers, func(s *server) bool { return s.ID == marker })
		servers = servers[at+1:]
	}
	return servers[:min(limit, len(servers))], nil
}

type serverFilter func(*cloudState, *server) bool

// serverFilter combines the filters that a project member may use; like nova, it ignores others.
func (c *call) serverFilter() (serverFilter, error) {
	if all := strings.ToLower(c.query.Get("all_tenants")); all == "1" || all == "true" {
		return nil, refuse(http.StatusForbidden, "Policy doesn't allow os_compute_api:servers:%s:get_all_tenants to be performed.", c.listKind())
	}
	var all []serverFilter
	add := func(f serverFilter) { all = append(all, f) }
	for name := range c.query {
		if err := c.addServerFilter(name, c.query.Get(name), add); err != nil {
			return nil, err
		}
	}
	return func(w *cloudState, s *server) bool {
		return !slices.ContainsFunc(all, func(f serverFilter) bool { return !f(w, s) })
	}, nil
}

func (c *call) addServerFilter(name, value string, add func(serverFilter)) error {
	switch name {
	case "name", "ip", "ip6":
		expression, err := regexp.Compile(value) // compute matches names as MySQL regular expressions
		if err != nil {
			return badRequest("Invalid input for query parameters %s. Value: %s. '%s' is not a 'regex'", name, value, value)
		}
		add(func(w *cloudState, s *server) bool { return c.textFits(w, s, name, expression) })
	case "status":
		wanted := c.query["status"]
		add(func(_ *cloudState, s *server) bool {
			return slices.ContainsFunc(wanted, func(one string) bool { return strings.EqualFold(one, s.Status) })
		})
	case "image":
		add(func(_ *cloudState, s *server) bool { return s.Image == value })
	case "flavor":
		add(func(_ *cloudState, s *server) bool { return s.Flavor == value })
	case "reservation_id":
		add(func(_ *cloudState, s *server) bool { return s.Reservation == value })
	case "tags", "tags-any", "not-tags", "not-tags-any":
		if c.micro >= 26 {
			add(func(_ *cloudState, s *server) bool { return tagsFit(name, value, s.Tags) })
		}
	case "changes-since":
		since, err := parseChange(value)
		if err != nil {
			return err
		}
		add(func(_ *cloudState, s *server) bool { return !s.Updated.Before(since) })
	default:
		c.addNewServerFilter(name, value, add)
	}
	return nil
}

// addNewServerFilter adds the filters that members may use since microversion 2.83.
func (c *call) addNewServerFilter(name, value string, add func(serverFilter)) {
	if c.micro < 83 {
		return
	}
	switch name {
	case "availability_zone":
		add(func(_ *cloudState, s *server) bool { return s.Zone == value })
	case "key_name":
		add(func(_ *cloudState, s *server) bool { return s.Key == value })
	case "vm_state":
		add(func(_ *cloudState, s *server) bool { return vmState(s.Status) == value })
	case "task_state":
		add(func(_ *cloudState, s *server) bool { return s.Task == value })
	}
}

func (c *call) textFits(w *cloudState, s *server, field string, expression *regexp.Regexp) bool {
	if field == "name" {
		return expression.MatchString(s.Name)
	}
	for _, addresses := range c.addressesOf(w, s) {
		for _, a := range addresses {
			if (a.Version == 4) == (field == "ip") && expression.MatchString(a.Address) {
				return true
			}
		}
	}
	return false
}

// withServer responds to a request for one server, under the read lock or, for changes, the write lock.
func (c *call) withServer(fn func(*cloudState, *server) (*answer, error)) (a *answer, err error) {
	run := c.update
	if c.request.Method == http.MethodGet {
		run = c.view
	}
	err = run(func(w *cloudState) error {
		s, err := c.findServer(w)
		if err != nil {
			return err
		}
		a, err = fn(w, s)
		return err
	})
	return a, err
}

func showServer(c *call) (*answer, error) {
	return c.withServer(func(w *cloudState, s *server) (*answer, error) {
		v := c.serverView(w, s)
		if c.micro >= 71 {
			v.ServerGroups = &[]string{}
		}
		return ok(view{"server": v})
	})
}

func deleteServer(c *call) (*answer, error) {
	return c.withServer(func(w *cloudState, s *server) (*answer, error) {
		if s.Locked {
			return nil, refuse(http.StatusConflict, "Instance %s is locked", s.ID)
		}
		if s.Task != "deleting" {
			s.HiddenFrom = c.lingers().Add(c.cloud.options.DeleteTime)
			w.scheduleDelete(c, s)
		}
		return noContent()
	})
}

// scheduleDelete starts the deletion of a server, immediately or after the delay of a fault.
func (w *cloudState) scheduleDelete(c *call, s *server) {
	end := c.now.Add(c.cloud.options.DeleteTime)
	if f, late := c.effect(LateEffect); late {
		w.schedule(end.Add(f.Delay), serverGoes, s.ID, "")
		return
	}
	s.Task = "deleting"
	s.touch(c.now)
	if f, fails := c.effect(DeleteFails); fails {
		text := f.Message
		if text == "" {
			text = "Failed to terminate the instance."
		}
		w.schedule(end, deleteFails, s.ID, text)
		return
	}
	w.schedule(end, serverGoes, s.ID, "")
}
