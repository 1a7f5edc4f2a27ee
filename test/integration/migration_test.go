//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/program"
	zklab "github.com/npctl/npctl/test/zookeeper/lab"
	zuulsite "github.com/npctl/npctl/test/zuul/site"
)

// rehearsal moves an installation of Nodepool with a real Zuul to npctl and back, while jobs run.
type rehearsal struct {
	meetingPlace
	t        *testing.T
	p        *project
	before   map[string]thing
	zuul     zuulsite.Site
	np       *nodepool
	launcher *zklab.Launcher
	builder  *zklab.Launcher
	at, host *place // of the launcher of npctl, of its build host
	d        *daemon
	endLong  func() // ends the jobs that last over the moves
	page     string // rest of the page after the newest heading

	ended   sync.WaitGroup
	stop    chan struct{}
	traffic []*traffic

	mu    sync.Mutex           // guards lives
	lives map[string]*nodeLife // by ID
}

// traffic is jobs that run one after the other.
type traffic struct {
	pipeline, job string
	before, done  int // builds
}

// nodeLife is what was seen of a node.
type nodeLife struct {
	sharedNode
	used bool
}

// launching configures nodepool-launcher.
type launching struct {
	rack              bool
	servers, minReady int
	acme              bool
}

const imagesOfRehearsal = `
images-dir: DIR/images
build-log-dir: DIR/logs
diskimages:
  - name: ci
    dib-cmd: DIR/image-create
    formats: [qcow2]
    elements: [vm]
    username: root
    python-path: /usr/bin/python3
`

func (r *rehearsal) launching(c launching) string {
	text := imagesOfRehearsal + fmt.Sprintf("labels:\n  - name: metal\n  - {name: server, min-ready: %d}\n", c.minReady)
	text += "providers:\n"
	if c.rack {
		text += "  - name: rack\n    driver: static\n    pools:\n      - name: main\n        nodes:\n"
		for _, address := range r.zuul.Machines() {
			text += fmt.Sprintf("          - {name: %s, labels: [metal], username: root, python-path: /usr/bin/python3, connection-port: %s}\n", address, r.zuul.SSHPort())
		}
	}
	if c.acme {
		text += fmt.Sprintf(`  - name: acme
    driver: openstack
    cloud: private
    rate: 0.02
    boot-timeout: 180
    clean-floating-ips: false
    port-cleanup-interval: 0
    diskimages: [{name: ci}]
    pools:
      - name: main
        max-servers: %d
        networks: [private]
        auto-floating-ip: false
        labels:
          - {name: server, diskimage: ci, flavor-name: small}
`, c.servers)
	}
	if !c.rack && !c.acme {
		text = strings.TrimSuffix(text, "providers:\n") + "providers: []\n"
	}
	return r.np.yaml(text)
}

// building configures nodepool-builder, with the providers that get the image; without any it has no image. Nodepool's own
// provider is always there.
func (r *rehearsal) building(uploads ...string) string {
	text := imagesOfRehearsal
	if len(uploads) == 0 {
		text, _, _ = strings.Cut(text, "diskimages:")
	}
	text += "labels: []\nproviders:\n"
	for _, name := range []string{"acme", "acme-npctl"} {
		images := "[]"
		if slices.Contains(uploads, name) {
			images = "[{name: ci}]"
		} else if name != "acme" {
			continue
		}
		text += fmt.Sprintf("  - {name: %s, driver: openstack, cloud: private, rate: 0.02, clean-floating-ips: false, port-cleanup-interval: 0, diskimages: %s}\n", name, images)
	}
	return r.np.yaml(text)
}

// TestRehearsedMigration performs the walk of docs/coming-from-nodepool.md with a real Nodepool, a real Zuul and a real
// OpenStack. Jobs run from the second step on: none fails, no node is wasted, and nothing is left at the end.
func TestRehearsedMigration(t *testing.T) {
	r := newRehearsal(t)
	r.startNodepool()
	r.convert()
	r.startTraffic()
	r.shadow()
	r.moveMachines()
	r.moveCloud()
	r.moveImages()
	r.stopNodepool()
	r.goBack()
	r.check()
}

func newRehearsal(t *testing.T) *rehearsal {
	zuul, err := zuulsite.FromEnviron()
	testutil.Must(t, err)
	env, err := zklab.FromEnviron()
	testutil.Must(t, err)
	p := newProject(t).createUsualObjects()
	r := &rehearsal{meetingPlace: connect(t, env), t: t, p: p, zuul: zuul.With(t), np: p.newNodepool(os.Getenv("NPCTL_TEST_ZOOKEEPER_LAB")),
		stop: make(chan struct{}), lives: map[string]*nodeLife{}, before: p.things()}
	r.page = testutil.ReadFile(t, "../../docs/coming-from-nodepool.md")
	_, r.page, _ = strings.Cut(r.page, "\n## Moving\n")
	r.at = p.newPlace("")
	r.at.printLogIfFailed()
	testutil.WriteFile(t, filepath.Join(r.at.dir, "id.pub"), zuul.Text("ssh", "id.pub"))
	r.at.keygen("host")
	p.sshd(r.at, func(string) string { return "host" }, func(server object) string {
		_, fixed := addressesOf(server)
		return fixed
	})
	return r
}

// step logs the heading of a step, which the page has after that of the previous step.
func (r *rehearsal) step(heading string) {
	r.t.Helper()
	_, rest, found := strings.Cut(r.page, "\n### "+heading+"\n")
	if !found {
		r.t.Fatalf("docs/coming-from-nodepool.md has no further step %q", heading)
	}
	r.page = rest
	r.t.Logf("%s: %s", time.Now().Format(time.TimeOnly), heading)
}

// await waits as long as Zuul and Nodepool may take.
func (r *rehearsal) await(what string, so func() bool) {
	r.t.Helper()
	began := time.Now()
	testutil.Await(r.t, what, func() bool {
		if r.t.Failed() {
			r.t.Fatalf("a job has failed before: %s", what)
		}
		return so()
	}, func() string { return fmt.Sprintf("nodes are %v", r.nodes()) })
	r.t.Logf("after %.1f s: %s", time.Since(began).Seconds(), what)
}

func (r *rehearsal) startNodepool() {
	r.builder = r.np.start("nodepool-builder", r.building("acme"))
	r.launcher = r.np.start("nodepool-launcher", r.launching(launching{rack: true, acme: true, servers: 3, minReady: 1}))
	r.await("Nodepool has its nodes", func() bool {
		return r.count("rack", "ready") == len(r.zuul.Machines()) && r.count("acme", "ready") == 1
	})
}

// startTraffic runs jobs on machines and servers until the rehearsal ends, and follows all nodes.
func (r *rehearsal) startTraffic() {
	r.t.Cleanup(r.endTraffic)
	r.traffic = []*traffic{{pipeline: "machines", job: "work"}, {pipeline: "servers", job: "work-on-server"}}
	for _, one := range r.traffic {
		one.before = len(r.zuul.Builds(one.job))
		r.ended.Go(func() {
			for !r.stopped() {
				before := r.zuul.Builds(one.job)
				r.zuul.Enqueue(one.pipeline)
				r.zuul.Ended(one.job, before, "SUCCESS")
				one.done++
			}
		})
	}
	r.ended.Go(func() {
		for !r.stopped() {
			r.follow()
			time.Sleep(200 * time.Millisecond)
		}
	})
}

func (r *rehearsal) stopped() bool {
	select {
	case <-r.stop:
		return true
	default:
		return false
	}
}

func (r *rehearsal) endTraffic() {
	if !r.stopped() {
		close(r.stop)
	}
	if r.t.Failed() { // nobody may serve them any more
		for _, pipeline := range []string{"machines", "servers", "long"} {
			r.zuul.Dequeue(pipeline)
		}
	}
	r.ended.Wait()
}

// minReadyPriority begins the IDs of requests for min-ready of Nodepool's launcher. It repeats such a request for new nodes until it
// has seen the ready node of the first one, and ends launches when its configuration changes, so some of these nodes have no job.
const minReadyPriority = "900-"

// follow records the lives of nodes.
func (r *rehearsal) follow() {
	nodes := r.nodes()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range nodes {
		life := r.lives[n.ID]
		if life == nil {
			life = &nodeLife{}
			r.lives[n.ID] = life
		}
		life.sharedNode = n
		life.used = life.used || n.State == "in-use" || n.State == "used" || strings.HasPrefix(n.User, minReadyPriority)
	}
}

// usesOf counts the nodes of a provider that jobs have used.
func (r *rehearsal) usesOf(provider string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, life := range r.lives {
		if life.Provider == provider && life.used {
			n++
		}
	}
	return n
}

// jobsRun waits until another job has used a node of each provider and has ended.
func (r *rehearsal) jobsRun(providers ...string) {
	r.t.Helper()
	before := map[string]int{}
	for _, name := range providers {
		before[name] = r.usesOf(name)
	}
	r.await(fmt.Sprintf("jobs run on nodes of %v", providers), func() bool {
		return !slices.ContainsFunc(providers, func(name string) bool { return r.usesOf(name) < before[name]+2 })
	})
}

func (r *rehearsal) file(name string) string { return filepath.Join(r.at.dir, name) }

func (r *rehearsal) convert() {
	r.step("1. Convert and compare")
	r.at.mustRun(0, "convert", "-force", "-out="+r.at.dir, r.launcher.Configuration())
	r.at.mustRun(0, "validate")
	r.await("npctl has nothing to do", func() bool { return strings.HasSuffix(r.at.run("plan").last(), "No changes.") })
}

func (r *rehearsal) shadow() {
	r.step("2. Shadow")
	cmd, _, _ := r.at.command(r.t.Context(), "watch", "-shadow")
	shadow := program.Start(r.t, cmd, r.file("shadow.log"))
	for _, label := range []string{"metal", "server"} {
		r.await("the shadow agrees about "+label, func() bool { return shadow.Logged("request compared", "["+label+"]", "result=agree") >= 2 })
	}
	shadow.Stop()
	if other := shadow.Logged("npctl would have decided differently"); other > 0 {
		r.t.Errorf("the shadow would have decided differently %d times:\n%s", other, shadow.Log())
	}
}

// long starts a job on a machine and one on a server that last until the returned function is called.
func (r *rehearsal) long() (end func()) {
	jobs := []string{"wait", "wait-on-server"}
	before := map[string][]zuulsite.Build{}
	for _, job := range jobs {
		before[job] = r.zuul.Builds(job)
	}
	r.zuul.Enqueue("long")
	var running []zuulsite.Build
	for _, job := range jobs {
		running = append(running, r.zuul.AwaitBuild(job, before[job]))
	}
	return func() {
		for _, b := range running {
			r.zuul.EndWait(b)
		}
		for _, job := range jobs {
			r.zuul.Ended(job, before[job], "SUCCESS")
		}
	}
}

func (r *rehearsal) registered(provider string) (programs []string) {
	for _, id := range r.children("/nodepool/components/pool") {
		var c struct {
			Provider string `json:"provider_name"`
			Version  string `json:"version"`
		}
		if r.read("/nodepool/components/pool/"+id, &c) && c.Provider == provider {
			programs = append(programs, strings.Fields(c.Version)[0])
		}
	}
	return programs
}

func (r *rehearsal) moveMachines() {
	r.step("3. Static machines")
	r.endLong = r.long()
	testutil.Must(r.t, os.Rename(r.file("provider-acme.hcl"), r.file("provider-acme.hcl.later")))
	r.d = r.at.watch("-serve=nodes")
	r.await("npctl stands by", func() bool { return r.d.Logged("standing by", "provider rack") == 1 && len(r.registered("rack")) == 2 })
	r.launcher.Configure(r.t, r.launching(launching{acme: true, servers: 3, minReady: 1}))
	r.await("npctl serves rack", func() bool { return r.d.Logged("lock acquired", "provider rack") == 1 })
	r.jobsRun("rack", "acme")
}

func (r *rehearsal) moveCloud() {
	r.step("4. A cloud")
	r.builder.Configure(r.t, r.building("acme", "acme-npctl"))
	r.await("Nodepool's builder has uploaded for npctl", func() bool { return len(r.uploads("ci", "acme-npctl")) == 1 })
	r.provider("acme-npctl", 2)
	r.reload()
	r.await("npctl has a server", func() bool { return r.count("acme-npctl", "ready") == 1 })
	r.launcher.Configure(r.t, r.launching(launching{acme: true}))
	r.jobsRun("rack", "acme-npctl")
	r.endLong()
	r.await("Nodepool has no node", func() bool {
		r.deleteReady("acme")
		return r.count("acme", "") == 0
	})
	r.builder.Configure(r.t, r.building("acme-npctl"))
	r.await("Nodepool has no image in its provider", func() bool { return len(r.uploads("ci", "acme")) == 0 })
	r.launcher.Configure(r.t, r.launching(launching{}))
	r.await("only npctl is registered", func() bool {
		return len(r.registered("acme")) == 0 && len(r.registered("rack")) == 1 && len(r.registered("acme-npctl")) == 1
	})
}

// provider gives npctl the provider in the cloud under another name.
func (r *rehearsal) provider(name string, servers int) {
	text := testutil.ReadFile(r.t, r.file("provider-acme.hcl.later"))
	testutil.WriteFile(r.t, r.file("provider-"+name+".hcl"), strings.NewReplacer(`"acme"`, `"`+name+`"`,
		"max_servers      = 3", fmt.Sprintf("max_servers = %d", servers)).Replace(text))
}

func (r *rehearsal) reload() { r.at.mustRun(0, "reload") }

// deleteReady deletes the ready nodes of a provider of Nodepool, which has no other use for them.
func (r *rehearsal) deleteReady(provider string) {
	for _, id := range r.excuse(provider) {
		r.np.command("delete", id)
	}
}

// excuse returns the free nodes of a provider that are ready. They are not wasted: the walk deletes them.
func (r *rehearsal) excuse(provider string) (ready []string) {
	nodes := r.nodes()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range nodes {
		free := n.State == "ready" && n.User == ""
		if n.Provider == provider && (free || n.State == "building") {
			r.lives[n.ID] = &nodeLife{sharedNode: n, used: true}
			if free {
				ready = append(ready, n.ID)
			}
		}
	}
	return ready
}

func (r *rehearsal) moveImages() {
	r.step("5. Images")
	host := r.at.with(r.t) // a build host with the same configuration
	r.host = host
	host.dir = r.t.TempDir()
	files, err := filepath.Glob(r.file("*.hcl"))
	testutil.Must(r.t, err)
	for _, file := range files {
		testutil.WriteFile(r.t, filepath.Join(host.dir, filepath.Base(file)), testutil.ReadFile(r.t, file))
	}
	host.printLogIfFailed()
	theirs := r.uploads("ci", "acme-npctl")
	images := host.watch("-serve=images")
	host.mustRun(0, "image", "build", "ci", "-auto-approve")
	r.await("npctl has uploaded its build", func() bool {
		return slices.ContainsFunc(r.uploads("ci", "acme-npctl"), func(id string) bool { return !slices.Contains(theirs, id) })
	})
	testutil.Must(r.t, r.builder.Stop())
	r.jobsRun("acme-npctl")
	images.Stop()
}

func (r *rehearsal) stopNodepool() {
	r.step("6. Nodepool off")
	testutil.Must(r.t, r.launcher.Stop())
	r.await("Nodepool is gone", func() bool { return len(r.children("/nodepool/components/pool")) == 2 })
	r.jobsRun("rack", "acme-npctl")
}

func (r *rehearsal) goBack() {
	r.step("7. Back")
	r.builder.Configure(r.t, r.building("acme"))
	r.launcher.Configure(r.t, r.launching(launching{rack: true, acme: true, servers: 3, minReady: 1}))
	testutil.Must(r.t, r.builder.Start())
	testutil.Must(r.t, r.launcher.Start())
	r.np.command("image-build", "ci")
	r.await("Nodepool's builder has its build in its provider again", func() bool { return len(r.uploads("ci", "acme")) > 0 })
	r.await("npctl stands by for the machines", func() bool { return r.d.Logged("standing by", "provider rack") == 2 })
	r.provider("acme-npctl", 0)
	r.excuse("acme-npctl")
	r.reload()
	r.excuse("acme-npctl") // launched in the meantime
	r.jobsRun("rack", "acme")
	r.await("npctl has no node", func() bool { return r.count("acme-npctl", "") == 0 })
	r.d.Stop()
	r.host.mustRun(0, "destroy", "-auto-approve", "-allow-destroy=all", "-target=provider.acme-npctl")
	r.jobsRun("rack", "acme")
}

// check ends all jobs and removes everything. No job was lost, no node was wasted, and nothing is left.
func (r *rehearsal) check() {
	r.endTraffic()
	for _, one := range r.traffic {
		builds := len(r.zuul.Builds(one.job)) - one.before
		if builds != one.done { // a build more is a retry
			r.t.Errorf("%s: %d jobs have ended well, of %d builds", one.job, one.done, builds)
		}
		r.t.Logf("%d jobs %s", one.done, one.job)
	}
	r.await("all nodes are free", func() bool {
		return len(r.children(requestsPath)) == 0 && r.count("", "in-use")+r.count("", "used") == 0
	})
	r.launcher.Configure(r.t, r.launching(launching{acme: true}))
	r.await("Nodepool has no server", func() bool {
		r.deleteReady("acme")
		return r.count("acme", "") == 0
	})
	for id, life := range r.lives {
		if !life.used && life.Provider != "rack" {
			r.t.Errorf("no job has used node %s: %s", id, life)
		}
	}
	testutil.Must(r.t, r.launcher.Stop())
	r.host.mustRun(0, "destroy", "-auto-approve", "-allow-destroy=all")
	testutil.Must(r.t, r.builder.Stop())
	r.builder.Configure(r.t, r.building())
	testutil.Must(r.t, r.builder.Start()) // it deletes at its start, and then once a minute
	r.await("Nodepool has no build", func() bool {
		return slices.Equal(r.children(imagesPath+"/ci/builds"), []string{"lock"})
	})
	testutil.Must(r.t, r.builder.Stop())
	if nodes, requests := r.children(nodesPath), r.children(requestsPath); len(nodes)+len(requests) > 0 {
		r.t.Errorf("nodes %v and requests %v are left in ZooKeeper", nodes, requests)
	}
	if held := append(r.ephemerals("/nodepool"), r.ephemerals("/npctl")...); len(held) > 0 {
		r.t.Errorf("locks and registrations are left in ZooKeeper: %v", held)
	}
	r.await("nothing is in OpenStack", func() bool { return len(without(r.p.things(), r.before)) == 0 })
	r.p.mustBe(r.before)
}
