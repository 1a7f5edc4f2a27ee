//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// thing is an object in a project, of npctl or foreign.
type thing struct {
	kind, name, state, changed string
	object                     object
}

func (t thing) String() string { return fmt.Sprintf("%s %q %s %s", t.kind, t.name, t.state, t.changed) }

// kinds lists the kinds of things, with their listings.
var kinds = []struct{ kind, service, path, key, changed string }{
	{"server", compute, "servers/detail", "servers", "updated"},
	{"image", image, "images?limit=500&owner=PROJECT", "images", "updated_at"},
	{"volume", volume, "volumes/detail", "volumes", "updated_at"},
	{"port", network, "ports?project_id=PROJECT", "ports", "updated_at"},
	{"floating IP", network, "floatingips?project_id=PROJECT", "floatingips", "updated_at"},
	{"network", network, "networks?project_id=PROJECT", "networks", "updated_at"},
	{"router", network, "routers?project_id=PROJECT", "routers", "updated_at"},
	{"key pair", compute, "os-keypairs", "keypairs", ""},
	{"security group", network, "security-groups?project_id=PROJECT", "security_groups", "updated_at"},
}

// things returns all things in the project, by ID.
func (p *project) things() map[string]thing {
	p.t.Helper()
	return p.thingsOfKind("")
}

// thingsOfKind returns the things of one kind, or all things if kind is empty.
func (p *project) thingsOfKind(kind string) map[string]thing {
	p.t.Helper()
	all := map[string]thing{}
	for _, k := range kinds {
		if kind != "" && k.kind != kind {
			continue
		}
		for _, o := range p.list(p.t, k.service, strings.ReplaceAll(k.path, "PROJECT", p.id), k.key) {
			if pair, ok := o["keypair"].(object); ok { // Nova identifies it by its name
				o = object{"id": k.kind + " " + text(pair["name"]), "name": pair["name"]}
			}
			all[o["id"].(string)] = thing{k.kind, text(o["name"]), text(o["status"]), text(o[k.changed]), o}
		}
	}
	return all
}

func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

// of returns the things of a kind, sorted by name.
func of(all map[string]thing, kind string) []thing {
	var found []thing
	for _, t := range all {
		if t.kind == kind {
			found = append(found, t)
		}
	}
	slices.SortFunc(found, func(a, b thing) int { return strings.Compare(a.name, b.name) })
	return found
}

// without returns the things in all that are not in before.
func without(all, before map[string]thing) map[string]thing {
	rest := map[string]thing{}
	for id, t := range all {
		if _, old := before[id]; !old {
			rest[id] = t
		}
	}
	return rest
}

// count returns the number of things of each kind.
func count(all map[string]thing) map[string]int {
	n := map[string]int{}
	for _, t := range all {
		n[t.kind]++
	}
	return n
}

// mustBe fails the test unless the project contains the same things as before, all unchanged.
func (p *project) mustBe(before map[string]thing) {
	p.t.Helper()
	if diff := cmp.Diff(lines(before), lines(p.things())); diff != "" {
		p.t.Errorf("the project is not as it was (-before +after):\n%s", diff)
	}
}

func lines(all map[string]thing) []string {
	var shown []string
	for id, t := range all {
		shown = append(shown, t.String()+" "+id)
	}
	slices.Sort(shown)
	return shown
}

// nodes returns the servers with npctl's ownership tags, by ID.
func (p *project) nodes() map[string]object {
	p.t.Helper()
	found := map[string]object{}
	for id, t := range p.thingsOfKind("server") {
		if marks, ok := t.object["metadata"].(object); ok && marks["npctl_installation"] != nil {
			found[id] = t.object
		}
	}
	return found
}

// mustHave fails the test unless the project contains the wanted number of additional things of each kind, and at most
// one server for each node.
func (p *project) mustHave(before map[string]thing, want map[string]int) {
	p.t.Helper()
	more := without(p.things(), before)
	got := count(more)
	delete(got, "port") // ports of servers, floating IPs and routers
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("things beside those that were there before (-want +got):\n%s\n%s", diff, strings.Join(lines(more), "\n"))
	}
	ids := map[any]string{}
	for id, server := range p.nodes() {
		node := server["metadata"].(object)["npctl_node_id"]
		if other, twice := ids[node]; twice {
			p.t.Errorf("node %v has two servers: %s and %s", node, id, other)
		}
		ids[node] = id
	}
}
