package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// withImports adds imports of a server and of an image to one cloud with a label that needs no nodes.
func withImports(server, image string) string {
	config := strings.Replace(oneCloud(), "min_ready = 2", "min_ready = 0", 1)
	return config + `
import {
  to = provider.one.pool.main.label.small
  id = "` + server + `"
}
import {
  to = provider.one.image.debian
  id = "` + image + `"
}
`
}

// handmade creates a server and an image as a person does, and returns their IDs.
func (l *lab) handmade(t *testing.T) (server, image string) {
	t.Helper()
	cloud := l.driver.Clouds["one"]
	server, err := cloud.AddServer(emulator.ForeignServer{Name: "precious"})
	testutil.Must(t, err)
	things, err := cloud.Inventory()
	testutil.Must(t, err)
	for _, thing := range things {
		if thing.Type == "image" && thing.Name == "golden" {
			image = thing.ID
		}
	}
	if image == "" {
		t.Fatal("the cloud has no image golden")
	}
	return server, image
}

// TestKilledImportIsResumed kills an apply with imports at every commit and every changing call, before and after its
// effect. The next apply completes the imports, and no object is deleted.
func TestKilledImportIsResumed(t *testing.T) {
	for at, struck := 1, true; struck; at++ {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, oneCloud(), goldenCloud)
			server, image := l.handmade(t)
			l.config = withImports(server, image)
			l.kill.Revive(at)
			_, _, _ = l.run(t.Context(), plan.Options{})
			where, died := l.kill.Died()
			l.kill.Revive(0)
			if struck = died; !died && at < 15 {
				t.Errorf("only %d points were passed; the killer sees too little", at-1)
			}
			l.settle(t, plan.Options{}, where)
			nodes, uploads, builds := l.nodes(), l.records(resources.KindUpload), l.records(resources.KindBuild)
			if len(nodes) != 1 || nodes[0].ExternalID != server || nodes[0].State != resources.StateHold || nodes[0].Importing != "" {
				t.Errorf("killed %s: the nodes are %+v", where, nodes)
			}
			if len(uploads) != 1 || len(builds) != 1 || uploads[0].(*resources.Upload).ExternalID != image || uploads[0].(*resources.Upload).State != resources.StateReady {
				t.Errorf("killed %s: %d builds and the uploads %+v", where, len(builds), uploads)
			}
			l.stays(t, where, server, image)
		})
	}
}

// TestKilledImportThatIsTakenBack: the blocks are removed after the kill. An object without our tags stays as it is and
// loses its record; one with our tags belongs to npctl.
func TestKilledImportThatIsTakenBack(t *testing.T) {
	for at, struck := 1, true; struck; at++ {
		synctest.Test(t, func(t *testing.T) {
			l := newLab(t, oneCloud(), goldenCloud)
			server, image := l.handmade(t)
			l.config = withImports(server, image)
			l.kill.Revive(at)
			_, _, _ = l.run(t.Context(), plan.Options{})
			where, died := l.kill.Died()
			l.kill.Revive(0)
			struck = died
			tagged := map[string]bool{}
			things, err := l.driver.Clouds["one"].Inventory()
			testutil.Must(t, err)
			for _, thing := range things {
				tagged[thing.ID] = thing.Metadata["npctl_installation"] != ""
			}
			l.settle(t, plan.Options{Destroy: true, AllowDestroy: plan.AllowAll}, where)
			if nodes, uploads := l.nodes(), l.records(resources.KindUpload); len(nodes)+len(uploads) > 0 {
				t.Errorf("killed %s: %d nodes and %d uploads are left", where, len(nodes), len(uploads))
			}
			for _, id := range []string{server, image} {
				if !tagged[id] {
					l.stays(t, where, id)
				}
			}
		})
	}
}

var goldenCloud = emulator.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second,
	Images: []emulator.PublicImage{{Name: "golden", Private: true}}}

// stays checks that the cloud still has the objects.
func (l *lab) stays(t *testing.T, where string, ids ...string) {
	t.Helper()
	things, err := l.driver.Clouds["one"].Inventory()
	testutil.Must(t, err)
	exist := map[string]bool{}
	for _, thing := range things {
		exist[thing.ID] = true
	}
	for _, id := range ids {
		if !exist[id] {
			t.Errorf("killed %s: object %s was deleted", where, id)
		}
	}
}

// TestImportInASharedStore imports with claims: other processes ignore the node until it has its final state.
func TestImportInASharedStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, oneCloud(), goldenCloud)
		server, image := l.handmade(t)
		l.config = withImports(server, image)
		l.shared = &claimedStore{writes: map[resources.Key][]string{}}
		l.mustRun(t, plan.Options{})
		nodes := l.shared.of(resources.KindNode)
		if len(nodes) != 1 {
			t.Fatalf("there were writes of %v, want one node", nodes)
		}
		if got, want := l.shared.writes[nodes[0]], []string{"init", "claim and building", "hold and release"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", nodes[0], got, want)
		}
		if p := l.plan(plan.Options{}); len(p.Steps) > 0 {
			t.Errorf("there is still something to do:\n%s", text(p))
		}
		l.mustRun(t, plan.Options{Destroy: true, AllowDestroy: plan.AllowAll})
		if nodes, builds := l.nodes(), l.records(resources.KindBuild); len(nodes)+len(builds) > 0 {
			t.Errorf("%d nodes and %d builds are left", len(nodes), len(builds))
		}
	})
}
