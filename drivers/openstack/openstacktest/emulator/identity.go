package emulator

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

func identityRoutes() []route {
	return []route{
		{identity, "POST", "/v3/auth/tokens", "token.create", true, false, createToken},
		{identity, "GET", "/v3/auth/projects", "project.list", false, false, listOwnProjects},
		{identity, "GET", "/v3/users/{user}/projects", "project.list", false, false, listOwnProjects},
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
