package emulator

import (
	"net/http"
	"time"
)

// Every cloud has these users, each in a project of the same name. Other owns the objects of other users.
const (
	Region   = "RegionOne"
	Domain   = "Default"
	User     = "npctl"
	Other    = "other"
	Password = "emulator" // an emulator needs no secret
)

const domainID = "default"

type project struct {
	base
	Name string `json:"name"`
}

type user struct {
	base         // Project is the default project
	Name  string `json:"name"`
	Pass  string `json:"password"`
	Roles []role `json:"roles"`
}

type role struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// appCredential authenticates as a user within one project.
type appCredential struct {
	base
	Name        string     `json:"name"`
	User        string     `json:"user"`
	Description string     `json:"description"`
	SecretHash  string     `json:"secret_hash"`
	Expires     *time.Time `json:"expires"`
	Unbounded   bool       `json:"unrestricted"`
}

func identityRoutes() []route {
	return []route{
		{identity, "POST", "/v3/auth/tokens", "token.create", true, false, createToken},
		{identity, "GET", "/v3/auth/tokens", "token.show", false, false, showToken},
		{identity, "DELETE", "/v3/auth/tokens", "token.delete", false, false, deleteToken},
		{identity, "GET", "/v3/auth/catalog", "catalog.list", false, false, showCatalog},
		{identity, "GET", "/v3/auth/projects", "project.list", false, false, listOwnProjects},
		{identity, "GET", "/v3/auth/domains", "domain.list", false, false, listOwnDomains},
		{identity, "GET", "/v3/users/{user}/projects", "project.list", false, false, listOwnProjects},
		{identity, "GET", "/v3/projects/{id}", "project.show", false, false, showProject},
		{identity, "GET", "/v3/projects", "project.list", false, false, forbidIdentity("identity:list_projects")},
		{identity, "GET", "/v3/users/{user}", "user.show", false, false, showUser},
		{identity, "GET", "/v3/users", "user.list", false, false, forbidIdentity("identity:list_users")},
		{identity, "GET", "/v3/domains", "domain.list", false, false, forbidIdentity("identity:list_domains")},
		{identity, "GET", "/v3/domains/{id}", "domain.show", false, false, forbidIdentity("identity:get_domain")},
		{identity, "GET", "/v3/services", "service.list", false, false, forbidIdentity("identity:list_services")},
		{identity, "GET", "/v3/endpoints", "endpoint.list", false, false, forbidIdentity("identity:list_endpoints")},
		{identity, "GET", "/v3/regions", "region.list", false, false, listRegions},
		{identity, "GET", "/v3/users/{user}/application_credentials", "application_credential.list", false, false, listCredentials},
		{identity, "POST", "/v3/users/{user}/application_credentials", "application_credential.create", false, false, createCredential},
		{identity, "GET", "/v3/users/{user}/application_credentials/{id}", "application_credential.show", false, false, showCredential},
		{identity, "DELETE", "/v3/users/{user}/application_credentials/{id}", "application_credential.delete", false, false, deleteCredential},
	}
}

func forbidIdentity(rule string) func(*call) (*answer, error) {
	return func(*call) (*answer, error) {
		return nil, refuse(http.StatusForbidden, "You are not authorized to perform the requested action: %s.", rule)
	}
}

func projectView(root string, p *project) map[string]any {
	return map[string]any{
		"id": p.ID, "name": p.Name, "domain_id": domainID, "description": "", "enabled": true, "parent_id": domainID,
		"is_domain": false, "tags": []string{}, "options": map[string]any{},
		"links": map[string]any{"self": root + "/identity/v3/projects/" + p.ID},
	}
}

func listOwnProjects(c *call) (*answer, error) {
	list := []any{}
	err := c.view(func(w *cloudState) error {
		if p, found := w.Projects.get(c.who.project, c.now); found {
			list = append(list, projectView(c.base(), p))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(map[string]any{"projects": list, "links": c.selfLinks()})
}

func (c *call) selfLinks() map[string]any {
	return map[string]any{"self": c.base() + c.request.URL.Path, "previous": nil, "next": nil}
}

func showProject(c *call) (*answer, error) {
	if c.id() != c.who.project {
		return forbidIdentity("identity:get_project")(c)
	}
	var view any
	err := c.view(func(w *cloudState) error {
		p, found := w.Projects.get(c.id(), c.now)
		if !found {
			return refuse(http.StatusNotFound, "Could not find project: %s.", c.id())
		}
		view = projectView(c.base(), p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return ok(map[string]any{"project": view})
}

func showUser(c *call) (*answer, error) {
	if c.request.PathValue("user") != c.who.user {
		return forbidIdentity("identity:get_user")(c)
	}
	return ok(map[string]any{"user": map[string]any{
		"id": c.who.user, "name": c.who.name, "domain_id": domainID, "enabled": true, "default_project_id": c.who.project,
		"password_expires_at": nil, "options": map[string]any{},
		"links": map[string]any{"self": c.base() + "/identity/v3/users/" + c.who.user},
	}})
}

func listOwnDomains(c *call) (*answer, error) {
	return ok(map[string]any{"domains": []any{}, "links": c.selfLinks()})
}

func listRegions(c *call) (*answer, error) {
	return ok(map[string]any{"regions": []any{map[string]any{
		"id": Region, "description": "", "parent_region_id": nil,
		"links": map[string]any{"self": c.base() + "/identity/v3/regions/" + Region},
	}}, "links": c.selfLinks()})
}
