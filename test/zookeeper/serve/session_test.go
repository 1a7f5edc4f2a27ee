//go:build integration

package serve

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/test/zookeeper/lab"
)

// proxied returns a site with npctl, and no other client, behind a proxy.
func proxied(t *testing.T, configuration string) (*site, *lab.Proxy) {
	t.Helper()
	p := lab.StartProxy(t, servers.Hosts)
	s := emptySite(t, servers.Env, root)
	s.hosts, s.timeout = p.Address(), quick
	s.write(configuration)
	s.zuul = lab.StartPeer(t, s.env, lab.PeerOptions{Hosts: s.env.Hosts + s.chroot})
	return s, p
}

// churn makes Zuul run builds: each of the clients runs the given number. The returned function waits for them and
// returns their results.
func (s *site) churn(clients, each int, labels ...string) (wait func() []lab.Held) {
	type result struct {
		held []lab.Held
		err  error
	}
	done := make(chan result, 1)
	go func() {
		held, err := s.zuul.Run(s.t.Context(), lab.Run{Labels: labels, Clients: clients, Each: each, Use: 100 * time.Millisecond, Timeout: time.Minute})
		done <- result{held, err}
	}()
	return func() []lab.Held {
		s.t.Helper()
		r := <-done
		s.must(r.err, "run")
		if len(r.held) != clients*each {
			s.t.Errorf("%d requests have ended, want %d", len(r.held), clients*each)
		}
		for _, h := range r.held {
			if h.Error != "" || h.Held == 0 {
				s.t.Errorf("request %s: %+v", h.Request, h)
			}
		}
		if shared := lab.SharedNodes(r.held); len(shared) > 0 {
			s.t.Errorf("nodes had two users:\n%s", strings.Join(shared, "\n"))
		}
		return r.held
	}
}

// settled waits until no trace of the work is left.
func (s *site) settled(census string) {
	s.t.Helper()
	s.await("nothing is left over", func() bool { return len(s.states()) == 0 && s.census() == census && len(s.children(pools)) == 1 })
	s.await("no node is locked", func() bool { return !slices.ContainsFunc(s.children(nodes), s.locked) })
}

func TestCutConnectionsHaveNoEffectOnRequests(t *testing.T) {
	t.Parallel()
	s, p := proxied(t, cloud{pool: "max_servers = 4"}.String())
	s.timeout = "20s"
	s.write(cloud{pool: "max_servers = 4"}.String())
	s.start()
	s.awaitImage()
	s.witnessWithoutLocks()
	registered := s.children(pools)
	wait := s.churn(3, 3, "small")
	for range 5 {
		before := p.Connections()
		p.Cut()
		s.await("it has connected again", func() bool { return p.Connections() > before })
		time.Sleep(300 * time.Millisecond)
	}
	wait()
	s.settled("map[]")
	if again := s.children(pools); !slices.Equal(again, registered) {
		t.Errorf("registered were %q and are %q: the session was lost", registered, again)
	}
}

func TestNoWriteUnderLostLock(t *testing.T) {
	t.Parallel()
	s, p := proxied(t, cloud{provider: `build_time = "4s"`, pool: "max_servers = 2"}.String())
	s.start()
	s.awaitImage()
	id := s.ask("small")
	s.await("a node is building", func() bool { return s.census() == "map[building:1]" })
	node, before := s.children(nodes)[0], s.pool("one").ID
	p.Pause()
	s.await("its session has ended", func() bool {
		return len(s.children(requestLocks+"/"+id)) == 0 && !s.locked(node) && len(s.children(pools)) == 0
	})
	// Another client takes both locks and holds them while npctl returns.
	for _, path := range []string{requestLocks + "/" + id, nodes + "/" + node + "/lock"} {
		if got, err := s.zuul.TryLock(t.Context(), path); err != nil || !got {
			t.Fatalf("lock %s: %v, %v", path, got, err)
		}
	}
	theirs := map[string]string{requests + "/" + id: strings.Replace(s.request(id).text, "{", `{"theirs": 1, `, 1),
		nodes + "/" + node: strings.Replace(s.node(node).text, "{", `{"theirs": 1, `, 1)}
	for path, text := range theirs {
		s.set(path, text)
	}
	p.Resume()
	s.await("it is registered again", func() bool { return s.pool("one").ID != "" })
	s.stays("records of the other client are unchanged", 2*time.Second, func() bool {
		for path, text := range theirs {
			if z := s.get(path); z == nil || z.text != text {
				t.Errorf("%s was %s and is %+v", path, text, z)
			}
		}
		return !t.Failed()
	})
	if again := s.pool("one").ID; again == "" {
		t.Errorf("it was registered as %s and is not", before)
	}
	for path := range theirs {
		lock := strings.Replace(path, requests, requestLocks, 1)
		if strings.HasPrefix(path, nodes) {
			lock = path + "/lock"
		}
		s.must(s.zuul.Unlock(t.Context(), lock), "unlock")
	}
	s.awaitEnd(id, "fulfilled")
	s.accept(id)
	s.runBuild(id)
	s.settled("map[]")
}

func TestRequestsSurviveSessionLoss(t *testing.T) {
	t.Parallel()
	s, p := proxied(t, cloud{pool: "max_servers = 4"}.String())
	s.start()
	s.awaitImage()
	s.witnessWithoutLocks()
	wait := s.churn(3, 3, "small", "small")
	for range 2 {
		time.Sleep(700 * time.Millisecond)
		p.Pause()
		s.await("its session has ended", func() bool { return len(s.children(pools)) == 0 })
		p.Resume()
		s.await("it is registered again", func() bool { return len(s.children(pools)) == 1 })
	}
	p.Block()
	s.await("its session has ended", func() bool { return len(s.children(pools)) == 0 })
	p.Unblock()
	wait()
	s.settled("map[]")
}

func TestRequestsSurviveKilledServers(t *testing.T) {
	t.Parallel()
	l := lab.Start(t, 1)
	c, err := connect(l.Env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.conn.Close)
	s := emptySite(t, l.Env, c)
	s.timeout = quick
	s.write(cloud{provider: `build_time = "3s"`, pool: "max_servers = 4"}.String())
	s.zuul = lab.StartPeer(t, s.env, lab.PeerOptions{Hosts: s.env.Hosts + s.chroot, Timeout: time.Minute})
	s.start()
	s.awaitImage()
	first, in := s.served("small")
	s.use(first)
	asked := s.ask("small", "small")
	s.await("nodes are building", func() bool { return strings.Contains(s.census(), "building:2") })
	s.must(l.Kill(), "kill")
	time.Sleep(time.Second)
	s.must(l.Up(), "start")
	if _, err := s.zuul.AwaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.awaitEnd(asked, "fulfilled")
	s.accept(asked)
	if z := s.node(in[0]); !z.is("state", "in-use") {
		t.Errorf("nodes of Zuul: %s", fmt.Sprint(z))
	}
	s.runBuild(asked)
	s.must(s.zuul.Return(t.Context(), first), "return")
	s.settled("map[]")
}

func TestZuulSurvivesSessionLoss(t *testing.T) {
	t.Parallel()
	s := newSite(t, single)
	s.start()
	busy, in := s.served("metal")
	s.use(busy)
	waiting := s.ask("metal")
	s.must(s.zuul.Expire(t.Context()), "expire")
	if _, err := s.zuul.AwaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.check("its nodes are reclaimed, and its request is served", func(t *testing.T) {
		if got := s.awaitEnd(waiting, "fulfilled"); got[0] == in[0] {
			t.Errorf("assigned is the node that was in use: %q", got)
		}
	})
	s.must(s.zuul.Cut(t.Context()), "cut")
	if _, err := s.zuul.AwaitConnected(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.accept(waiting)
	s.runBuild(waiting)
	s.settled("map[ready:1]")
}

func TestHostNameVerificationCanBeDisabled(t *testing.T) {
	t.Parallel()
	p := lab.StartProxyAt(t, "127.0.0.2:0", servers.Hosts)
	s := emptySite(t, servers.Env, root)
	s.hosts, s.extra = p.Address(), "verify_host_names = false"
	s.write(single)
	d := s.start()
	d.Stop()
	s.extra = ""
	s.write(single)
	if out, code := s.npctl("plan"); code == 0 {
		t.Errorf("npctl accepted a certificate of another host:\n%s", out)
	}
	s.hosts, s.env.Cert, s.env.Key = servers.Hosts, s.env.StrangerCert, s.env.StrangerKey
	s.write(single)
	if out, code := s.npctl("plan"); code == 0 {
		t.Errorf("the server accepted a client of another authority:\n%s", out)
	}
}
