//go:build integration

package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// TestMovedNodesStayWithTheirUsers renames a provider, its pool and a label while Zuul has locked one node and another is
// ready. The locked node is not written until Zuul returns it.
func TestMovedNodesStayWithTheirUsers(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	c := newCloud(t, "one", quick)
	configuration := strings.Replace(openstackProvider("one", 8, 100, "common"), `"common" {}`, `"common" { min_ready = 1 }`, 1)
	before := newMachine(t, zk, "A", configuration, c).start()
	l := newLoad(t, newZuul(t, zk.Env), 1, common, c)
	ctx := t.Context()
	take := func(label string) *node { t.Helper(); return l.take(t, label) }
	providers := func() (names []string) {
		ids, err := l.children(ctx, nodesRoot)
		testutil.Must(t, err)
		for _, id := range ids {
			n := &node{ID: id}
			if err := l.read(ctx, n); err == nil {
				names = append(names, n.Provider+" "+n.State)
			}
		}
		slices.Sort(names)
		return names
	}
	used := take("common")
	testutil.Await(t, "another node is ready", func() bool { return slices.Equal(providers(), []string{"one in-use", "one ready"}) })
	before.Stop()
	servers := c.servers()

	renamed := strings.NewReplacer(`"one"`, `"two"`, `"main"`, `"fleet"`, `"common"`, `"everyday"`).Replace(configuration) + `
moved {
  from = provider.one
  to   = provider.two
}
moved {
  from = provider.two.pool.main
  to   = provider.two.pool.fleet
}
moved {
  from = label.common
  to   = label.everyday
}
`
	after := newMachine(t, zk, "B", renamed, c)
	out, err := after.command("plan").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "0 to build, 0 to upload, 0 to launch") || !strings.Contains(string(out), "1 record keeps its earlier name") ||
		!strings.Contains(string(out), "0 to delete.") {
		t.Fatalf("plan: %v\n%s", err, out)
	}
	after.start()
	testutil.Await(t, "the ready node is moved, the other one is as Zuul left it", func() bool {
		return slices.Equal(providers(), []string{"one in-use", "two ready"})
	})
	for id := range servers {
		if _, is := c.servers()[id]; !is {
			t.Errorf("server %s was deleted", id)
		}
	}
	testutil.Must(t, errors.Join(l.state(ctx, used, "used"), l.unlock(ctx, used)))
	testutil.Await(t, "the used node is deleted", func() bool { return slices.Equal(providers(), []string{"two ready"}) && len(c.servers()) == 1 })
	next := take("everyday")
	testutil.Must(t, errors.Join(l.state(ctx, next, "used"), l.unlock(ctx, next)))
	testutil.Await(t, "a new node is ready", func() bool { return slices.Equal(providers(), []string{"two ready"}) && len(c.servers()) == 1 })
}

// take requests a node as Zuul, and marks it as in use.
func (l *load) take(t *testing.T, label string) *node {
	t.Helper()
	id, err := l.request(t.Context(), wanted{labels: []string{label}})
	testutil.Must(t, err)
	a, err := l.wait(t.Context(), id)
	testutil.Must(t, err)
	if a.State != "fulfilled" {
		t.Fatalf("request %s is %s, declined by %v", id, a.State, a.Declined)
	}
	held, err := l.accept(t.Context(), id, a.Nodes)
	testutil.Must(t, err)
	testutil.Must(t, l.state(t.Context(), held[0], "in-use"))
	return held[0]
}

// TestMovedStaticNodeStaysWithItsUser renames a machine that Zuul uses and one that is ready. The ready one keeps its record.
// The record of the used one is not written until Zuul returns it.
func TestMovedStaticNodeStaysWithItsUser(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	configuration := staticProvider("rack", 2, 100, "common")
	before := newMachine(t, zk, "A", configuration).start()
	l := newLoad(t, newZuul(t, zk.Env), 1, common)
	machines := func() map[string]*node { // by hostname
		ids, err := l.children(t.Context(), nodesRoot)
		testutil.Must(t, err)
		all := map[string]*node{}
		for _, id := range ids {
			n := &node{ID: id}
			if err := l.read(t.Context(), n); err == nil {
				all[n.Hostname] = n
			}
		}
		return all
	}
	testutil.Await(t, "the machines are registered", func() bool { return len(machines()) == 2 })
	used := l.take(t, "common")
	before.Stop()
	first := machines()

	renamed := configuration
	for i, name := range []string{"board1", "board2"} {
		address := fmt.Sprintf("127.2.0.%d", i+1)
		renamed = strings.Replace(renamed, fmt.Sprintf("node %q {", address), fmt.Sprintf("node %q {\n      address           = %q", name, address), 1) +
			fmt.Sprintf("moved {\n  from = provider.rack.pool.main.node[%q]\n  to   = provider.rack.pool.main.node.%s\n}\n", address, name)
	}
	after := newMachine(t, zk, "B", renamed)
	out, err := after.command("plan").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 record keeps its earlier name") || !strings.Contains(string(out), "0 to launch, 1 to move, 0 to delete.") {
		t.Fatalf("plan: %v\n%s", err, out)
	}
	after.start()
	renames := map[string]string{"127.2.0.1": "board1", "127.2.0.2": "board2"}
	for address, n := range first {
		if n.ID != used.ID {
			testutil.Await(t, "the ready machine is moved", func() bool {
				now := machines()[renames[address]]
				return now != nil && now.ID == n.ID && now.State == "ready"
			})
		} else if now := machines()[address]; now == nil || now.ID != n.ID || now.State != "in-use" {
			t.Errorf("the machine in use is now %+v", now)
		}
	}
	testutil.Must(t, errors.Join(l.state(t.Context(), used, "used"), l.unlock(t.Context(), used)))
	testutil.Await(t, "both machines are ready", func() bool {
		now := machines()
		return len(now) == 2 && now["board1"] != nil && now["board1"].State == "ready" && now["board2"] != nil && now["board2"].State == "ready"
	})
	next := l.take(t, "common")
	testutil.Must(t, errors.Join(l.state(t.Context(), next, "used"), l.unlock(t.Context(), next)))
}

// imagesAndProvider is an image of which two builds are kept, in a provider with a pool for one label.
const imagesAndProvider = `
label "small" { min_ready = 1 }
diskimage "debian" {
  keep = 2
  builder "exec" {
    command = ["sh", "-c", "echo $NPCTL_BUILD_ID >$NPCTL_OUTPUT.raw"]
  }
}
provider "openstack" "one" {
  cloud        = "emulator"
  rate         = 0
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}
`

// upload is an upload as any program reads it.
type upload struct {
	path, External string
}

// uploads returns the ready uploads of an image in a provider.
func (l *load) uploads(image, provider string) (all []upload) {
	l.t.Helper()
	root := "/nodepool/images/" + image + "/builds"
	builds, _ := l.children(l.over, root)
	for _, build := range builds {
		dir := root + "/" + build + "/providers/" + provider + "/images"
		names, _ := l.children(l.over, dir)
		for _, name := range names {
			data, err := l.get(l.over, dir+"/"+name)
			var doc struct {
				State    string `json:"state"`
				External string `json:"external_id"`
			}
			if err == nil && json.Unmarshal(data, &doc) == nil && doc.State == "ready" {
				all = append(all, upload{dir + "/" + name, doc.External})
			}
		}
	}
	return all
}

func externals(uploads []upload) (ids []string) {
	for _, u := range uploads {
		ids = append(ids, u.External)
	}
	slices.Sort(ids)
	return ids
}

// TestMovedImageKeepsItsUploads renames an image with two builds and the provider that has their uploads, while Zuul uses
// a node of it. A registered launcher of Nodepool prevents the rename. Commands that are killed while they rename leave
// no record behind, and Nodepool then finds the uploads under the present names.
func TestMovedImageKeepsItsUploads(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	c := newCloud(t, "one", quick)
	l := newLoad(t, newZuul(t, zk.Env), 1, common, c)
	ctx := t.Context()
	m := newMachine(t, zk, "A", imagesAndProvider, c).start()
	testutil.Await(t, "the image is uploaded and a node is ready", func() bool { return len(l.uploads("debian", "one")) == 1 && len(c.servers()) == 1 })
	m.mustRun("image", "build", "debian", "-auto-approve")
	testutil.Await(t, "the second build is uploaded", func() bool { return len(l.uploads("debian", "one")) == 2 })
	id, err := l.request(ctx, wanted{labels: []string{"small"}})
	testutil.Must(t, err)
	given, err := l.wait(ctx, id)
	testutil.Must(t, err)
	held, err := l.accept(ctx, id, given.Nodes)
	testutil.Must(t, err)
	testutil.Must(t, l.state(ctx, held[0], "in-use"))
	testutil.Await(t, "another node is ready", func() bool { return len(c.servers()) == 2 && m.provider("one").Nodes["ready"] == 1 })
	m.mustRun("image", "pause", "debian")
	m.Stop()
	before, servers := l.uploads("debian", "one"), c.servers()

	renamed := strings.NewReplacer(`"debian"`, `"bookworm"`, "diskimage.debian", "diskimage.bookworm", `"one"`, `"two"`).Replace(imagesAndProvider) + `
moved {
  from = diskimage.debian
  to   = diskimage.bookworm
}
moved {
  from = provider.one
  to   = provider.two
}
`
	after := newMachine(t, zk, "A", renamed, c)
	testutil.Must(t, exec.Command("cp", "-r", m.dir+"/images", m.dir+"/npctl.db", after.dir).Run()) //nolint:noctx // it ends by itself

	nodepool := lab.StartLauncher(t, zk, lab.Nodepool{Driver: "test", Provider: "one", Nodes: 1, Labels: []string{"theirs"}})
	testutil.Await(t, "Nodepool is registered", func() bool { return l.pools() == 1 })
	out, err := after.command("plan").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "serves provider one, and finds uploads by the names") {
		t.Errorf("plan beside a launcher of the provider: %v\n%s", err, out)
	}
	testutil.Must(t, nodepool.Stop())
	testutil.Await(t, "Nodepool is not registered", func() bool { return l.pools() == 0 })

	out, err = after.command("plan").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "0 to build, 0 to upload, 0 to launch") || !strings.Contains(string(out), "0 to delete.") {
		t.Fatalf("plan: %v\n%s", err, out)
	}
	records := func() string {
		builds := map[string][]string{}
		for _, image := range []string{"debian", "bookworm"} {
			builds[image], _ = l.children(ctx, "/nodepool/images/"+image+"/builds")
		}
		return fmt.Sprint(builds, l.uploads("debian", "one"), l.uploads("bookworm", "one"), l.uploads("bookworm", "two"))
	}
	kills := 0
	for ended := false; !ended; { // each one is killed after its first writes; its locks remain until its session ends
		before := records()
		apply := after.command("apply", "-auto-approve", "-lock-timeout=60s")
		var out strings.Builder
		apply.Stdout, apply.Stderr = &out, &out
		testutil.Must(t, apply.Start())
		end := make(chan error, 1)
		go func() { end <- apply.Wait() }()
		for killed := false; !killed && !ended; {
			select {
			case err := <-end:
				if ended = true; err != nil {
					t.Fatalf("apply after %d kills: %v\n%s", kills, err, out.String())
				}
			case <-time.After(time.Millisecond):
				if killed = records() != before; killed {
					_ = apply.Process.Kill()
					<-end
					kills++
					time.Sleep(2 * session)
				}
			}
		}
	}
	if kills == 0 {
		t.Error("no command was killed while it renamed")
	}
	moved := l.uploads("bookworm", "two")
	if !slices.Equal(externals(moved), externals(before)) || len(l.uploads("debian", "one")) > 0 {
		t.Errorf("uploads were %v and are %v", before, moved)
	}
	if _, err := l.get(ctx, "/nodepool/images/bookworm/pause"); err != nil {
		t.Errorf("the image is not paused any more: %v", err)
	}
	if now := c.servers(); fmt.Sprint(now) != fmt.Sprint(servers) {
		t.Errorf("servers were %v and are %v", servers, now)
	}

	testutil.Must(t, errors.Join(l.state(ctx, held[0], "used"), l.unlock(ctx, held[0])))
	after.mustRun("image", "unpause", "bookworm")
	after.start()
	testutil.Await(t, "the used node is deleted", func() bool { return len(c.servers()) == 1 })
	after.Stop()
	out, err = after.command("plan").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "No changes.") {
		t.Errorf("plan after the move: %v\n%s", err, out)
	}
	if now := l.uploads("bookworm", "two"); !slices.Equal(externals(now), externals(before)) {
		t.Errorf("uploads were %v and are %v", before, now)
	}

	lab.StartLauncher(t, zk, lab.Nodepool{Driver: "fake", Provider: "two", Nodes: 1, Labels: []string{"theirs"}, Image: "bookworm"})
	testutil.Await(t, "Nodepool is registered", func() bool { return l.pools() == 1 })
	id, err = l.request(ctx, wanted{labels: []string{"theirs"}})
	testutil.Must(t, err)
	given, err = l.wait(ctx, id)
	testutil.Must(t, err)
	if given.State != "fulfilled" {
		t.Fatalf("the request to Nodepool is %s", given.State)
	}
	data, err := l.get(ctx, nodesRoot+"/"+given.Nodes[0])
	testutil.Must(t, err)
	var launched struct {
		Image string `json:"image_id"`
	}
	testutil.Must(t, json.Unmarshal(data, &launched))
	if !slices.ContainsFunc(moved, func(u upload) bool { return u.path == launched.Image }) {
		t.Errorf("Nodepool has booted from %q; the uploads are %v", launched.Image, moved)
	}
}
