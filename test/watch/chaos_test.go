//go:build integration

package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/inspect/wire"
)

const (
	chaosKills  = 24               // The test kills daemons and clouds misbehave until this number of kills,
	chaosAsked  = 200              // this number of requests
	chaosServed = 100              // and this number of served requests: a slow machine takes longer for that,
	chaosMost   = 12 * time.Minute // and the test fails when it takes longer than this.
	chaosCalm   = 2 * time.Minute  // for recovery after the faults
	chaosUsers  = 20
	chaosTenant = "limited"
)

// deadline is a context with a deadline.
type deadline struct{ context.Context }

func (d deadline) deadline() time.Time { at, _ := d.Deadline(); return at }

// chaos is a fleet that users use while clouds misbehave and daemons are killed.
type chaos struct {
	*site
	nodeUses
	projects []*project
	over     deadline // the end of the whole test

	mu      sync.Mutex // guards the fields below
	counts  map[string]int
	waits   []time.Duration
	mistake map[string]bool // mistakes that were reported already
}

// TestKilledDaemonsUnderLoad requests hundreds of nodes from clouds with random faults of all
// kinds, and kills the daemon repeatedly. NPCTL_SEED repeats a run as far as the machine's pace allows.
func TestKilledDaemonsUnderLoad(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("NPCTL_SEED"); given != "" {
		var err error
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatalf("NPCTL_SEED=%s: %v", given, err)
		}
	}
	seed %= 1 << 31
	t.Logf("NPCTL_SEED=%d", seed)
	one, two := chaosClouds(t, seed)
	c := &chaos{site: newSite(t, chaosFleet(one.ServeSSH(t)), one, two), projects: []*project{one, two}, counts: map[string]int{}, mistake: map[string]bool{}}
	one.plant()
	two.plant()
	c.faults(chaosFaults()...)
	over, cancel := context.WithTimeout(t.Context(), chaosMost+chaosCalm)
	c.over = deadline{over}
	c.run(seed, cancel)
}

// faults sets the faults of the clouds; none makes them behave.
func (c *chaos) faults(faults ...emulator.Fault) {
	c.t.Helper()
	for _, p := range c.projects {
		p.must(p.SetFaults(faults...))
	}
}

func (c *chaos) run(seed uint64, cancel context.CancelFunc) {
	working, stop := context.WithCancel(c.over)
	defer stop()
	watching, blind := context.WithCancel(c.over)
	defer blind()
	var users, watchers sync.WaitGroup
	defer func() { cancel(); users.Wait(); watchers.Wait() }()
	for i := range chaosUsers {
		u := &chaosUser{chaos: c, name: fmt.Sprintf("user%d", i), random: rand.New(rand.NewPCG(seed, uint64(i)))}
		users.Go(func() { u.work(working) })
	}
	watchers.Go(func() { c.watch(watching) })
	kills := c.restartDaemons(rand.New(rand.NewPCG(seed, 1<<20)))
	stop()
	c.faults()
	d := c.start("-refresh=1s")
	calm := time.Now()
	users.Wait()
	c.t.Logf("%d kills; %v; waited %s; %d nodes assigned; the last answer came %s after the last fault", kills, c.counts, c.percentiles(),
		c.len(), time.Since(calm).Round(time.Millisecond))
	c.settle()
	blind()
	watchers.Wait()
	c.check()
	given, refused := c.len(), c.quotaRefusals()
	c.t.Logf("settled %s after the last fault; clouds refused %d creates for lack of quota", time.Since(calm).Round(time.Millisecond), refused)
	switch {
	case !c.enough(kills):
		c.t.Errorf("only %d kills and %d requests, of which %d were served, within %s: too few for a meaningful result", kills, c.counted("asked"),
			c.counted("served"), chaosMost)
	case refused > given/20: // late servers of abandoned creations use up quota that npctl counts on
		c.t.Errorf("%d create calls exceeded the quota, with %d nodes assigned", refused, given)
	}
	d.Stop()
	c.destroy()
}

// restartDaemons starts a daemon whenever the previous one was killed, until enough has happened.
func (c *chaos) restartDaemons(random *rand.Rand) (kills int) {
	began := time.Now()
	for {
		if c.enough(kills) || time.Since(began) > chaosMost {
			return kills
		}
		d := c.launch(c.command(context.WithoutCancel(c.over), "watch", "-config="+c.dir, "-refresh=1s"))
		select {
		case <-d.Done:
			d.Runs() // it does not run
		case <-time.After(lifetime(kills, random)):
		}
		d.Signal(syscall.SIGKILL)
		d.Ends(10 * time.Second)
		kills++
	}
}

// lifetime is the time until the next kill. It grows with the number of kills beyond those that the test needs, so that
// requests make progress on a slow machine, too.
func lifetime(kills int, random *rand.Rand) time.Duration {
	life := 300*time.Millisecond + time.Duration(random.Int64N(int64(3200*time.Millisecond)))
	return life * time.Duration(1+kills/chaosKills)
}

// enough reports whether enough has happened for the run to be meaningful.
func (c *chaos) enough(kills int) bool {
	return kills >= chaosKills && c.counted("asked") >= chaosAsked && c.counted("served") >= chaosServed
}

func (c *chaos) counted(what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[what]
}

func (c *chaos) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

func (c *chaos) waited(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waits = append(c.waits, d)
}

func (c *chaos) percentiles() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.waits)
	if len(c.waits) == 0 {
		return "by nobody"
	}
	at := func(part float64) time.Duration {
		return c.waits[int(part*float64(len(c.waits)-1))].Round(time.Millisecond)
	}
	return fmt.Sprintf("%s in the middle, %s for 1 of 20, %s at most", at(0.5), at(0.95), at(1))
}

// reportOnce reports a mistake, once.
func (c *chaos) reportOnce(format string, values ...any) {
	text := fmt.Sprintf(format, values...)
	c.mu.Lock()
	known := c.mistake[text]
	c.mistake[text] = true
	c.mu.Unlock()
	if !known {
		c.t.Errorf("%s: %s", time.Now().Format("15:04:05.000"), text)
	}
}

// why returns the explanation of the daemon, which may have none.
func (c *chaos) why(subject string) string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.over), 5*time.Second)
	defer cancel()
	w, err := c.Why(ctx, subject)
	if err != nil {
		return ": " + err.Error()
	}
	text, _ := json.Marshal(w)
	return ": " + string(text)
}

// checkFailure checks why a request failed: with these faults some requests fail, for reasons that name the faults.
func (c *chaos) checkFailure(r wire.Request) {
	c.count("failed")
	if !strings.Contains(r.Error, "could not be launched") {
		c.reportOnce("request %s for %v failed: %s", r.ID, r.Labels, r.Error)
	}
}
