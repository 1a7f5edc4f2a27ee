package emulator

import (
	"net/http"
	"slices"
)

// discoveryRoutes are the version documents of the services. Each service has its own format.
func discoveryRoutes() []route {
	return []route{
		{identity, "GET", "", "version.list", true, false, identityVersions},
		{identity, "GET", "/v3", "version.show", true, false, identityVersion},
		{imaging, "GET", "", "version.list", true, false, imageVersions(http.StatusMultipleChoices)},
		{imaging, "GET", "/versions", "version.list", true, false, imageVersions(http.StatusOK)},
		{compute, "GET", "", "version.list", true, false, computeVersions},
		{compute, "GET", "/v2.1", "version.show", true, false, computeVersion},
		{neutron, "GET", "", "version.list", true, false, networkVersions},
		{cinder, "GET", "", "version.list", true, false, volumeVersions(http.StatusMultipleChoices)},
		{cinder, "GET", "/v3", "version.show", false, false, volumeVersions(http.StatusOK)},
	}
}

func self(url string) []any {
	return []any{map[string]any{"rel": "self", "href": url}}
}

func identityVersionView(root string) map[string]any {
	return map[string]any{
		"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z", "links": self(root + "/identity/v3/"),
		"media-types": []any{map[string]any{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}},
	}
}

func identityVersions(c *call) (*answer, error) {
	a := &answer{status: http.StatusMultipleChoices, body: map[string]any{
		"versions": map[string]any{"values": []any{identityVersionView(c.base())}},
	}}
	return a.with("Location", c.base()+"/identity/v3/"), nil
}

func identityVersion(c *call) (*answer, error) {
	return ok(map[string]any{"version": identityVersionView(c.base())})
}

func imageVersions(status int) func(*call) (*answer, error) {
	return func(c *call) (*answer, error) {
		ids := []string{"v2.16", "v2.15", "v2.14", "v2.9", "v2.7", "v2.6", "v2.5", "v2.4", "v2.3", "v2.2", "v2.1", "v2.0"}
		list := make([]any, 0, len(ids))
		for _, id := range ids {
			state := "SUPPORTED"
			if id == "v2.16" {
				state = "CURRENT"
			}
			list = append(list, map[string]any{"id": id, "status": state, "links": self(c.base() + "/image/v2/")})
		}
		return &answer{status: status, body: map[string]any{"versions": list}}, nil
	}
}

func computeVersionView(root string) map[string]any {
	return map[string]any{
		"id": "v2.1", "status": "CURRENT", "version": newestMicro.String(), "min_version": oldestMicro.String(),
		"updated": "2013-07-23T11:33:21Z", "links": self(root + "/compute/v2.1/"),
	}
}

func computeVersions(c *call) (*answer, error) {
	old := map[string]any{
		"id": "v2.0", "status": "SUPPORTED", "version": "", "min_version": "", "updated": "2011-01-21T11:33:21Z",
		"links": self(c.base() + "/compute/v2/"),
	}
	return ok(map[string]any{"versions": []any{old, computeVersionView(c.base())}})
}

func computeVersion(c *call) (*answer, error) {
	view := computeVersionView(c.base())
	view["links"] = append(view["links"].([]any), map[string]any{
		"rel": "describedby", "type": "text/html", "href": "http://docs.openstack.org/",
	})
	view["media-types"] = []any{map[string]any{"base": "application/json", "type": "application/vnd.openstack.compute+json;version=2.1"}}
	return ok(map[string]any{"version": view})
}

func networkVersions(c *call) (*answer, error) {
	return ok(map[string]any{"versions": []any{map[string]any{
		"id": "v2.0", "status": "CURRENT", "links": self(c.base() + "/networking/v2.0/"),
	}}})
}

func volumeVersions(status int) func(*call) (*answer, error) {
	return func(c *call) (*answer, error) {
		return &answer{status: status, body: map[string]any{"versions": []any{map[string]any{
			"id": "v3.0", "status": "CURRENT", "version": volumeMaximum, "min_version": "3.0", "updated": "2022-08-31T00:00:00Z",
			"links":       append(self(c.base()+"/volume/v3/"), map[string]any{"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"}),
			"media-types": []any{map[string]any{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}},
		}}}}, nil
	}
}

// operations lists the operation names for faults and counts.
func operations() []string {
	names := []string{serverSnapshots, serverSSH, serverCommands}
	for _, routes := range [][]route{
		discoveryRoutes(), identityRoutes(), imageRoutes(), computeRoutes(), networkRoutes(), volumeRoutes(),
	} {
		for _, r := range routes {
			names = append(names, r.operation)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// knownOperation reports whether the pattern matches an operation.
func knownOperation(pattern string) bool {
	return slices.ContainsFunc(operations(), newGlob(pattern).match)
}
