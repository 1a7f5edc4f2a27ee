//go:build integration

package integration

import (
	"net/http"
	"strings"
	"testing"
)

// adopting is a configuration with a label that boots from an image without a build.
const adopting = `
npctl {
  images_dir = "images"
  state "bolt" { path = "npctl.db" }
}
diskimage "golden" {
  builder "exec" {
    command = ["false"]
    formats = ["raw"]
  }
}
label "job" {}
provider "openstack" "lab" {
  cloud = "mine"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "job" {
      image  = diskimage.golden
      flavor = "small"
    }
  }
}
import {
  to = provider.lab.pool.main.label.job
  id = "SERVER"
}
import {
  to    = provider.lab.pool.main.label.job
  id    = "NODEPOOLS"
  state = "ready"
}
import {
  to = provider.lab.image.golden
  id = "IMAGE"
}
`

// TestOpenStackImportsExistingServersAndImage adopts a server and an image that a person made and a server with Nodepool's
// metadata, boots a node from the image, and deletes everything as its own. A server of another npctl is refused.
func TestOpenStackImportsExistingServersAndImage(t *testing.T) {
	t.Parallel()
	p := newProject(t).createUsualObjects()
	before := p.things()
	onPrivate := []object{{"uuid": p.find(t, network, "networks?name=private", "networks", "private")["id"]}}
	made, nodepools, theirs := p.server("made-by-hand", onPrivate), p.server("np0000000012", onPrivate), p.server("theirs", onPrivate)
	p.do(t, http.MethodPost, compute, "servers/"+nodepools+"/metadata", object{"metadata": object{
		"nodepool_provider_name": "old", "nodepool_node_id": "0000000012", "owner": "ci"}})
	p.do(t, http.MethodPost, compute, "servers/"+theirs+"/metadata", object{"metadata": object{
		"npctl_installation": "another", "npctl_node_id": "0000000001"}})
	golden := p.snapshotOf(made)

	at := p.newPlace(strings.NewReplacer("SERVER", theirs, "NODEPOOLS", nodepools, "IMAGE", golden).Replace(adopting))
	at.mustRun(1, "apply", "-auto-approve").contains("has the ownership tags of another npctl, installation another")
	at.change(theirs, made)
	at.mustRun(0, "plan").contains("name made-by-hand", "Nodepool, provider old, ID 0000000012", "name golden",
		"Plan: 0 to build, 0 to upload, 0 to launch, 3 to import, 0 to delete.")
	at.mustRun(0, "apply", "-auto-approve").endsWith("Apply complete: 0 built, 0 uploaded, 0 launched, 3 imported, 0 deleted.")
	at.nothingToDo()
	metadata := p.do(t, http.MethodGet, compute, "servers/"+nodepools, nil)["server"].(object)["metadata"].(object)
	if metadata["npctl_node_id"] == nil || metadata["nodepool_node_id"] != nil || metadata["owner"] != "ci" {
		t.Errorf("the server that Nodepool launched has the metadata %v", metadata)
	}

	at.change(`label "job" {}`, `label "job" { min_ready = 2 }`)
	at.mustRun(0, "apply", "-auto-approve").endsWith("Apply complete: 0 built, 0 uploaded, 1 launched, 0 deleted.")
	at.mustRun(0, "destroy", "-auto-approve", "-allow-destroy=all")
	for _, gone := range []string{"servers/" + made, "servers/" + nodepools} {
		if status, _, err := p.try(t.Context(), http.MethodGet, compute, gone, nil); status != http.StatusNotFound {
			t.Errorf("%s: %d %v, want that npctl has deleted it", gone, status, err)
		}
	}
	if status, _, err := p.try(t.Context(), http.MethodGet, image, "images/"+golden, nil); status != http.StatusNotFound {
		t.Errorf("image: %d %v, want that npctl has deleted it", status, err)
	}
	p.do(t, http.MethodDelete, compute, "servers/"+theirs, nil) // fails if npctl has deleted it
	eventually(t, "only the objects of the project are left", func() bool { return len(without(p.things(), before)) == 0 })
}

// snapshotOf makes an image of a server, as a person does, and waits until it is active.
func (p *project) snapshotOf(server string) string {
	p.t.Helper()
	answer := p.do(p.t, http.MethodPost, compute, "servers/"+server+"/action", object{"createImage": object{"name": "golden"}})
	id := text(answer["image_id"])
	eventually(p.t, "image golden is active", func() bool {
		return p.do(p.t, http.MethodGet, image, "images/"+id, nil)["status"] == "active"
	})
	return id
}
