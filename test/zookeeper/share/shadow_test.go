//go:build integration

package share

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"
	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
	"github.com/npctl/npctl/watch/httpapi/client"
)

// shadowTest is npctl watch -shadow beside real nodepool-launchers.
type shadowTest struct {
	*load
	t   *testing.T
	npc *machine
}

// inRack is the number of machines in the larger provider. Nodepool may need a minute until a used machine is ready
// again.
const inRack = 12

// pool returns a block for machines that Nodepool has too: launcher.sh names them 127.1.0.1, 127.1.0.2 and so on.
func pool(provider string, priority int, machines ...[]string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "provider \"static\" %q {\n  pool \"main\" {\n    priority = %d\n", provider, priority)
	for i, labels := range machines {
		fmt.Fprintf(&text, "    node \"127.1.0.%d\" {\n      labels            = [\"%s\"]\n      host_key_checking = false\n    }\n", i+1, strings.Join(labels, `", "`))
	}
	return text.String() + "  }\n}\n"
}

func newShadowTest(t *testing.T, zk *lab.Lab, configuration string, clouds ...*cloud) *shadowTest {
	o := &shadowTest{t: t, npc: newMachine(t, zk, "shadow", configuration, clouds...)}
	o.npc.options = []string{"-shadow", "-log-format=json"}
	var err error
	if o.npc.Client, err = client.New(client.Options{Socket: filepath.Join(o.npc.dir, "npctl.shadow.db.sock")}); err != nil {
		t.Fatal(err)
	}
	o.load = newLoad(t, newZuul(t, zk.Env), 1, common)
	return o
}

// verdict is the log record of one comparison.
type verdict struct {
	Level   string   `json:"level"`
	Request string   `json:"request"`
	Labels  []string `json:"labels"`
	Result  string   `json:"result"`
	Npctl   side     `json:"npctl"`
	Live    side     `json:"live"`
}

type side struct {
	Do       string `json:"do"`
	Answer   string `json:"answer"`
	Provider string `json:"provider"`
	Pool     string `json:"pool"`
	Why      string `json:"why"`
}

func (o *shadowTest) verdicts() (all []verdict) {
	o.t.Helper()
	for line := range bytes.Lines(o.npc.Log()) {
		var v verdict
		if json.Unmarshal(line, &v) == nil && v.Result != "" {
			all = append(all, v)
		}
	}
	return all
}

// awaitVerdict waits for the only comparison of a request.
func (o *shadowTest) awaitVerdict(id string) verdict {
	o.t.Helper()
	about := func() []verdict {
		return slices.DeleteFunc(o.verdicts(), func(v verdict) bool { return v.Request != id })
	}
	testutil.Await(o.t, "request "+id+" is compared", func() bool { return len(about()) > 0 })
	all := about()
	if len(all) != 1 {
		o.t.Errorf("request %s was compared %d times: %+v", id, len(all), all)
	}
	return all[0]
}

func (o *shadowTest) ask(w wanted) string {
	o.t.Helper()
	id, err := o.request(o.over, w)
	testutil.Must(o.t, err)
	return id
}

// take waits for nodes and takes them, as Zuul does, after the shadow has compared the request: if the request is gone
// before, the shadow can only report that.
func (o *shadowTest) take(id string) []*node {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.over, testutil.Patience) // Nodepool may need a minute for a used machine
	defer cancel()
	a, err := o.wait(ctx, id)
	if err != nil || a.State != "fulfilled" {
		o.t.Fatalf("request %s: %+v, %v", id, a, err)
	}
	o.awaitVerdict(id)
	held, err := o.accept(ctx, id, a.Nodes)
	testutil.Must(o.t, err)
	return held
}

// run requests nodes, uses them for a moment and returns them. It returns the shadow's comparison.
func (o *shadowTest) run(w wanted) verdict {
	o.t.Helper()
	id := o.ask(w)
	o.useAll(o.over, id, o.take(id), 0)
	return o.awaitVerdict(id)
}

// requestUnservable requests a label that no pool offers.
func (o *shadowTest) requestUnservable(w wanted) verdict {
	o.t.Helper()
	id := o.ask(w)
	ctx, cancel := context.WithTimeout(o.over, testutil.Patience)
	defer cancel()
	if a, err := o.wait(ctx, id); err != nil || a.State != "failed" {
		o.t.Errorf("request %s: %+v, %v", id, a, err)
	}
	v := o.awaitVerdict(id)
	if err := o.delete(ctx, requestsRoot+"/"+id); err != nil {
		o.t.Error(err)
	}
	return v
}

func (o *shadowTest) checkVerdict(v verdict, want verdict, why string) {
	o.t.Helper()
	if !strings.Contains(v.Npctl.Why, why) {
		o.t.Errorf("request %s: npctl reports %q, want %q", v.Request, v.Npctl.Why, why)
	}
	v.Request, v.Npctl.Why, v.Live.Why = "", "", ""
	if diff := cmp.Diff(want, v); diff != "" {
		o.t.Errorf("verdict (-want +got):\n%s", diff)
	}
}

// stamp is the metadata of a znode that changes with every write and with every creation or deletion of a child.
type stamp struct {
	Data                                  string
	Czxid, Mzxid, Pzxid                   int64
	Version, Cversion, Aversion, Children int32
	Owner                                 int64
}

// stamps returns the stamps of all znodes.
func (z *zuul) stamps() map[string]stamp {
	z.t.Helper()
	all := map[string]stamp{}
	var walk func(path string)
	walk = func(path string) {
		at := path
		if at == "" {
			at = "/"
		}
		data, s, err := z.conn.Get(at)
		if errors.Is(err, zookeeper.ErrNoNode) {
			return
		}
		if err != nil {
			z.t.Fatalf("%s: %v", at, err)
		}
		all[at] = stamp{string(data), s.Czxid, s.Mzxid, s.Pzxid, s.Version, s.Cversion, s.Aversion, s.NumChildren, s.EphemeralOwner}
		names, _, err := z.conn.Children(at)
		if err != nil && !errors.Is(err, zookeeper.ErrNoNode) {
			z.t.Fatalf("%s: %v", at, err)
		}
		for _, name := range names {
			if at != "/zookeeper" {
				walk(path + "/" + name)
			}
		}
	}
	walk("")
	return all
}

func TestShadowBesideNodepool(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	rack := lab.StartLauncher(t, zk, lab.Nodepool{Driver: "static", Provider: "rack", Nodes: inRack, Labels: []string{"common", "pair", "theirs"}})
	annex := lab.StartLauncher(t, zk, lab.Nodepool{Driver: "static", Provider: "annex", Nodes: 1, Labels: []string{"common"}})
	common, pair := []string{"common"}, []string{"pair", "pair"}
	machines := append(slices.Repeat([][]string{common}, inRack-1), []string{"common", "pair"})
	o := newShadowTest(t, zk, declared+pool("rack", 100, machines...)+pool("annex", 50, common))
	testutil.Await(t, "Nodepool has registered", func() bool { return o.pools() == 2 })
	testutil.Await(t, "Nodepool has its machines", func() bool { names, _ := o.children(o.over, nodesRoot); return len(names) == inRack+1 })
	if _, err := o.conn.Create(requestsRoot, nil, 0, zookeeper.WorldACL(zookeeper.PermAll)); err != nil { // as Zuul does
		t.Fatal(err)
	}
	o.npc.start()

	onRack, onAnnex := side{Do: "serve", Provider: "rack", Pool: "main"}, side{Do: "serve", Provider: "annex", Pool: "main"}
	fromRack, fromAnnex := side{Answer: "served", Provider: "rack", Pool: "main"}, side{Answer: "served", Provider: "annex", Pool: "main"}
	if err := annex.Pause(); err != nil { // so that rack is first, although npctl would choose otherwise
		t.Fatal(err)
	}
	id := o.ask(wanted{labels: common})
	held := o.take(id)
	testutil.Must(t, annex.Continue())
	o.checkVerdict(o.awaitVerdict(id), verdict{Level: "WARN", Labels: common, Result: "other_pool", Npctl: onAnnex, Live: fromRack}, "1 ready, 0 to launch")
	o.useAll(o.over, id, held, 0)
	o.checkVerdict(o.run(wanted{labels: common, provider: "rack"}), verdict{Level: "INFO", Labels: common, Result: "agree", Npctl: onRack, Live: fromRack}, "1 ready")
	o.checkVerdict(o.run(wanted{labels: common, provider: "annex"}), verdict{Level: "INFO", Labels: common, Result: "agree", Npctl: onAnnex, Live: fromAnnex}, "1 ready")
	declines := side{Do: "decline"}
	o.checkVerdict(o.run(wanted{labels: []string{"theirs"}}),
		verdict{Level: "WARN", Labels: []string{"theirs"}, Result: "would_decline", Npctl: declines, Live: fromRack}, "rack/main: it has no label theirs")
	o.checkVerdict(o.run(wanted{labels: pair}), verdict{Level: "WARN", Labels: pair, Result: "would_decline", Npctl: declines, Live: fromRack}, "fewer machines than are asked for")
	o.checkVerdict(o.requestUnservable(wanted{labels: []string{"nobody"}}),
		verdict{Level: "INFO", Labels: []string{"nobody"}, Result: "agree", Npctl: declines, Live: side{Answer: "failed"}}, "no label nobody")

	o.checkCommands(id)
	o.checkAgreement(pool("rack", 100, slices.Repeat([][]string{{"common", "pair", "theirs"}}, inRack)...) + pool("annex", 100, common))
	o.useAllNodes()
	o.checkTreeUnchanged(rack, annex)
}

// declared declares the labels; not every configuration offers all of them.
const declared = "label \"common\" {}\nlabel \"pair\" {}\nlabel \"theirs\" {}\n"

// useAllNodes uses all nodes while further requests wait.
func (o *shadowTest) useAllNodes() {
	o.t.Helper()
	o.awaitNoLeftovers(testutil.Patience)
	all, last := o.ask(wanted{labels: slices.Repeat([]string{"theirs"}, inRack)}), o.ask(wanted{labels: []string{"common"}, provider: "annex"})
	held, one := o.take(all), o.take(last)
	for _, n := range slices.Concat(held, one) {
		testutil.Must(o.t, o.state(o.over, n, "in-use"))
	}
	if all, last := o.awaitVerdict(all), o.awaitVerdict(last); all.Result != "agree" || last.Result != "agree" {
		o.t.Errorf("requests for everything: %+v and %+v", all, last)
	}
	cancelled := o.ask(wanted{labels: []string{"common"}})
	o.awaitDecision("let it wait", cancelled)
	testutil.Must(o.t, o.delete(o.over, requestsRoot+"/"+cancelled))
	if v := o.awaitVerdict(cancelled); v.Result != "withdrawn" || v.Npctl.Do != "wait" {
		o.t.Errorf("a request that was cancelled: %+v", v)
	}
	waits := o.ask(wanted{labels: []string{"common"}, provider: "annex"})
	o.awaitDecision("let it wait", waits)
	o.useAll(o.over, last, one, 0)
	o.useAll(o.over, waits, o.take(waits), 0)
	if v := o.awaitVerdict(waits); v.Result != "agree" || v.Npctl.Provider != "annex" {
		o.t.Errorf("a request that has waited: %+v", v)
	}
	o.useAll(o.over, all, held, 0)
}

// awaitDecision waits until npctl reports that it would make this decision about a request.
func (o *shadowTest) awaitDecision(do, id string) {
	o.t.Helper()
	testutil.Await(o.t, "npctl would "+do, func() bool {
		why, err := o.npc.Why(o.t.Context(), "request/"+id)
		return err == nil && strings.Contains(why.Summary, "npctl would "+do)
	})
}

// checkCommands checks the output of the commands, and that they cannot change anything.
func (o *shadowTest) checkCommands(id string) {
	o.t.Helper()
	for _, test := range []struct {
		want string
		args []string
		fail bool
	}{
		{"other_pool", []string{"status", "-once"}, false},
		{"npctl would serve it from annex/main", []string{"why", "request/" + id}, false},
		{"is read-only (-shadow)", []string{"request", "create", "-label=common"}, true},
		{"is read-only (-shadow)", []string{"freeze", "rack"}, true},
		{"", []string{"plan"}, false}, // a plan is read-only anyway
	} {
		out, err := o.npc.command(test.args...).CombinedOutput()
		if (err != nil) != test.fail || !strings.Contains(string(out), test.want) {
			o.t.Errorf("npctl %s ended with %v and printed:\n%s", strings.Join(test.args, " "), err, out)
		}
	}
}

// checkAgreement reloads npctl with Nodepool's configuration and makes several requests: the shadow reports each request
// once, and npctl would have done the same.
func (o *shadowTest) checkAgreement(configuration string) {
	o.t.Helper()
	at := filepath.Join(o.npc.dir, "npctl.hcl")
	text := testutil.ReadFile(o.t, at)
	before, _, _ := strings.Cut(text, declared)
	testutil.WriteFile(o.t, at, before+declared+configuration)
	o.npc.Signal(syscall.SIGHUP)
	testutil.Await(o.t, "the configuration was reloaded", func() bool { return o.npc.Logged("configuration reloaded") == 1 })
	var ids []string
	for range 6 {
		ids = append(ids, o.ask(wanted{labels: []string{"theirs"}}))
	}
	for _, id := range ids {
		o.useAll(o.over, id, o.take(id), 0)
		if v := o.awaitVerdict(id); v.Result != "agree" || v.Npctl.Provider != "rack" {
			o.t.Errorf("with the same configuration: %+v", v)
		}
	}
}

// checkTreeUnchanged stops Nodepool, so that only the shadow could still write, and checks that it has written nothing.
func (o *shadowTest) checkTreeUnchanged(launchers ...*lab.Launcher) {
	o.t.Helper()
	for _, l := range launchers {
		testutil.Must(o.t, l.Stop())
	}
	o.npc.Stop()
	if o.npc.Logged("shadow: requests compared", `"agree":`) != 1 {
		o.t.Error("at its end it does not sum up")
	}
	testutil.Await(o.t, "no pool is registered", func() bool { return o.pools() == 0 })
	id := o.ask(wanted{labels: []string{"common"}})
	before := o.stamps()
	if _, there := before["/npctl"]; there {
		o.t.Errorf("there is %v", slices.Sorted(maps.Keys(before)))
	}
	o.npc.start()
	o.awaitDecision("", id) // serve it, or wait for machines that Nodepool has not yet made ready again
	time.Sleep(2 * session) // longer than a full reread of the state
	if diff := cmp.Diff(before, o.stamps()); diff != "" {
		o.t.Errorf("the shadow or another program has changed the tree (-before +after):\n%s", diff)
	}
	o.npc.Stop()
	time.Sleep(session) // its session has ended
	if diff := cmp.Diff(before, o.stamps()); diff != "" {
		o.t.Errorf("after it has stopped (-before +after):\n%s", diff)
	}
}

// TestShadowLaunchesNothing has Nodepool with its emulated OpenStack, and another emulated OpenStack in which npctl
// would launch.
func TestShadowLaunchesNothing(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	lab.StartLauncher(t, zk, lab.Nodepool{Driver: "fake", Provider: "one", Nodes: 4, Labels: []string{"common"}})
	c := newCloud(t, "one", quick)
	o := newShadowTest(t, zk, openstackProvider("one", 2, 100, "common"), c)
	testutil.Await(t, "Nodepool has registered", func() bool { return o.pools() == 1 })
	if _, err := o.conn.Create(requestsRoot, nil, 0, zookeeper.WorldACL(zookeeper.PermAll)); err != nil { // as Zuul does
		t.Fatal(err)
	}
	o.npc.start()
	common, onOne, fromOne := []string{"common"}, side{Do: "serve", Provider: "one", Pool: "main"}, side{Answer: "served", Provider: "one", Pool: "main"}
	var ids []string
	var held [][]*node
	for range 2 {
		id := o.ask(wanted{labels: common})
		held = append(held, o.take(id))
		o.checkVerdict(o.awaitVerdict(id), verdict{Level: "INFO", Labels: common, Result: "agree", Npctl: onOne, Live: fromOne}, "0 ready, 1 to launch")
		ids = append(ids, id)
	}
	id := o.ask(wanted{labels: common})
	held = append(held, o.take(id))
	o.checkVerdict(o.awaitVerdict(id), verdict{Level: "WARN", Labels: common, Result: "would_wait", Npctl: side{Do: "wait"}, Live: fromOne}, "max_servers is 2 and 2 are taken")
	for i, id := range append(ids, id) {
		o.useAll(o.over, id, held[i], 0)
	}
	if servers := c.servers(); len(servers) > 0 {
		t.Errorf("it has launched %v", servers)
	}
	if bad := o.npc.Logged(`"level":"ERROR"`); bad > 0 {
		t.Errorf("%d errors are in its log", bad)
	}
	o.npc.Stop()
	if _, there := o.stamps()["/npctl"]; there {
		t.Error("it has created /npctl")
	}
}
