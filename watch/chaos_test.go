package watch_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/watch"
)

// errDead is the error of every call of a process that was killed.
var errDead = errors.New("killed")

// life is the life of one daemon: after its end no call of the daemon has an effect.
type life struct {
	over    atomic.Bool
	commits atomic.Int64
	dieAt   int64 // number of the commit at which the daemon is killed; 0: none
	late    bool  // the kill comes after the effect of that commit
	told    func([]state.Op)
}

func (k *life) transport(inner http.RoundTripper) http.RoundTripper {
	return testutil.RoundTripper(func(req *http.Request) (*http.Response, error) {
		if k.over.Load() {
			return nil, errDead
		}
		answer, err := inner.RoundTrip(req)
		if err == nil && k.over.Load() { // the call took effect, but its caller was killed
			_ = answer.Body.Close()
			return nil, errDead
		}
		return answer, err
	})
}

type mortalStore struct {
	*bolt.Store
	life *life
}

func (s mortalStore) Commit(ctx context.Context, ops ...state.Op) ([]state.Entry, error) {
	last := s.life.dieAt > 0 && s.life.commits.Add(1) == s.life.dieAt
	if last && !s.life.late {
		s.life.over.Store(true)
	}
	if s.life.over.Load() {
		return nil, errDead
	}
	entries, err := s.Store.Commit(ctx, ops...)
	if s.life.told != nil && err == nil {
		s.life.told(ops)
	}
	if last {
		s.life.over.Store(true)
		return nil, errDead
	}
	return entries, err
}

// chaosFleet has two clouds with a small quota each, and static machines.
const chaosFleet = `
npctl {
  images_dir = "images"
  leak_age   = "30s"
}

diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}

label "small" { min_ready = 1 }
label "large" {}
label "metal" {}

provider "lab" "one" {
  image_format   = "raw"
  launch_timeout = "3m"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    max_servers       = 6
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
    label "large" {
      image  = diskimage.debian
      flavor = "large"
    }
  }
}

provider "lab" "two" {
  image_format   = "raw"
  launch_timeout = "3m"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "small" {
      image            = diskimage.debian
      flavor           = "small"
      auto_floating_ip = true
    }
  }
}

provider "static" "rack" {
  pool "main" {
    node "metal1" {
      labels            = ["metal"]
      host_key_checking = false
      slots             = 2
    }
  }
}
`

var chaosFaults = []emulator.Fault{
	{Operation: "*.list", Action: emulator.Answer, Status: 503},
	{Operation: "server.list", Action: emulator.LateListing, Delay: 10 * time.Second},
	{Operation: "server.create", Action: emulator.Answer, Status: 429, RetryAfter: 3 * time.Second},
	{Operation: "server.create", Action: emulator.Answer, Status: 500},
	{Operation: "server.create", Action: emulator.OverQuota},
	{Operation: "server.create", Action: emulator.ServerError, Message: "No valid host was found. "},
	{Operation: "server.create", Action: emulator.LostAfter},
	{Operation: "server.create", Action: emulator.LateEffect, Delay: time.Minute},
	{Operation: "server.create", Action: emulator.HangAfter},
	{Operation: "server.create", Action: emulator.LateListing, Delay: 15 * time.Second},
	{Operation: "server.delete", Action: emulator.DeleteFails},
	{Operation: "server.delete", Action: emulator.LostAfter},
	{Operation: "server.delete", Action: emulator.Answer, Status: 500},
	{Operation: "floating_ip.create", Action: emulator.LostAfter},
	{Operation: "floating_ip.create", Action: emulator.OverQuota},
	{Operation: "floating_ip.delete", Action: emulator.Answer, Status: 500},
	{Operation: "image.upload", Action: emulator.CutUpload},
	{Operation: "image.upload", Action: emulator.StuckSaving},
	{Operation: "limits.show", Action: emulator.Slow, Delay: 20 * time.Second},
}

// chaos is a fleet that clients use while clouds misbehave and daemons crash.
type chaos struct {
	*lab
	random *rand.Rand

	mu     sync.Mutex // guards the fields below
	daemon *watch.Daemon
	held   map[string]string // node to client
	counts map[string]int
}

func TestChaos(t *testing.T) {
	for _, seed := range testutil.Seeds(1) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runChaos(t, seed) })
		})
	}
}

func runChaos(t *testing.T, seed uint64) {
	quota := emulator.DefaultQuota()
	quota.Instances, quota.Cores = 8, 12
	c := &chaos{random: rand.New(rand.NewPCG(seed, 7)), held: map[string]string{}, counts: map[string]int{},
		lab: newLab(t, chaosFleet, emulator.Options{BuildTime: 15 * time.Second, DeleteTime: 4 * time.Second, Seed: seed, Quota: &quota,
			Foreign: []emulator.ForeignServer{{Name: "np0000000001"}}})}
	for _, cloud := range c.driver.Clouds {
		var faults []emulator.Fault
		for _, f := range chaosFaults {
			f.Probability = 0.05
			faults = append(faults, f)
		}
		testutil.Must(t, cloud.SetFaults(faults...))
	}
	working, stopClients := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 12 {
		own := rand.New(rand.NewPCG(seed, uint64(100+i)))
		clients.Go(func() { c.client(working, fmt.Sprintf("client%d", i), own) })
	}
	for range 8 { // lives of daemons
		kill := c.born()
		time.Sleep(time.Duration(20+c.random.IntN(240)) * time.Second)
		kill()
	}
	for _, cloud := range c.driver.Clouds {
		testutil.Must(t, cloud.SetFaults())
	}
	end := c.bornForGood()
	time.Sleep(5 * time.Minute)
	stopClients()
	clients.Wait()
	c.settle()
	end()
	t.Logf("%v", c.counts)
	if c.counts["served"] < 20 {
		t.Errorf("only %d requests were served", c.counts["served"])
	}
}

// born starts a daemon and returns a function that kills it.
func (c *chaos) born() (kill func()) {
	life := &life{}
	d, stop := c.daemonWith(life)
	c.mu.Lock()
	c.daemon = d
	c.mu.Unlock()
	return func() {
		life.over.Store(true)
		c.mu.Lock()
		c.daemon = nil
		c.mu.Unlock()
		stop(false)
	}
}

func (c *chaos) bornForGood() (end func()) {
	d, stop := c.daemonWith(&life{})
	c.mu.Lock()
	c.daemon = d
	c.mu.Unlock()
	return func() { stop(true) }
}

// call passes the running daemon to do, if one runs.
func (c *chaos) call(do func(*watch.Daemon) error) error {
	c.mu.Lock()
	d := c.daemon
	c.mu.Unlock()
	if d == nil {
		return errDead
	}
	return do(d)
}

func (c *chaos) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// client requests nodes, uses and returns them, or disappears with them.
func (c *chaos) client(ctx context.Context, name string, random *rand.Rand) {
	shapes := [][]string{{"small"}, {"small"}, {"small", "small"}, {"large"}, {"large", "small"}, {"small", "small", "small", "small"},
		{"metal"}, {"metal", "metal"}, {"nothing"}}
	for ctx.Err() == nil {
		wanted := watch.NewRequest{Labels: shapes[random.IntN(len(shapes))], Requestor: name, Priority: new(int64(100 * (1 + random.IntN(3))))}
		var id string
		err := c.call(func(d *watch.Daemon) error {
			r, err := d.Clients.CreateRequest(context.Background(), wanted)
			if err == nil {
				id = r.ID
			}
			return err
		})
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		c.count("asked")
		c.use(ctx, name, id, wanted, random)
		time.Sleep(time.Duration(random.IntN(10)) * time.Second)
	}
}

// use waits for a request and uses its nodes as clients do.
func (c *chaos) use(ctx context.Context, name, id string, wanted watch.NewRequest, random *rand.Rand) {
	patience := time.Duration(30+random.IntN(1200)) * time.Second
	for asked := time.Now(); ; time.Sleep(time.Second) {
		var r *resources.Request
		err := c.call(func(d *watch.Daemon) (err error) { r, err = d.Clients.Request(id); return err })
		switch {
		case errors.Is(err, state.ErrNotFound):
			c.t.Errorf("request %s for %v is lost", id, wanted.Labels)
			return
		case err != nil:
			continue // no daemon runs at the moment
		case r.State == resources.StateFailed:
			if wanted.Labels[0] != "nothing" && !strings.Contains(r.Error, "launch") && !strings.Contains(r.Error, "not taken") {
				c.t.Errorf("request %s for %v failed: %s", id, wanted.Labels, r.Error)
			}
			c.count("failed")
			return
		case r.State == resources.StateFulfilled:
			c.take(name, r, random)
			return
		case time.Since(asked) > patience || ctx.Err() != nil:
			if c.call(func(d *watch.Daemon) error { return d.Clients.CancelRequest(context.Background(), id) }) == nil {
				c.count("cancelled")
				return
			}
		}
	}
}

const leaseTime = 90 * time.Second

func (c *chaos) take(name string, r *resources.Request, random *rand.Rand) {
	var nodes []*resources.Node
	began := time.Now()
	if err := c.call(func(d *watch.Daemon) (err error) {
		nodes, err = d.Clients.Take(context.Background(), r.ID, name, leaseTime)
		return err
	}); err != nil {
		return // the client requests again; nodes that it took all the same return when their lease ends
	}
	for i, n := range nodes {
		if !slices.Contains(n.Labels, r.Labels[i]) {
			c.t.Errorf("request %s: node %d has labels %v, want %s", r.ID, i, n.Labels, r.Labels[i])
		}
		if n.Provider != nodes[0].Provider || n.Pool != nodes[0].Pool || n.Zone != nodes[0].Zone && len(nodes) > 1 && !n.Static {
			c.t.Errorf("request %s: its nodes are not together: %s/%s/%s and %s/%s/%s", r.ID, n.Provider, n.Pool, n.Zone,
				nodes[0].Provider, nodes[0].Pool, nodes[0].Zone)
		}
		c.mu.Lock()
		if other := c.held[n.ID]; other != "" {
			c.t.Errorf("node %s was given to %s while %s has it", n.ID, name, other)
		}
		c.held[n.ID] = name
		c.mu.Unlock()
	}
	c.count("served")
	time.Sleep(time.Duration(random.IntN(60)) * time.Second)
	for _, n := range nodes {
		c.mu.Lock()
		delete(c.held, n.ID)
		c.mu.Unlock()
		if random.IntN(4) == 0 || time.Since(began) > leaseTime {
			c.count("vanished")
			continue
		}
		_ = c.call(func(d *watch.Daemon) error { _, err := d.Clients.Return(context.Background(), n.ID); return err })
	}
}

// settle waits until the records and clouds contain only what min_ready keeps.
func (c *chaos) settle() {
	var left []string
	for range 360 {
		time.Sleep(10 * time.Second)
		if left = c.unsettled(); len(left) == 0 {
			return
		}
	}
	c.t.Errorf("an hour later there is still:\n%s", strings.Join(left, "\n"))
}

func (c *chaos) unsettled() (left []string) {
	pass := c.daemon.Last()
	records := map[string]bool{}
	ready := 0
	for _, n := range pass.Observed.Records.Nodes {
		records[n.ID] = true
		if n.State == resources.StateReady && !n.Static && n.Request == "" {
			ready++
		} else if !n.Static || n.State != resources.StateReady || n.Request != "" {
			left = append(left, fmt.Sprintf("node %s %s of %s, request %q, error %q", n.ID, n.State, n.Provider, n.Request, n.Error))
		}
	}
	if ready < 1 {
		left = append(left, "no ready node")
	}
	for _, r := range pass.Observed.Records.Requests {
		if r.State != resources.StateFailed {
			left = append(left, fmt.Sprintf("request %s %s for %v", r.ID, r.State, r.Labels))
		}
	}
	for name, cloud := range c.driver.Clouds {
		things, err := cloud.Inventory()
		testutil.Must(c.t, err)
		foreign := false
		for _, thing := range things {
			ours := thing.Metadata["npctl_installation"] != "" || strings.Contains(fmt.Sprint(thing.Metadata, thing.Name), "npctl:")
			switch {
			case thing.Name == "np0000000001" && !ours:
				foreign = true
			case thing.Type == "server" && ours && !records[thing.Metadata["npctl_node_id"]]:
				left = append(left, fmt.Sprintf("server %s in %s has no record", thing.Name, name))
			}
		}
		if !foreign {
			c.t.Fatalf("somebody else's server in %s is gone", name)
		}
	}
	return left
}
