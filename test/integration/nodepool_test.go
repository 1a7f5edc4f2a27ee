//go:build integration

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/internal/testutil"
	zklab "github.com/npctl/npctl/test/zookeeper/lab"
)

// meetingPlace is the ZooKeeper of Zuul, Nodepool and npctl.
type meetingPlace struct {
	t    *testing.T
	conn *zk.Conn
}

const (
	nodesPath    = "/nodepool/nodes"
	requestsPath = "/nodepool/requests"
	imagesPath   = "/nodepool/images"
)

func connect(t *testing.T, env zklab.Env) meetingPlace {
	t.Helper()
	conn, err := zklab.Connect(env)
	testutil.Must(t, err)
	t.Cleanup(conn.Close)
	return meetingPlace{t, conn}
}

func (m meetingPlace) children(path string) []string {
	m.t.Helper()
	names, _, err := m.conn.Children(path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		m.t.Fatalf("%s: %v", path, err)
	}
	return names
}

// ephemerals returns the znodes below a path that end with their session: locks and registrations.
func (m meetingPlace) ephemerals(path string) (found []string) {
	m.t.Helper()
	for _, name := range m.children(path) {
		child := path + "/" + name
		if there, stat, err := m.conn.Exists(child); err == nil && there && stat.EphemeralOwner != 0 {
			found = append(found, child)
		}
		found = append(found, m.ephemerals(child)...)
	}
	return found
}

// read decodes a record and reports whether it exists.
func (m meetingPlace) read(path string, into any) bool {
	m.t.Helper()
	text, _, err := m.conn.Get(path)
	if errors.Is(err, zk.ErrNoNode) {
		return false
	}
	testutil.Must(m.t, err)
	return json.Unmarshal(text, into) == nil
}

// sharedNode is the record of a node.
type sharedNode struct {
	ID       string   `json:"-"`
	State    string   `json:"state"`
	Provider string   `json:"provider"`
	Labels   []string `json:"type"`
	User     string   `json:"allocated_to"`
	Server   string   `json:"external_id"`
	Address  string   `json:"interface_ip"`
}

func (n sharedNode) String() string {
	return fmt.Sprintf("%s %s %s %v", n.ID, n.State, n.Provider, n.Labels)
}

func (m meetingPlace) nodes() (all []sharedNode) {
	m.t.Helper()
	for _, id := range m.children(nodesPath) {
		n := sharedNode{ID: id}
		if m.read(nodesPath+"/"+id, &n) {
			all = append(all, n)
		}
	}
	return all
}

// count returns the number of nodes of a provider in a state; an empty string means any.
func (m meetingPlace) count(provider, state string) (n int) {
	m.t.Helper()
	for _, one := range m.nodes() {
		if (provider == "" || one.Provider == provider) && (state == "" || one.State == state) {
			n++
		}
	}
	return n
}

// haveReady reports whether every label has a ready node, and no node is in another state. A label may have more: Nodepool
// requests a second node if a request of min-ready ends between two of its checks.
func (m meetingPlace) haveReady(labels ...string) bool {
	m.t.Helper()
	ready := map[string]bool{}
	for _, one := range m.nodes() {
		if one.State != "ready" {
			return false
		}
		for _, label := range one.Labels {
			ready[label] = true
		}
	}
	return !slices.ContainsFunc(labels, func(label string) bool { return !ready[label] })
}

// surplus lists all nodes but the first of each label. Nodepool repeats its requests for min-ready until it sees the node, and may
// launch one more, which would fill the project.
func (m meetingPlace) surplus() (ids []string) {
	m.t.Helper()
	seen := map[string]bool{}
	for _, one := range m.nodes() {
		if label := strings.Join(one.Labels, " "); seen[label] {
			ids = append(ids, one.ID)
		} else {
			seen[label] = true
		}
	}
	return ids
}

// uploads returns the ready uploads of an image in a provider, each as BUILD/UPLOAD.
func (m meetingPlace) uploads(image, provider string) (ready []string) {
	m.t.Helper()
	for _, build := range m.children(imagesPath + "/" + image + "/builds") {
		dir := imagesPath + "/" + image + "/builds/" + build + "/providers/" + provider + "/images"
		for _, id := range m.children(dir) {
			var upload struct{ State string }
			if m.read(dir+"/"+id, &upload) && upload.State == "ready" {
				ready = append(ready, build+"/"+id)
			}
		}
	}
	return ready
}

// imageCreate replaces disk-image-create: it is called as `disk-image-create … -o NAME …`.
const imageCreate = `#!/bin/sh
while [ $# -gt 0 ]; do
  [ "$1" = -o ] && exec qemu-img create -q -f qcow2 "$2.qcow2" 1M
  shift
done
exit 1
`

// nodepool is an installation of Nodepool for the clouds "mine" and "private" of a project, which are the same.
type nodepool struct {
	t          *testing.T
	dir        string
	connection string // the part of nodepool.yaml with the servers of ZooKeeper
	clouds     string // clouds.yaml
}

func (p *project) newNodepool(zookeeper string) *nodepool {
	p.t.Helper()
	p.entries["private"] = p.entry(p.name, password)
	p.entries["private"].(object)["private"] = true // the SDK then uses addresses of networks that are not external
	np := &nodepool{t: p.t, dir: p.t.TempDir(), connection: zklab.Connection(p.t, zookeeper)}
	np.clouds = testutil.ReadFile(p.t, p.writeClouds(np.dir))
	create := filepath.Join(np.dir, "image-create")
	testutil.Must(p.t, os.WriteFile(create, []byte(imageCreate), 0o700))
	testutil.Must(p.t, os.MkdirAll(filepath.Join(np.dir, "images"), 0o700))
	return np
}

// start starts a program of Nodepool. DIR in the configuration is the directory of the installation.
func (np *nodepool) start(program, configuration string) *zklab.Launcher {
	np.t.Helper()
	dir := filepath.Join(np.dir, program)
	testutil.WriteFile(np.t, filepath.Join(dir, "clouds.yaml"), np.clouds)
	return zklab.StartProgram(np.t, dir, program, np.yaml(configuration))
}

// command runs a command of Nodepool with the configuration of its launcher.
func (np *nodepool) command(arguments ...string) {
	np.t.Helper()
	dir := filepath.Join(np.dir, "nodepool-launcher")
	cmd := exec.CommandContext(np.t.Context(), filepath.Join(os.Getenv("NPCTL_TEST_NODEPOOL"), "bin", "nodepool"), append([]string{"-c", dir + ".yaml"}, arguments...)...)
	cmd.Env = append(os.Environ(), "OS_CLIENT_CONFIG_FILE="+filepath.Join(dir, "clouds.yaml"))
	if out, err := cmd.CombinedOutput(); err != nil {
		np.t.Fatalf("nodepool %q: %v\n%s", arguments, err, out)
	}
}

func (np *nodepool) yaml(configuration string) string {
	return np.connection + strings.ReplaceAll(configuration, "DIR", np.dir)
}

// everyWay has a label for each way to launch that Nodepool's driver openstack has, and Nodepool's defaults.
const everyWay = `
images-dir: DIR/images
build-log-dir: DIR/logs
labels:
  - {name: built, min-ready: 1, max-ready-age: 36000}
  - {name: plain, min-ready: 1}
  - {name: volume, min-ready: 1}
  - {name: floating, min-ready: 1}
  - {name: unused}
diskimages:
  - name: ci
    dib-cmd: DIR/image-create
    formats: [qcow2]
    elements: [debian-minimal, vm]
    release: bookworm
    rebuild-age: 86400
    username: root
    python-path: /usr/bin/python3
    env-vars: {DIB_CHECKSUM: '1'}
    metadata: {kind: ci}
  - name: spare
    dib-cmd: DIR/image-create
    formats: [qcow2]
    elements: [vm]
providers:
  - name: acme
    driver: openstack
    cloud: private
    region-name: RegionOne
    rate: 0.02
    boot-timeout: 120
    image-name-format: '{image_name}-{timestamp}'
    diskimages:
      - name: ci
        meta: {purpose: test}
      - name: spare # of no label
    cloud-images:
      - {name: tiny, username: root}
      - {name: jammy, image-name: vendor-jammy-20260301, username: root}
    pools:
      - name: main
        max-servers: 4
        networks: [private]
        host-key-checking: false
        labels:
          - {name: built, diskimage: ci, flavor-name: small}
          - name: plain
            cloud-image: tiny
            min-ram: 2048
            key-name: lab
            instance-properties: {role: ci}
            userdata: "#cloud-config\n"
          - {name: volume, cloud-image: jammy, flavor-name: small, boot-from-volume: true, volume-size: 20}
          - {name: unused, cloud-image: jammy, flavor-name: small}
  - name: edge
    driver: openstack
    cloud: mine
    cloud-images:
      - {name: tiny, username: root}
    pools:
      - name: outside
        max-servers: 2
        networks: [private]
        security-groups: [ssh]
        host-key-checking: false
        node-attributes: {zone: outside}
        labels:
          - {name: floating, cloud-image: tiny, flavor-name: small}
`

// TestMigrationConvertedOpenStackPlansNoChanges converts the nodepool.yaml of a real nodepool-launcher and
// nodepool-builder, which have built, uploaded and launched. A plan against their ZooKeeper then has nothing to do. Without
// ZooKeeper, npctl adopts servers and an image of theirs.
func TestMigrationConvertedOpenStackPlansNoChanges(t *testing.T) {
	p := newProject(t).createUsualObjects()
	l := zklab.Start(t, 1)
	m := connect(t, l.Env)
	np := p.newNodepool(l.Dir)
	builder := np.start("nodepool-builder", everyWay)
	launcher := np.start("nodepool-launcher", everyWay)
	eventually(t, "Nodepool has uploaded its images and launched its nodes", func() bool {
		return len(m.uploads("ci", "acme")) == 1 && len(m.uploads("spare", "acme")) == 1 && m.haveReady("built", "plain", "volume", "floating") && len(m.children(requestsPath)) == 0
	})
	for _, id := range m.surplus() {
		np.command("delete", id)
	}
	eventually(t, "Nodepool has one node of each label", func() bool { return len(m.surplus()) == 0 })

	at := p.newPlace("")
	at.dir = filepath.Join(at.dir, "converted")
	testutil.Must(t, os.Mkdir(at.dir, 0o700))
	at.mustRun(0, "convert", "-out="+at.dir, launcher.Configuration())
	at.nothingToDo()
	t.Log(at.run("plan").text())

	files, err := filepath.Glob(filepath.Join(at.dir, "*.hcl"))
	testutil.Must(t, err)
	for _, file := range files { // a node more is a change
		testutil.WriteFile(t, file, strings.ReplaceAll(testutil.ReadFile(t, file), "min_ready = 1", "min_ready = 2"))
	}
	at.mustRun(2, "plan", "-detailed-exitcode").contains("min_ready 2, ready 1")

	testutil.Must(t, errors.Join(launcher.Stop(), builder.Stop()))
	p.importFromNodepool(m)
}

// importFromNodepool adopts two servers and an image of Nodepool, which has been stopped, into a state of its own, and deletes
// them.
func (p *project) importFromNodepool(m meetingPlace) {
	p.t.Helper()
	server := func(label string) string {
		all := m.nodes()
		return all[slices.IndexFunc(all, func(n sharedNode) bool { return slices.Contains(n.Labels, label) })].Server
	}
	build, id, _ := strings.Cut(m.uploads("ci", "acme")[0], "/")
	var upload struct {
		ExternalID string `json:"external_id"`
	}
	if !m.read(imagesPath+"/ci/builds/"+build+"/providers/acme/images/"+id, &upload) {
		p.t.Fatal("the upload is gone")
	}
	built, plain := server("built"), server("plain")
	at := p.newPlace(strings.NewReplacer("SERVER", built, "NODEPOOLS", plain, "IMAGE", upload.ExternalID).Replace(adopting))
	at.mustRun(0, "plan").contains("Nodepool, provider acme", "Plan: 0 to build, 0 to upload, 0 to launch, 3 to import, 0 to delete.")
	at.mustRun(0, "apply", "-auto-approve").endsWith("Apply complete: 0 built, 0 uploaded, 0 launched, 3 imported, 0 deleted.")
	at.nothingToDo()
	at.mustRun(0, "destroy", "-auto-approve", "-allow-destroy=all")
	for _, gone := range []string{"servers/" + built, "servers/" + plain} {
		if status, _, err := p.try(p.t.Context(), http.MethodGet, compute, gone, nil); status != http.StatusNotFound {
			p.t.Errorf("%s: %d %v, want that npctl has deleted it", gone, status, err)
		}
	}
	if status, _, err := p.try(p.t.Context(), http.MethodGet, image, "images/"+upload.ExternalID, nil); status != http.StatusNotFound {
		p.t.Errorf("image: %d %v, want that npctl has deleted it", status, err)
	}
}
