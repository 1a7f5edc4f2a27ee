//go:build integration

package share

import (
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/test/zookeeper/lab"
)

func common(*rand.Rand) wanted { return wanted{labels: []string{"common"}} }

// duo is two machines with the same provider.
type duo struct {
	a, b *machine
	*load
	cloud *cloud
}

func newDuo(t *testing.T) *duo {
	zk := lab.Start(t, 1)
	c := newCloud(t, "one", quick)
	d := &duo{cloud: c}
	d.a = newMachine(t, zk, "A", openstackProvider("one", 8, 100, "common"), c).start()
	d.b = newMachine(t, zk, "B", openstackProvider("one", 8, 100, "common"), c).start()
	d.load = newLoad(t, newZuul(t, zk.Env), 1, common, c)
	return d
}

const serves = `"taken over" lock="provider one"`

// takesOver waits until the machine serves, and more requests are answered, and says how long that took.
func (d *duo) takesOver(m *machine, within time.Duration) {
	d.t.Helper()
	before := m.logged(serves)
	began := time.Now()
	await(d.t, m.name+" takes over", within, func() bool { return m.logged(serves) > before })
	took := time.Since(began)
	count := d.count()
	await(d.t, "requests go on", 15*time.Second, func() bool { return d.count() > count+3 })
	d.t.Logf("%s took over after %s, and requests went on after %s", m.name, took.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))
}

func TestAStandbyTakesOver(t *testing.T) {
	d := newDuo(t)
	if d.a.logged(serves) != 1 || d.b.logged(serves) != 0 {
		t.Fatal("not just the first one serves")
	}
	d.begin(4)
	await(t, "requests are answered", 20*time.Second, func() bool { return d.count() > 10 })

	began := time.Now()
	d.a.kill()
	d.takesOver(d.b, session+2*time.Second)
	t.Logf("killed: %s", time.Since(began))

	d.a.start()
	d.b.signal(syscall.SIGSTOP)
	d.takesOver(d.a, session+3*time.Second)
	time.Sleep(time.Second)
	d.b.signal(syscall.SIGCONT)
	await(t, "the one that was paused stands by", 10*time.Second, func() bool { return d.b.logged("standing by") > 1 })

	go d.a.stop()
	d.takesOver(d.b, 3*time.Second)
	d.finish()
	d.settles(20 * time.Second)
	d.b.stop()
}
