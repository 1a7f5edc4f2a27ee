package emulator

import (
	"encoding/json"
	"net/http"
)

func computeRoutes() []route {
	return []route{
		{compute, "GET", "/v2.1/servers", "server.list", false, false, listServersBriefly},
		{compute, "GET", "/v2.1/servers/detail", "server.list", false, false, listServers},
		{compute, "POST", "/v2.1/servers", "server.create", false, false, createServer},
		{compute, "GET", "/v2.1/servers/{id}", "server.show", false, false, showServer},
		{compute, "DELETE", "/v2.1/servers/{id}", "server.delete", false, false, deleteServer},
		{compute, "POST", "/v2.1/servers/{id}/action", serverActions, false, false, serverAction},
		{compute, "POST", "/v2.1/servers/{id}/metadata", "server.metadata", false, false, changeMetadata(false)},
		{compute, "PUT", "/v2.1/servers/{id}/metadata", "server.metadata", false, false, changeMetadata(true)},
		{compute, "DELETE", "/v2.1/servers/{id}/metadata/{key}", "server.metadata", false, false, deleteMetadata},
		{compute, "DELETE", "/v2.1/servers/{id}/tags/{tag}", "server.tags", false, false, deleteServerTag},
		{compute, "POST", "/v2.1/servers/{id}/os-interface", "interface.create", false, false, attachInterface},
		{compute, "POST", "/v2.1/servers/{id}/os-volume_attachments", "attachment.create", false, false, attachVolume},
		{compute, "DELETE", "/v2.1/servers/{id}/os-volume_attachments/{volume}", "attachment.delete", false, false, detachVolume},
		{compute, "GET", "/v2.1/flavors", "flavor.list", false, false, listFlavorsBriefly},
		{compute, "GET", "/v2.1/flavors/detail", "flavor.list", false, false, listFlavors},
		{compute, "GET", "/v2.1/flavors/{id}", "flavor.show", false, false, showFlavor},
		{compute, "GET", "/v2.1/flavors/{id}/os-extra_specs", "flavor.show", false, false, showFlavorSpecs},
		{compute, "GET", "/v2.1/os-keypairs", "keypair.list", false, false, listKeys},
		{compute, "POST", "/v2.1/os-keypairs", "keypair.create", false, false, createKey},
		{compute, "DELETE", "/v2.1/os-keypairs/{name}", "keypair.delete", false, false, deleteKey},
		{compute, "GET", "/v2.1/limits", "limits.show", false, false, showLimits},
		{compute, "GET", "/v2.1/os-availability-zone", "zone.list", false, false, listZones},
		{compute, "GET", "/v2.1/os-availability-zone/detail", "zone.list", false, false, forbidCompute("os_compute_api:os-availability-zone:detail")},
		{compute, "GET", "/v2.1/os-quota-sets/{project}", "compute_quota.show", false, false, showComputeQuota},
		{compute, "GET", "/v2.1/os-quota-sets/{project}/defaults", "compute_quota.show", false, false, showComputeQuota},
	}
}

func forbidCompute(rule string) func(*call) (*answer, error) {
	return func(*call) (*answer, error) {
		return nil, refuse(http.StatusForbidden, "Policy doesn't allow %s to be performed.", rule)
	}
}

func jsonText(text *string) ([]byte, error) { return json.Marshal(text) }

func (c *call) findServer(w *cloudState) (*server, error) {
	s, found := w.Servers.get(c.id(), c.now)
	if !found || !c.owns(&s.base) {
		return nil, refuse(http.StatusNotFound, "Instance %s could not be found.", c.id())
	}
	return s, nil
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
		v := c.views().serverView(w, s)
		if c.micro >= 71 {
			v.ServerGroups = &[]string{}
		}
		return ok(view{"server": v})
	})
}

func deleteServer(c *call) (*answer, error) {
	return c.withServer(func(w *cloudState, s *server) (*answer, error) {
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
