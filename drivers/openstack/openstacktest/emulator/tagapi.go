package emulator

import (
	"net/http"
	"slices"
)

// tagRoutes are the same for every taggable type of object in neutron.
func tagRoutes() []route {
	kinds := []string{"networks", "subnets", "ports", "floatingips", "security-groups"}
	routes := make([]route, 0, 6*len(kinds))
	for _, kind := range kinds {
		root := "/v2.0/" + kind + "/{id}/tags"
		routes = append(routes,
			route{neutron, "GET", root, "network_tag.list", false, false, withTags(kind, showTags)},
			route{neutron, "PUT", root, "network_tag.replace", false, false, withTags(kind, replaceTags)},
			route{neutron, "DELETE", root, "network_tag.clear", false, false, withTags(kind, clearTags)},
			route{neutron, "GET", root + "/{tag}", "network_tag.show", false, false, withTags(kind, hasTag)},
			route{neutron, "PUT", root + "/{tag}", "network_tag.add", false, false, withTags(kind, addTag)},
			route{neutron, "DELETE", root + "/{tag}", "network_tag.delete", false, false, withTags(kind, dropTag)},
		)
	}
	return routes
}

// tagged finds the tags of an object.
func (c *call) tagged(w *cloudState, kind string) (*base, *[]string, error) {
	switch kind {
	case "networks":
		n, err := c.findNetwork(w, c.id())
		if err != nil {
			return nil, nil, err
		}
		return &n.base, &n.Tags, nil
	case "subnets":
		s, err := c.findSubnet(w, c.id())
		if err != nil {
			return nil, nil, err
		}
		return &s.base, &s.Tags, nil
	case "ports":
		p, err := c.findPort(w, c.id())
		if err != nil {
			return nil, nil, err
		}
		return &p.base, &p.Tags, nil
	case "floatingips":
		f, err := c.findFloatingIP(w, c.id())
		if err != nil {
			return nil, nil, err
		}
		return &f.base, &f.Tags, nil
	default:
		g, err := c.findGroupByID(w, c.id())
		if err != nil {
			return nil, nil, err
		}
		return &g.base, &g.Tags, nil
	}
}

// tagChange changes the tags of one object.
type tagChange func(c *call, tags *[]string) (*answer, error)

func withTags(kind string, change tagChange) func(*call) (*answer, error) {
	return func(c *call) (a *answer, err error) {
		run := c.update
		if c.request.Method == http.MethodGet {
			run = c.view
		}
		err = run(func(w *cloudState) error {
			b, tags, err := c.tagged(w, kind)
			if err != nil {
				return err
			}
			if a, err = change(c, tags); err == nil && c.request.Method != http.MethodGet {
				b.touch(c.now)
			}
			return err
		})
		return a, err
	}
}

func showTags(_ *call, tags *[]string) (*answer, error) {
	return ok(view{"tags": slices.Clone(list(*tags))})
}

func replaceTags(c *call, tags *[]string) (*answer, error) {
	var in struct {
		Tags []string `json:"tags"`
	}
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	slices.Sort(in.Tags)
	*tags = slices.Compact(in.Tags)
	return showTags(c, tags)
}

func clearTags(_ *call, tags *[]string) (*answer, error) {
	*tags = nil
	return noContent()
}

func hasTag(c *call, tags *[]string) (*answer, error) {
	if !slices.Contains(*tags, c.request.PathValue("tag")) {
		return nil, notFound("TagNotFound", "Tag %s could not be found.", c.request.PathValue("tag"))
	}
	return noContent()
}

func addTag(c *call, tags *[]string) (*answer, error) {
	if tag := c.request.PathValue("tag"); !slices.Contains(*tags, tag) {
		*tags = append(slices.Clone(*tags), tag)
	}
	return &answer{status: http.StatusCreated}, nil
}

func dropTag(c *call, tags *[]string) (*answer, error) {
	at := slices.Index(*tags, c.request.PathValue("tag"))
	if at < 0 {
		return nil, notFound("TagNotFound", "Tag %s could not be found.", c.request.PathValue("tag"))
	}
	*tags = slices.Delete(slices.Clone(*tags), at, at+1)
	return noContent()
}
