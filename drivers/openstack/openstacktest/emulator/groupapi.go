package emulator

import (
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
)

func listGroups(c *call) (*answer, error) {
	return listOf(c, "security_groups", func(w *cloudState) iter.Seq[*securityGroup] { return w.Groups.oldestFirst(c.now) },
		func(_ *cloudState, g *securityGroup) bool { return c.owns(&g.base) }, (*cloudState).groupView)
}

func (by scope) findGroupByID(w *cloudState, id string) (*securityGroup, error) {
	g, found := w.Groups.get(id, by.now)
	if !found || !by.owns(&g.base) {
		return nil, notFound("SecurityGroupNotFound", "Security group %s does not exist", id)
	}
	return g, nil
}

func showGroup(c *call) (*answer, error) {
	return showOne(c, "security_group", c.findGroupByID, (*cloudState).groupView)
}

func createGroup(c *call) (*answer, error) {
	var in struct {
		Group struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			Stateful    *bool  `json:"stateful"`
		} `json:"security_group"`
	}
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	if in.Group.Name == "default" {
		return nil, refuseNeutron(http.StatusConflict, "SecurityGroupDefaultAlreadyExists", "Default security group already exists.")
	}
	var v view
	err := c.update(func(w *cloudState) error {
		if err := checkNetworkQuota(w, c.who.project, "security_group", 1); err != nil {
			return err
		}
		g := w.newGroup(c.who.project, in.Group.Name, in.Group.Description, c.now)
		set(&g.Stateful, in.Group.Stateful)
		v = w.groupView(g)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return created(view{"security_group": v})
}

// newGroup creates a security group, which permits all outgoing traffic like every new group.
func (ns *networkState) newGroup(project, name, description string, now time.Time) *securityGroup {
	g := &securityGroup{base: ns.events.newBase(project, now), Name: name, Description: description, Stateful: true}
	for _, version := range []string{"IPv4", "IPv6"} {
		g.Rules = append(g.Rules, groupRule{ID: uuid.NewString(), Created: now, Direction: "egress", EtherType: version})
	}
	ns.Groups.add(g)
	ns.quotas.use(project).groups++
	return g
}

func deleteGroup(c *call) (*answer, error) {
	err := c.update(func(w *cloudState) error {
		g, err := c.findGroupByID(w, c.id())
		if err != nil {
			return err
		}
		if g.Name == "default" {
			return refuseNeutron(http.StatusConflict, "SecurityGroupCannotRemoveDefault", "Insufficient rights for removing default security group.")
		}
		for _, p := range w.Ports.rows {
			if slices.Contains(p.Groups, g.ID) && !p.Gone {
				return refuseNeutron(http.StatusConflict, "SecurityGroupInUse", "Security Group %s in use.", g.ID)
			}
		}
		w.Groups.remove(g.ID)
		w.use(g.Project).groups--
		return nil
	})
	if err != nil {
		return nil, err
	}
	return noContent()
}

func listRules(c *call) (*answer, error) {
	var views []view
	err := c.view(func(w *cloudState) error {
		for g := range w.Groups.oldestFirst(c.now) {
			for _, r := range g.Rules {
				if c.owns(&g.base) {
					views = append(views, g.ruleView(r))
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.neutronQuery().answer("security_group_rules", views)
}

func createRule(c *call) (*answer, error) {
	var in struct {
		Rule struct {
			Group string `json:"security_group_id"`
			groupRule
		} `json:"security_group_rule"`
	}
	if err := c.decodeLoosely(&in); err != nil {
		return nil, err
	}
	r := in.Rule.groupRule
	r.ID, r.Created = uuid.NewString(), c.now
	if r.EtherType == "" {
		r.EtherType = "IPv4"
	}
	var v view
	err := c.update(func(w *cloudState) error {
		g, err := c.findGroupByID(w, in.Rule.Group)
		if err != nil {
			return err
		}
		g.Rules = append(g.Rules, r)
		v = g.ruleView(r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return created(view{"security_group_rule": v})
}
