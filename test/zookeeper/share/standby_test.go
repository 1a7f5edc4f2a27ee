//go:build integration

package share

import (
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

func common(*rand.Rand) wanted { return wanted{labels: []string{"common"}} }

// duo is two machines with the same provider.
type duo struct {
	a, b *machine
	*load
	zk    *lab.Lab
	cloud *cloud
	third *machine // no process runs there
}

func newDuo(t *testing.T) *duo {
	zk := lab.Start(t, 1)
	c := newCloud(t, "one", quick)
	d := &duo{zk: zk, cloud: c}
	d.a = newMachine(t, zk, "A", openstackProvider("one", 8, 100, "common"), c).start()
	d.b = newMachine(t, zk, "B", openstackProvider("one", 8, 100, "common"), c).start()
	d.load = newLoad(t, newZuul(t, zk.Env), 1, common, c)
	return d
}

const serves = `"lock acquired" lock="provider one"`

// checkTakeover calls when, which does something to the other machine, waits until this machine serves and more requests
// are answered, and logs how long that took.
func (d *duo) checkTakeover(m *machine, when func()) {
	d.t.Helper()
	before := m.Logged(serves)
	began := time.Now()
	when()
	testutil.Await(d.t, m.name+" takes over", func() bool { return m.Logged(serves) > before })
	took := time.Since(began)
	count := d.count()
	testutil.Await(d.t, "requests are served", func() bool { return d.count() > count+3 })
	d.t.Logf("%s took over after %s, and requests went on after %s", m.name, took.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))
}

func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	d := newDuo(t)
	if d.a.Logged(serves) != 1 || d.b.Logged(serves) != 0 {
		t.Fatal("not just the first one serves")
	}
	if p := d.b.provider("one"); p.Leader == nil || p.Leader.PID != d.a.PID() || d.a.provider("one").Leader != nil {
		t.Errorf("B reports about the provider: %+v", p)
	}
	if out, err := d.b.command("status", "-once").CombinedOutput(); err != nil || !strings.Contains(string(out), "standby") {
		t.Errorf("npctl status of the standby: %v\n%s", err, out)
	}
	d.begin(4)
	testutil.Await(t, "requests are answered", func() bool { return d.count() > 10 })

	d.checkTakeover(d.b, d.a.Kill)

	d.a.start()
	d.checkTakeover(d.a, func() { d.b.Signal(syscall.SIGSTOP) })
	time.Sleep(time.Second)
	d.b.Signal(syscall.SIGCONT)
	testutil.Await(t, "the paused process is a standby", func() bool { return d.b.Logged("standing by") > 1 })

	d.checkTakeover(d.b, func() { d.a.Stop() })

	d.a.start()
	more := strings.Replace(openstackProvider("one", 8, 100, "common", "spare"), `"spare" {}`, `"spare" { min_ready = 1 }`, 1)
	d.third = newMachine(t, d.zk, "third", more, d.cloud)
	d.unlock(d.third)
	d.unlock(d.a) // beside an npctl watch, which runs the command
	d.checkApplyRejected()
	d.finish()
	d.awaitNoLeftovers(testutil.Patience)
	d.b.Stop()
}

// unlock releases the provider's lock with npctl force-unlock. Either of the two machines then serves the provider.
func (d *duo) unlock(at *machine) {
	d.t.Helper()
	before := d.a.Logged(serves) + d.b.Logged(serves)
	if out, err := at.command("force-unlock", "-force", d.lockOf("one").ID).CombinedOutput(); err != nil {
		d.t.Errorf("force-unlock: %v\n%s", err, out)
	}
	testutil.Await(d.t, "a process acquires it", func() bool { return d.a.Logged(serves)+d.b.Logged(serves) > before })
	count := d.count()
	testutil.Await(d.t, "requests are served after force-unlock", func() bool { return d.count() > count+6 })
}

// checkApplyRejected checks the error of npctl apply while other processes serve the provider.
func (d *duo) checkApplyRejected() {
	d.t.Helper()
	out, err := d.third.command("apply", "-auto-approve").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "provider one") || !strings.Contains(string(out), "watch") {
		d.t.Errorf("beside npctl watch, apply ended with %v and printed:\n%s", err, out)
	}
	d.t.Logf("apply on a third machine: %s", out)
}
