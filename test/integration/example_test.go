//go:build integration

package integration

import (
	"crypto/md5" //nolint:gosec // Glance's checksum
	"crypto/sha512"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
)

// TestOpenStackExample follows the README for a user with an OpenStack project: it applies examples/openstack.hcl with
// an image that diskimage-builder really builds, in a project with foreign objects.
func TestOpenStackExample(t *testing.T) {
	t.Parallel()
	variables := exampleVariables(t)
	p, elsewhere := newProject(t).createUsualObjects(), newProject(t)
	theirs := p.others()
	elsewhere.server("np0000000002", "none")
	there := elsewhere.things()
	at := p.newPlace(example(t))
	at.args = variables

	at.mustRun(2, "plan", "-detailed-exitcode").endsWith("Plan: 1 to build, 1 to upload, 2 to launch, 0 to delete.")
	p.mustBe(theirs)
	at.mustRun(0, "apply", "-auto-approve").endsWith("Apply complete: 1 built, 1 uploaded, 2 launched, 0 deleted.")
	p.mustHave(theirs, map[string]int{"server": 2, "image": 1, "floating IP": 2})
	p.imageIsTheFile(at, theirs)
	at.nothingToDo().contains("server of others in the project, ignored")

	t.Run("OneLine", func(t *testing.T) { p.with(t).oneLine(at.with(t), theirs) })
	at.args = append(at.args, "-var", "flavor=medium")
	t.Run("BehindOurBack", func(t *testing.T) { p.with(t).changeServersDirectly(at.with(t), theirs) })

	at.mustRun(0, "destroy", "-auto-approve").contains("Destroy complete:", "0 launched")
	p.mustBe(theirs)
	elsewhere.mustBe(there)
	at.mustRun(0, "destroy", "-auto-approve").endsWith("No changes.")
	at.checkOnlyLogIsLeft()
}

func example(t *testing.T) string {
	t.Helper()
	return testutil.ReadFile(t, "../../examples/openstack.hcl")
}

// exampleVariables returns the variables that a user of this cloud would set. Only the content of the image differs
// from the example: the lab boots no images, so no server answers at the address of a node.
func exampleVariables(t *testing.T) []string {
	t.Helper()
	var args []string
	for _, v := range []string{
		"cloud=mine", `networks=["private"]`, `security_groups=["ssh"]`, "flavor=small", "floating_ips=true", "host_key_checking=false",
		`elements=["` + tinyDebian + `"]`, `element_paths=["` + elementsPath(t) + `"]`, `dib_args=["-n"]`, "dib_env=" + dibEnvironment(t),
	} {
		args = append(args, "-var", v)
	}
	return args
}

// others creates foreign objects that resemble those of npctl as much as possible, and returns all objects of the
// project.
func (p *project) others() map[string]thing {
	p.t.Helper()
	private := p.find(p.t, network, "networks?name=private", "networks", "private")["id"]
	p.server("np0000000001", []object{{"uuid": private}})
	outside := p.find(p.t, network, "networks?name=public", "networks", "public")["id"]
	p.make(p.t, network, "floatingips", "floatingip", object{"floating_network_id": outside, "description": "npctl"})
	p.make(p.t, network, "ports", "port", object{"network_id": private, "name": "np0000000002"})
	vol := p.make(p.t, volume, "volumes", "volume", object{"name": "np0000000001", "size": 1, "metadata": object{"npctl_node_id": "0000000001"}})
	p.do(p.t, "POST", image, "images", object{"name": "debian-1", "disk_format": "qcow2", "container_format": "bare", "tags": []string{"npctl"}})
	eventually(p.t, "the volume exists", func() bool {
		return p.do(p.t, "GET", volume, "volumes/"+vol["id"].(string), nil)["volume"].(object)["status"] == "available"
	})
	var before map[string]thing
	eventually(p.t, "the state no longer changes", func() bool {
		last := before
		before = p.things()
		return cmp.Equal(lines(last), lines(before))
	})
	return before
}

// imageIsTheFile compares the image in Glance with the file on disk.
func (p *project) imageIsTheFile(at *place, theirs map[string]thing) {
	p.t.Helper()
	uploaded := of(without(p.things(), theirs), "image")[0]
	files, err := filepath.Glob(filepath.Join(at.dir, ".npctl/images/*.qcow2"))
	if err != nil || len(files) != 1 {
		p.t.Fatalf("image files are %q, %v; want one qcow2", files, err)
	}
	file, err := os.Open(files[0])
	testutil.Must(p.t, err)
	defer file.Close()
	sum, hash := md5.New(), sha512.New() //nolint:gosec // Glance's checksum
	size, err := io.Copy(io.MultiWriter(sum, hash), file)
	testutil.Must(p.t, err)
	if size < 20<<20 {
		p.t.Errorf("the image has %d bytes: that is no Debian", size)
	}
	want := object{"status": "active", "disk_format": "qcow2", "checksum": hex.EncodeToString(sum.Sum(nil)),
		"os_hash_algo": "sha512", "os_hash_value": hex.EncodeToString(hash.Sum(nil))}
	if got := text(uploaded.object["size"]); got != strconv.FormatInt(size, 10) {
		p.t.Errorf("Glance reports %s bytes for the image, the file has %d", got, size)
	}
	for name, value := range want {
		if got := uploaded.object[name]; got != value {
			p.t.Errorf("Glance reports %s of the image as %v, want %v", name, got, value)
		}
	}
}

// oneLine changes single lines of the configuration. The plan must contain the resulting steps and no others.
func (p *project) oneLine(at *place, theirs map[string]thing) {
	nodes := p.nodes()
	at.args = append(at.args, "-var", "min_ready=3")
	at.mustRun(2, "plan", "-detailed-exitcode").endsWith("Plan: 0 to build, 0 to upload, 1 to launch, 0 to delete.")
	at.args = append(at.args, "-var", "min_ready=2", "-var", "max_servers=9")
	at.nothingToDo()
	at.args = append(at.args, "-var", "flavor=medium")
	at.mustRun(2, "plan", "-detailed-exitcode").contains(`"small"`, `"medium"`).endsWith("Plan: 0 to build, 0 to upload, 0 to launch, 2 to replace, 0 to delete.")
	at.mustRun(0, "apply", "-auto-approve").endsWith("Apply complete: 0 built, 0 uploaded, 2 launched, 2 deleted.")
	for id, server := range p.nodes() {
		if _, old := nodes[id]; old || server["flavor"].(object)["original_name"] != "medium" {
			p.t.Errorf("server %v has flavor %v, want a new one with medium", server["name"], server["flavor"])
		}
	}
	p.mustHave(theirs, map[string]int{"server": 2, "image": 1, "floating IP": 2})
	at.nothingToDo()
}

// changeServersDirectly deletes a server of npctl and creates a foreign one.
func (p *project) changeServersDirectly(at *place, theirs map[string]thing) {
	var lost string
	for lost = range p.nodes() {
		break
	}
	p.do(p.t, "DELETE", compute, "servers/"+lost, nil)
	eventually(p.t, "the server is gone", func() bool { _, there := p.nodes()[lost]; return !there })
	stranger := p.server("np0000000077", "none")

	r := at.plan()
	want := []string{"delete leftover: orphaned", "forget node: lost", "launch node: below-min-ready"}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(r.steps()))); diff != "" {
		p.t.Errorf("steps for the server that is gone, and its floating IP (-want +got):\n%s", diff)
	}
	if !slices.ContainsFunc(r.Notes, func(n note) bool {
		return n.Code == "look-alike" && strings.Contains(n.Text, stranger)
	}) {
		p.t.Errorf("no note names the foreign server: %+v", r.Notes)
	}
	at.mustRun(0, "apply", "-auto-approve").contains("1 launched")
	p.do(p.t, "GET", compute, "servers/"+stranger, nil)
	p.do(p.t, "DELETE", compute, "servers/"+stranger, nil)
	eventually(p.t, "the foreign server is gone", func() bool { _, there := p.thingsOfKind("server")[stranger]; return !there })
	p.mustHave(theirs, map[string]int{"server": 2, "image": 1, "floating IP": 2})
	at.nothingToDo()
}

// checkOnlyLogIsLeft checks npctl's own directory after a destroy.
func (at *place) checkOnlyLogIsLeft() {
	at.t.Helper()
	left, err := filepath.Glob(filepath.Join(at.dir, ".npctl/images/*"))
	if err != nil || len(left) > 0 {
		at.t.Errorf("image files are left: %q, %v", left, err)
	}
	at.mustRun(0, "state", "list").omits("node", "upload", "build")
}
