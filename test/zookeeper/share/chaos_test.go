//go:build integration

package share

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

const (
	chaosTime  = 35 * time.Second // duration of the faults
	chaosUsers = 8
	// outage is how long a provider may be without a leader while a machine that could serve it is healthy: the session
	// of the lost leader, the ZooKeeper ticks of half a second, and the load of other work on two cores.
	outage = session + 30*time.Second
)

// chaos is three machines on one ZooKeeper: A and B with provider one, C with provider two.
type chaos struct {
	*load
	zk       *lab.Lab
	random   *rand.Rand
	machines []*machine
	takeover []time.Duration
}

func TestChaos(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any will do
	if given := os.Getenv("NPCTL_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("NPCTL_SEED=%d", seed)
	c := newChaos(t, seed)
	c.begin(chaosUsers)
	testutil.Await(t, "both providers serve", func() bool { return c.servedBy("one") > 0 && c.servedBy("two") > 0 })
	c.injectFaults()
	testutil.Await(t, "both providers serve again", c.both())
	c.finish()
	c.awaitNoLeftovers(testutil.Patience)
	c.report()
}

func newChaos(t *testing.T, seed uint64) *chaos {
	zk := lab.Start(t, 1)
	one, two := newCloud(t, "one", quick), newCloud(t, "two", quick)
	c := &chaos{zk: zk, random: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // faults
	first, second := openstackProvider("one", 8, 100, "common", "one"), openstackProvider("two", 8, 100, "common", "two")
	c.machines = []*machine{newMachine(t, zk, "A", first, one), newMachine(t, zk, "B", first, one), newMachine(t, zk, "C", second, two)}
	for _, m := range c.machines {
		m.start()
	}
	c.load = newLoad(t, newZuul(t, zk.Env), seed, chaosWants, one, two)
	c.cancels, c.asked = 0.1, c.machines
	c.mayFail = func(w wanted) bool { return w.labels[0] == "two" } // while no process serves provider two
	return c
}

// chaosWants returns a request for one to three nodes, of the label that both providers have or of a label of one
// provider.
func chaosWants(random *rand.Rand) wanted {
	label := []string{"common", "common", "common", "one", "two"}[random.IntN(5)]
	w := wanted{labels: slices.Repeat([]string{label}, 1+random.IntN(3))}
	if label == "common" {
		w.provider = []string{"", "", "one", "two"}[random.IntN(4)]
	}
	return w
}

// both reports whether both providers have served since it was called.
func (c *chaos) both() func() bool {
	one, two := c.servedBy("one"), c.servedBy("two")
	return func() bool {
		c.restartExited(nil)
		return c.servedBy("one") > one && c.servedBy("two") > two
	}
}

// restartExited restarts processes that have exited, as systemd does: a process that cannot connect at its start exits.
func (c *chaos) restartExited(but *machine) {
	for _, m := range c.machines {
		select {
		case <-m.Done:
			if m != but {
				c.logFault("%s has ended by itself", m.name)
				m.launch()
			}
		default:
		}
	}
}

// injectFaults causes faults repeatedly, and kills ZooKeeper once.
func (c *chaos) injectFaults() {
	began := time.Now()
	worst := began.Add(chaosTime / 2)
	for time.Since(began) < chaosTime {
		if !worst.IsZero() && time.Now().After(worst) {
			worst = time.Time{}
			c.killZooKeeper()
			continue
		}
		m := c.machines[c.random.IntN(3)]
		if m != c.machines[2] {
			c.awaitBothRegistered()
		}
		switch c.random.IntN(6) {
		case 0, 1:
			c.killAndRestart(m)
		case 2:
			c.logFault("%s: its connection is cut", m.name)
			m.link.Cut()
		case 3:
			c.interrupt(m, "nothing gets through", m.link.Pause, m.link.Resume)
		case 4:
			c.interrupt(m, "it cannot connect", m.link.Block, m.link.Unblock)
		case 5:
			c.interrupt(m, "the process is stopped", func() { m.Signal(syscall.SIGSTOP) }, func() { m.Signal(syscall.SIGCONT) })
		}
		c.pause(100, 2000)
	}
}

// awaitBothRegistered waits until A and B are both registered: the loss of one of them must be harmless, the loss of both is not.
func (c *chaos) awaitBothRegistered() {
	testutil.Await(c.t, "both machines of provider one are registered", func() bool {
		c.restartExited(nil)
		names, _ := c.children(c.over, poolsRoot)
		pools := 0
		for _, name := range names {
			data, _ := c.get(c.over, poolsRoot+"/"+name)
			pools += bytes.Count(data, []byte(`"provider_name":"one"`))
		}
		return pools == 2
	})
}

func (c *chaos) logFault(format string, args ...any) {
	c.t.Logf("%s %s", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

// pause waits for a random number of milliseconds.
func (c *chaos) pause(least, most int) {
	time.Sleep(time.Duration(least+c.random.IntN(most-least)) * time.Millisecond)
}

func (c *chaos) killZooKeeper() {
	c.logFault("ZooKeeper is killed")
	testutil.Must(c.t, c.zk.Kill())
	c.pause(100, 2000)
	testutil.Must(c.t, c.zk.Up())
	c.logFault("ZooKeeper is back")
}

// killAndRestart kills a process and starts it again after a while.
func (c *chaos) killAndRestart(m *machine) {
	held := c.holder() == m
	c.logFault("%s is killed, which served provider one: %t", m.name, held)
	at := time.Now()
	m.Kill()
	c.pause(0, 3000)
	if held {
		c.awaitTakeover(m, at)
	}
	m.launch()
}

// interrupt stops or disconnects a process for a shorter or longer time than its session lasts.
func (c *chaos) interrupt(m *machine, what string, begin, end func()) {
	held, long := c.holder() == m, c.random.IntN(2) == 0
	c.logFault("%s: %s, for long: %t; it served provider one: %t", m.name, what, long, held)
	at := time.Now()
	begin()
	defer end()
	if !long {
		c.pause(100, int(session.Milliseconds())/2)
		return
	}
	c.pause(int(session.Milliseconds())+1500, 2*int(session.Milliseconds())+2000)
	if held {
		c.awaitTakeover(m, at)
	}
}

// holder returns the machine that serves provider one, or nil when none of the running processes does.
func (c *chaos) holder() *machine { return c.holderOf("one", c.machines[:2]...) }

// awaitTakeover waits until the other machine serves provider one in place of a machine that was lost at the given time.
func (c *chaos) awaitTakeover(lost *machine, at time.Time) {
	other := c.machines[0]
	if lost == other {
		other = c.machines[1]
	}
	for c.holder() != other {
		c.restartExited(lost)
		if time.Since(at) > outage {
			c.t.Errorf("%s has not taken over from %s within %s", other.name, lost.name, outage)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	took := time.Since(at)
	c.takeover = append(c.takeover, took)
	c.logFault("%s serves provider one %s after %s was lost", other.name, took.Round(time.Millisecond), lost.name)
}

func (c *chaos) report() {
	c.t.Helper()
	var times []string
	slices.Sort(c.takeover)
	for _, took := range c.takeover {
		times = append(times, took.Round(time.Millisecond).String())
	}
	c.t.Logf("%d takeovers, with a session of %s: %s", len(times), session, strings.Join(times, " "))
}
