//go:build integration

package share

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/npctl/npctl/internal/testutil"
)

// load is a set of users that request nodes repeatedly, and the results.
type load struct {
	*zuul
	clouds  map[string]*cloud // by provider
	seed    uint64
	want    func(*rand.Rand) wanted
	use     time.Duration // maximum
	cancels float64       // share of requests that are cancelled
	limit   time.Duration // for one request
	asked   []*machine    // their explanations are printed when a record is left over
	mayFail func(wanted) bool

	users sync.WaitGroup
	over  context.Context
	end   context.CancelFunc

	mu       sync.Mutex // guards the fields below
	handed   map[string]string
	busy     map[string]string // node or machine in use to request
	answered int
	failed   int
	canceled int
	served   map[string]int // by provider
	slowest  time.Duration
	slow     string // the slowest request
	latency  []time.Duration
	last     time.Time // time of the newest answer
	wrongs   []string
}

func newLoad(t *testing.T, z *zuul, seed uint64, want func(*rand.Rand) wanted, clouds ...*cloud) *load {
	l := &load{zuul: z, clouds: map[string]*cloud{}, seed: seed, want: want, use: 300 * time.Millisecond, limit: testutil.Patience,
		mayFail: func(wanted) bool { return false },
		handed:  map[string]string{}, busy: map[string]string{}, served: map[string]int{}}
	for _, c := range clouds {
		l.clouds[c.name] = c
	}
	l.over, l.end = context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(func() { l.end(); l.users.Wait() })
	return l
}

// begin starts the given number of users, which make requests until finish is called.
func (l *load) begin(users int) *load {
	for i := range users {
		random := rand.New(rand.NewPCG(l.seed, uint64(i)))
		l.users.Go(func() {
			for l.over.Err() == nil {
				l.once(random)
				time.Sleep(time.Duration(random.Int64N(int64(200 * time.Millisecond))))
			}
		})
	}
	return l
}

// finish waits until all users have completed their requests.
func (l *load) finish() {
	l.end()
	l.users.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, wrong := range l.wrongs {
		l.t.Error(wrong)
	}
	slices.Sort(l.latency)
	median := time.Duration(0)
	if len(l.latency) > 0 {
		median = l.latency[len(l.latency)/2]
	}
	l.t.Logf("%d requests answered, %d of them failed; %d cancelled; served by %v; median %s, slowest %s (%s)", l.answered, l.failed, l.canceled,
		l.served, median.Round(time.Millisecond), l.slowest.Round(time.Millisecond), l.slow)
}

func (l *load) addError(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wrongs) < 20 {
		l.wrongs = append(l.wrongs, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answered
}

func (l *load) servedBy(provider string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.served[provider]
}

// once makes one request, from its creation to the return of its nodes.
func (l *load) once(random *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.over), l.limit)
	defer cancel()
	began := time.Now()
	w := l.want(random)
	id, err := l.request(ctx, w)
	if err != nil {
		l.addError("request: %v", err)
		return
	}
	if random.Float64() < l.cancels {
		l.cancel(ctx, id, random)
		return
	}
	a, err := l.wait(ctx, id)
	if err != nil {
		l.addError("%v", err)
		return
	}
	l.note(id, w, a, time.Since(began))
	if a.State == "failed" {
		_ = l.delete(ctx, requestsRoot+"/"+id)
		return
	}
	time.Sleep(time.Duration(random.Int64N(int64(30 * time.Millisecond))))
	if then, err := l.readRequest(ctx, id); err != nil || then.State != a.State || !slices.Equal(then.Nodes, a.Nodes) {
		l.addError("request %s was %+v and is then %+v, %v", id, a, then, err)
	}
	held, err := l.accept(ctx, id, a.Nodes)
	if err != nil {
		l.addError("request %s: %v", id, err)
	}
	l.useAll(ctx, id, held, time.Duration(random.Int64N(int64(l.use))))
}

// cancel deletes a request after a while, in any state.
func (l *load) cancel(ctx context.Context, id string, random *rand.Rand) {
	time.Sleep(time.Duration(random.Int64N(int64(800 * time.Millisecond))))
	if err := l.delete(ctx, requestsRoot+"/"+id); err != nil {
		l.addError("cancel request %s: %v", id, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.canceled++
}

func (l *load) note(id string, w wanted, a answer, took time.Duration) {
	if a.State == "failed" && !l.mayFail(w) {
		l.addError("request %s for %v has failed: declined by %v", id, w.labels, a.Declined)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered++
	l.last = time.Now()
	if a.State == "failed" {
		l.failed++
		return
	}
	l.latency = append(l.latency, took)
	if took > l.slowest {
		l.slowest, l.slow = took, fmt.Sprintf("%s for %v, preferring %q, from %s", id, w.labels, w.provider, time.Now().Add(-took).Format("15:04:05.000"))
	}
}

// useAll uses nodes for a while and returns them.
func (l *load) useAll(ctx context.Context, id string, held []*node, use time.Duration) {
	for _, n := range held {
		l.recordTaken(n, id)
		if err := l.state(ctx, n, "in-use"); err != nil {
			l.addError("use of node %s: %v", n.ID, err)
		}
	}
	time.Sleep(use)
	for _, n := range held {
		l.checkServer(ctx, n, id)
		l.recordReturned(n)
		if err := errors.Join(l.state(ctx, n, "used"), l.unlock(ctx, n)); err != nil {
			l.addError("return of node %s: %v", n.ID, err)
		}
	}
}

// recordTaken records the user of a node, and checks that the node has no other user and that its server never had one.
func (l *load) recordTaken(n *node, id string) {
	names := []string{"node " + n.ID, "machine " + n.Hostname}
	l.mu.Lock()
	server := ""
	if l.clouds[n.Provider] != nil {
		server = n.server()
	}
	before, again := l.handed[server]
	if server != "" {
		names[1] = "server " + server
		l.handed[server] = id
	}
	two := ""
	for _, name := range names {
		if l.busy[name] != "" {
			two = fmt.Sprintf("%s was assigned to request %s while %s had it", name, id, l.busy[name])
		}
		l.busy[name] = id
	}
	l.served[n.Provider]++
	l.mu.Unlock()
	if two != "" {
		l.addError("%s", two)
	}
	if server != "" && again {
		l.addError("server %s was assigned to request %s after %s had used it", server, id, before)
	}
}

func (l *load) recordReturned(n *node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.busy, "node "+n.ID)
	delete(l.busy, "machine "+n.Hostname)
	delete(l.busy, "server "+n.server())
}

// checkServer checks a node in use.
func (l *load) checkServer(ctx context.Context, n *node, id string) {
	now := &node{ID: n.ID}
	if err := l.read(ctx, now); err != nil || now.State != "in-use" || now.Allocated != id {
		l.addError("node %s, which request %s uses, is %s for %q: %v", n.ID, id, now.State, now.Allocated, err)
	}
	if c := l.clouds[n.Provider]; c != nil {
		if of, there := c.servers()[n.server()]; !there || of != n.ID {
			l.addError("server %s of node %s, which request %s uses: exists %t, for node %q", n.server(), n.ID, id, there, of)
		}
	}
}

// leftovers lists the objects that are not in their expected state after all requests have ended.
func (l *load) leftovers(ctx context.Context) (left []string) {
	requests, err := l.children(ctx, requestsRoot)
	if err != nil {
		left = append(left, err.Error())
	}
	for _, id := range requests {
		a, err := l.readRequest(ctx, id)
		left = append(left, fmt.Sprintf("request %s is %s %v", id, a.State, err))
	}
	dirs, _ := l.children(ctx, locksRoot)
	for _, id := range dirs {
		if contenders, _ := l.children(ctx, locksRoot+"/"+id); len(contenders) > 0 {
			left = append(left, fmt.Sprintf("the lock of request %s is held: %v", id, contenders))
		}
	}
	nodes, err := l.children(ctx, nodesRoot)
	if err != nil {
		left = append(left, err.Error())
	}
	records := map[string]*node{}
	for _, name := range nodes {
		n := &node{ID: name}
		if err := l.read(ctx, n); errors.Is(err, zk.ErrNoNode) {
			continue
		} else if err != nil {
			left = append(left, err.Error())
			continue
		}
		records[name] = n
		contenders, _ := l.children(ctx, nodesRoot+"/"+name+"/lock")
		if n.State != "ready" || n.Allocated != "" || len(contenders) > 0 {
			left = append(left, fmt.Sprintf("node %s of %s is %s for %q, locked by %v", name, n.Provider, n.State, n.Allocated, contenders))
		}
	}
	for name, c := range l.clouds {
		servers := c.servers()
		for server, of := range servers {
			if n := records[of]; n == nil || n.server() != server {
				left = append(left, fmt.Sprintf("server %s of provider %s, marked for node %q, has no record", server, name, of))
			}
		}
		for _, n := range records {
			if _, there := servers[n.server()]; n.Provider == name && !there {
				left = append(left, fmt.Sprintf("node %s of %s has no server %s", n.ID, name, n.server()))
			}
		}
	}
	return left
}

// awaitNoLeftovers waits until left is empty.
func (l *load) awaitNoLeftovers(within time.Duration) {
	l.t.Helper()
	var left []string
	began := time.Now()
	if testutil.Poll(within, func() bool {
		left = l.leftovers(context.WithoutCancel(l.over))
		return len(left) == 0
	}) {
		l.t.Logf("settled after %s", time.Since(began).Round(time.Millisecond))
		return
	}
	for _, one := range left {
		l.t.Errorf("after %s: %s", within, one)
	}
	for _, m := range l.asked {
		out, err := m.command("node", "list").CombinedOutput()
		l.t.Logf("information in %s: %v\n%s", m.name, err, out)
	}
}
