package statsd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

var start = time.Unix(1_800_000_000, 0)

func pass(after time.Duration) watch.Pass {
	three, cores := int64(3), int64(40)
	return watch.Pass{
		Desired: resources.Desired{
			Settings: resources.Settings{TenantLimits: []resources.TenantLimit{{Tenant: "example.com", Limits: resources.Limits{MaxServers: &three, MaxCores: &cores}}}},
			Images:   []resources.Image{{Name: "debian", Kind: resources.DiskImage}},
			Providers: []resources.Provider{{Name: "one", Driver: "openstack", Pools: []resources.Pool{{Name: "main", Limits: resources.Limits{MaxServers: &three},
				Offers: []resources.Offer{{Label: "small", Image: resources.ImageRef{Kind: resources.DiskImage, Name: "debian"}}}}}}},
		},
		Observed: plan.Observed{Now: start.Add(after), RequestedBuilds: []string{"debian"}, Records: plan.Records{
			Nodes:    []*resources.Node{{ID: "0000000001", Provider: "one", Pool: "main", Labels: []string{"small"}, State: resources.StateReady, Zone: "nova", Request: "200-0000000001"}},
			Requests: []*resources.Request{{ID: "200-0000000001", State: resources.StatePending, Labels: []string{"small"}, Requestor: "zuul.example.com:1"}, {ID: "200-0000000002", State: resources.StateRequested, Labels: []string{"large"}}},
			Builds: []*resources.Build{{ID: "b", Image: "debian", State: resources.StateReady, StateTime: start,
				Files: []resources.ImageFile{{Format: "qcow2", Size: 4096}}}},
		}},
	}
}

// server is a statsd server.
type server struct {
	t    *testing.T
	conn net.PacketConn
	seen []string
}

func newServer(t *testing.T) *server {
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	testutil.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &server{t: t, conn: conn}
}

// await reads until all lines have arrived.
func (s *server) await(lines ...string) {
	s.t.Helper()
	testutil.Must(s.t, s.conn.SetReadDeadline(time.Now().Add(testutil.Patience)))
	for slices.ContainsFunc(lines, func(line string) bool { return !slices.Contains(s.seen, line) }) {
		buffer := make([]byte, 65536)
		n, _, err := s.conn.ReadFrom(buffer)
		if err != nil {
			s.t.Fatalf("%v; got\n%s\nwant\n%s", err, strings.Join(s.seen, "\n"), strings.Join(lines, "\n"))
		}
		if n > packetSize {
			s.t.Errorf("a packet of %d bytes", n)
		}
		s.seen = append(s.seen, strings.Split(string(buffer[:n]), "\n")...)
	}
}

func newReporter(t *testing.T, o Options) *Reporter {
	o.Host, o.Classify, o.Log = "host.example", func(error) string { return "quota" }, slog.New(slog.DiscardHandler)
	r := New(o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return r
}

func TestNamesAreThoseOfNodepool(t *testing.T) {
	s := newServer(t)
	r := newReporter(t, Options{Address: s.conn.LocalAddr().String(), Running: func() []plan.Step {
		return []plan.Step{{Kind: plan.KindUpload, Image: "debian", Provider: "one"}}
	}})
	r.Pass(pass(0))
	s.await("nodepool.nodes.ready:1|g", "nodepool.nodes.deleted:0|g", "nodepool.label.small.nodes.ready:1|g", "nodepool.label.small.nodes.in-use:0|g",
		"nodepool.provider.one.nodes.ready:1|g", "nodepool.provider.one.nodes.aborted:0|g", "nodepool.provider.one.max_servers:3|g",
		"nodepool.provider.one.pool.main.addressable_requests:1|g", "nodepool.tenant_limits.example_com.instances:3|g", "nodepool.tenant_limits.example_com.cores:40|g",
		"nodepool.image_build_requests:1|g", "nodepool.image.debian.image_build_requests:1|g", "nodepool.dib_image_build.debian.qcow2.size:4096|g",
		fmt.Sprintf("nodepool.dib_image_build.debian.status.last_build:%d|g", start.Unix()), "nodepool.builder.host_example.image.debian.build.state:0|g",
		"nodepool.builder.host_example.image.debian.provider.one.upload.state:2|g")

	event := func(kind reconcile.EventKind, err error, s plan.Step) {
		r.Step(reconcile.Event{Kind: kind, Step: s, Took: 1500 * time.Millisecond, Err: err, ID: "0000000001"})
	}
	event(reconcile.EventDone, nil, plan.Step{Kind: plan.KindLaunch, Provider: "one", Request: "200-0000000001"})
	r.Pass(pass(time.Second))
	for _, name := range []string{"launch.ready", "launch.provider.one.ready", "launch.provider.one.nova.ready", "launch.requestor.zuul_example_com_1.ready"} {
		s.await("nodepool."+name+":1500|ms", "nodepool."+name+":1|c")
	}
	event(reconcile.EventFailed, errors.New("no"), plan.Step{Kind: plan.KindLaunch, Provider: "one"})
	s.await("nodepool.launch.error.quota:1|c", "nodepool.launch.requestor.NodePool_min-ready.error.quota:1|c")
	event(reconcile.EventRetry, reconcile.ErrBootTimeout, plan.Step{Kind: plan.KindLaunch, Provider: "one"})
	s.await("nodepool.launch.provider.one.error.keyscan:1|c")
	event(reconcile.EventFailed, fmt.Errorf("build: %w", &process.ExitError{Program: "sh", Code: 7}), plan.Step{Kind: plan.KindBuild, Image: "debian"})
	s.await("nodepool.dib_image_build.debian.status.rc:7|g", "nodepool.dib_image_build.debian.status.duration:1500|ms")
	event(reconcile.EventDone, nil, plan.Step{Kind: plan.KindUpload, Image: "debian", Provider: "one"})
	s.await("nodepool.image_update.debian.one:1500|ms", "nodepool.image_update.debian.one:1|c")
	event(reconcile.EventDone, nil, plan.Step{Kind: plan.KindDeleteLeftover, Reason: plan.ReasonLeaked, Provider: "one", Type: resources.LeftoverFloatingIP})
	s.await("nodepool.provider.one.leaked.floatingips:1|c")

	count := func() int {
		return len(slices.DeleteFunc(slices.Clone(s.seen), func(line string) bool { return line != "nodepool.nodes.ready:1|g" }))
	}
	if count() != 1 {
		t.Errorf("gauges were sent %d times in one second", count())
	}
}

// The names are those of Nodepool's drivers, also the spelling of azure, and "s" behind the type of other objects.
func TestLeaksHaveTheNamesOfNodepoolsDrivers(t *testing.T) {
	all := map[string]map[string]string{
		"aws": {serverType: "instances", imageType: "amis", resources.LeftoverVolume: "volumes", resources.LeftoverSnapshot: "snapshots", resources.LeftoverObject: "objects",
			resources.LeftoverHost: "hosts", resources.LeftoverPort: "ports", resources.LeftoverLaunchTemplate: "launch_templates"},
		"azure": {serverType: "INSTANCEs", imageType: "images", resources.LeftoverPort: "nics", resources.LeftoverFloatingIP: "pips",
			resources.LeftoverVolume: "disks"},
		"gce": {serverType: "instances", resources.LeftoverVolume: "volumes"},
		"ibmvpc": {serverType: "instances", imageType: "images", resources.LeftoverFloatingIP: "floatingips", resources.LeftoverVolume: "volumes",
			resources.LeftoverObject: "objects"},
		"kubernetes":    {serverType: "nodes"},
		"openshift":     {serverType: "nodes"},
		"openshiftpods": {serverType: "nodes"},
		"openstack": {serverType: "instances", imageType: "images", resources.LeftoverFloatingIP: "floatingips", resources.LeftoverPort: "ports",
			resources.LeftoverVolume: "volumes"},
	}
	s := newServer(t)
	r := newReporter(t, Options{Address: s.conn.LocalAddr().String()})
	p := pass(0)
	p.Desired.Providers = nil
	for driver := range all {
		p.Desired.Providers = append(p.Desired.Providers, resources.Provider{Name: driver, Driver: driver})
	}
	r.Pass(p)
	for driver, names := range all {
		for kind, name := range names {
			r.Step(reconcile.Event{Kind: reconcile.EventDone, Step: plan.Step{Kind: plan.KindDeleteLeftover, Reason: plan.ReasonLeaked, Provider: driver, Type: kind}})
			s.await("nodepool.provider." + driver + ".leaked." + name + ":1|c")
		}
	}
}

func TestLeakedFilesHaveNoMetric(t *testing.T) {
	if all := leaked(&plan.Step{Type: "file"}, ""); len(all) != 0 {
		t.Errorf("got %v", all)
	}
}

func TestPrefixAndHostileNames(t *testing.T) {
	s := newServer(t)
	r := newReporter(t, Options{Address: s.conn.LocalAddr().String(), Prefix: "ci.west."})
	p := pass(0)
	p.Observed.Records.Nodes[0].Labels = []string{"a:1|c\nb"}
	r.Pass(p)
	s.await("ci.west.nodepool.nodes.ready:1|g", "ci.west.nodepool.label.a_1_c_b.nodes.ready:1|g")
}

func TestUnreachableServerBlocksNothing(t *testing.T) {
	log := &testutil.Buffer{}
	r := New(Options{Address: "does-not-exist.invalid:8125", Log: slog.New(slog.NewTextHandler(log, nil)), Classify: func(error) string { return "other" }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.Run(ctx); close(ended) }()
	for i := range 10 * queued { // more than the queue has room for
		r.Pass(pass(time.Duration(i) * gaugesEvery))
	}
	testutil.Await(t, "the error is logged", func() bool { return strings.Contains(log.String(), "does-not-exist.invalid") })
	r.Pass(pass(24 * time.Hour))
	testutil.Await(t, "the queue is read", func() bool { return len(r.packets) == 0 })
	cancel()
	<-ended
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines in the log, want 1:\n%s", n, log)
	}
}
