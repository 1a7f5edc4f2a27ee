//go:build integration

package integration

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestOpenStackRemovedProviderKeepsItsObjects removes the provider and its image from the configuration while one node is
// in use and one is ready. npctl forgets them, and the servers and the image stay without ownership tags.
func TestOpenStackRemovedProviderKeepsItsObjects(t *testing.T) {
	t.Parallel()
	p, _, at := watched(t, movable)
	before := p.things()
	d := at.watch()
	at.eventuallyCensus("ready:1")
	used := at.takeNodes("small")
	at.eventuallyCensus("in-use:1 ready:1")
	d.Stop()
	made := without(p.things(), before)

	at.write(settings + `
removed {
  from = provider.acme
  lifecycle { destroy = false }
}
removed {
  from = diskimage.blank
  lifecycle { destroy = false }
}
`)
	at.mustRun(0, "plan").contains("a removed block names it, and the object stays", "is in-use and is forgotten when it is returned", " to forget, 0 to delete.")
	at.mustRun(0, "apply", "-auto-approve").contains(" forgotten, 0 deleted.")
	d = at.watch()
	at.eventuallyCensus("in-use:1")
	at.returnNodes(used...)
	at.eventuallyCensus("")
	d.Stop()
	at.mustRun(0, "apply", "-auto-approve") // forgets the provider, unless the daemon has done so before its end
	at.nothingToDo()
	at.mustRun(0, "destroy", "-auto-approve", "-allow-destroy=all")
	if now := without(p.things(), before); !slices.Equal(slices.Sorted(maps.Keys(now)), slices.Sorted(maps.Keys(made))) {
		t.Errorf("objects were %v, are %v", lines(made), lines(now))
	}
	for _, s := range p.do(t, http.MethodGet, compute, "servers/detail", nil)["servers"].([]any) {
		server := s.(object)
		for name := range server["metadata"].(object) {
			if strings.HasPrefix(name, "npctl") {
				t.Errorf("server %v still has metadata %s", server["id"], name)
			}
		}
		p.do(t, http.MethodDelete, compute, "servers/"+text(server["id"]), nil)
	}
	for _, i := range p.do(t, http.MethodGet, image, "images?owner="+p.id, nil)["images"].([]any) {
		one := i.(object)
		if one["npctl_installation"] != nil || slices.Contains(one["tags"].([]any), any("npctl")) {
			t.Errorf("image %v still has ownership tags: %v", one["id"], one)
		}
		p.do(t, http.MethodDelete, image, "images/"+text(one["id"]), nil)
	}
	eventually(t, "only the objects of the project are left", func() bool { return len(without(p.things(), before)) == 0 })
}
