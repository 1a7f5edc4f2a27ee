package watch_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// stocked is the fleet with min_ready 0.
var stocked = strings.Replace(fleet, "min_ready = 1", "min_ready = 0", 1)

// outage starts a daemon over a fleet with uploaded images. From then on cloud one answers no create call.
func outage(t *testing.T, config string, action emulator.Action) (l *lab, d *watch.Daemon, end func()) {
	t.Helper()
	l = newLab(t, config, emulator.Options{BuildTime: 5 * time.Second, DeleteTime: time.Second})
	l.told = &heard{}
	l.log = slog.New(slog.NewTextHandler(l.told, nil))
	d, end = l.daemon()
	providers := strings.Count(config, `provider "lab"`)
	testutil.Await(l.t, "the images are in place", func() bool {
		uploads := d.Last().Observed.Records.Uploads
		for _, u := range uploads {
			if u.State != resources.StateReady {
				return false
			}
		}
		return len(uploads) == providers
	})
	testutil.Must(t, l.driver.Clouds["one"].SetFaults(emulator.Fault{Operation: "server.create", Action: action, Status: 503}))
	return l, d, end
}

func (l *lab) asks(d *watch.Daemon, r watch.NewRequest) string {
	l.t.Helper()
	made, err := d.Clients.CreateRequest(l.t.Context(), r)
	testutil.Must(l.t, err)
	return made.ID
}

// servers counts npctl's servers in a cloud.
func (l *lab) servers(cloud string) (n int) {
	l.t.Helper()
	things, err := l.driver.Clouds[cloud].Inventory()
	testutil.Must(l.t, err)
	for _, thing := range things {
		if thing.Type == "server" && thing.Metadata["npctl_installation"] != "" {
			n++
		}
	}
	return n
}

// TestOutageFailsNoRequest uses a cloud that answers no create call for half an hour, while all other calls work.
// That is far longer than all attempts together take.
func TestOutageFailsNoRequest(t *testing.T) {
	for _, action := range []emulator.Action{emulator.HangBefore, emulator.LostBefore, emulator.Answer} {
		t.Run(string(action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, d, end := outage(t, stocked, action)
				defer end()
				id := l.asks(d, watch.NewRequest{Labels: []string{"small", "small"}})
				time.Sleep(30 * time.Minute)
				if r, err := d.Clients.Request(id); err != nil || r.State != resources.StatePending || len(r.Declined) > 0 {
					t.Fatalf("during the outage the request is %+v, %v", r, err)
				}
				if n := l.driver.Clouds["one"].Calls()["server.create"]; n < 10 || n > 200 {
					t.Errorf("in half an hour the cloud was asked for servers %d times", n)
				}
				testutil.Must(t, l.driver.Clouds["one"].SetFaults())
				time.Sleep(75 * time.Second) // the longest pause, the wait for a pending answer, and the boot
				if r := l.fulfilled(d, id); r.State != resources.StateFulfilled {
					t.Errorf("after the outage the request is %s: %s", r.State, r.Error)
				}
				for _, n := range d.Last().Observed.Records.Nodes {
					if n.Request == id && (n.Attempt-n.UnansweredAttempts != 1 || n.Error != "") {
						t.Errorf("node %s was ready after %d attempts, %d of them without answer, with error %q", n.ID, n.Attempt, n.UnansweredAttempts, n.Error)
					}
				}
				if n := l.servers("one"); n != 2 {
					t.Errorf("there are %d servers for two nodes", n)
				}
			})
		})
	}
}

// TestInstanceCreatedWithoutAResponseIsUsed uses a cloud that creates servers and never answers the create call.
func TestInstanceCreatedWithoutAResponseIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, end := outage(t, stocked, emulator.HangAfter)
		defer end()
		id := l.asks(d, watch.NewRequest{Labels: []string{"small"}})
		time.Sleep(2 * time.Minute)
		if r := l.fulfilled(d, id); r.State != resources.StateFulfilled {
			t.Fatalf("request is %s: %s", r.State, r.Error)
		}
		if asked, made := l.driver.Clouds["one"].Calls()["server.create"], l.servers("one"); asked != 1 || made != 1 {
			t.Errorf("the cloud was asked for %d servers and made %d, want one", asked, made)
		}
	})
}

// TestDeadlineEndsWaitForOutage also checks that npctl creates nothing for the request when the cloud is back.
func TestDeadlineEndsWaitForOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, end := outage(t, stocked, emulator.HangBefore)
		defer end()
		id := l.asks(d, watch.NewRequest{Labels: []string{"small"}, Deadline: l.now().Add(10 * time.Minute)})
		time.Sleep(9 * time.Minute)
		if r, err := d.Clients.Request(id); err != nil || r.State != resources.StatePending {
			t.Fatalf("before its deadline the request is %+v, %v", r, err)
		}
		time.Sleep(2 * time.Minute)
		if r := l.fulfilled(d, id); r.State != resources.StateFailed || !strings.Contains(r.Error, "deadline") {
			t.Errorf("after its deadline the request is %s: %s", r.State, r.Error)
		}
		testutil.Must(t, l.driver.Clouds["one"].SetFaults())
		time.Sleep(5 * time.Minute)
		if n := l.servers("one"); n != 0 {
			t.Errorf("there are %d servers that nobody asked for", n)
		}
	})
}

// TestOtherProvidersServeDuringAnOutage covers both min_ready nodes and requests.
func TestOtherProvidersServeDuringAnOutage(t *testing.T) {
	one := fleet[strings.Index(fleet, `provider "lab" "one"`):strings.Index(fleet, `provider "static"`)]
	for _, action := range []emulator.Action{emulator.HangBefore, emulator.LostBefore} {
		t.Run(string(action), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, d, end := outage(t, stocked+strings.Replace(one, `"one"`, `"two"`, 1), action)
				defer end()
				var ids []string
				for range 4 { // both providers have the same capacity
					ids = append(ids, l.asks(d, watch.NewRequest{Labels: []string{"small"}}))
				}
				time.Sleep(2 * time.Minute)
				for _, id := range ids {
					if r := l.fulfilled(d, id); r.State != resources.StateFulfilled || r.Placement.Provider != "two" {
						t.Errorf("request %s is %s by %s: %s", id, r.State, r.Placement.Provider, r.Error)
					}
				}
				if n := l.driver.Clouds["one"].Calls()["server.create"]; n == 0 {
					t.Error("nobody has asked the cloud that is away")
				}
				testutil.Must(t, l.driver.Clouds["one"].SetFaults())
				time.Sleep(5 * time.Minute)
				for _, n := range d.Last().Observed.Records.Nodes {
					if n.Provider == "one" {
						t.Errorf("node %s of the provider that was away is %s", n.ID, n.State)
					}
				}
				if n := l.servers("one"); n != 0 {
					t.Errorf("it has %d servers that nobody asked for", n)
				}
			})
		})
	}
}

// TestOutageIsLoggedOnce covers one log record at the start and one at the end, for an outage of launches only and of
// all calls.
func TestOutageIsLoggedOnce(t *testing.T) {
	for name, operation := range map[string]string{"of launches": "server.create", "of lists": "server.list", "of all": "*"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, d, end := outage(t, stocked, emulator.HangBefore)
				defer end()
				told := func(begun, over int) {
					t.Helper()
					warned, ended, failed := l.told.logged("level=WARN"), l.told.logged("provider responds again"), l.told.logged("level=ERROR")
					if warned != begun || ended != over || failed != 0 {
						t.Fatalf("told %d times that an outage begins, want %d, %d times that it is over, want %d, and %d errors:\n%s", warned, begun, ended, over,
							failed, l.told.log.String())
					}
				}
				for n := range 2 {
					testutil.Must(t, l.driver.Clouds["one"].SetFaults(emulator.Fault{Operation: operation, Action: emulator.Answer, Status: 503}))
					told(n, n)
					id := l.asks(d, watch.NewRequest{Labels: []string{"small", "small"}})
					time.Sleep(12 * time.Minute)
					told(n+1, n)
					testutil.Must(t, l.driver.Clouds["one"].SetFaults())
					time.Sleep(3 * time.Minute)
					if r := l.fulfilled(d, id); r.State != resources.StateFulfilled {
						t.Fatalf("request is %s: %s", r.State, r.Error)
					}
					told(n+1, n+1)
				}
			})
		})
	}
}

// TestOutageEndsWithoutFurtherLaunches covers the case in which no launch can show that the provider
// responds.
func TestOutageEndsWithoutFurtherLaunches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, end := outage(t, stocked, emulator.HangBefore)
		defer end()
		id := l.asks(d, watch.NewRequest{Labels: []string{"small"}})
		time.Sleep(3 * time.Minute)
		testutil.Must(t, d.Clients.CancelRequest(t.Context(), id))
		time.Sleep(10 * time.Minute)
		if n := l.told.logged("provider responds again"); n != 1 {
			t.Errorf("told %d times that the provider answers, want once:\n%s", n, l.told.log.String())
		}
	})
}

// TestDeadCloudIsSeenWithTheFirstFailingCall ends a cloud just after a listing. Status and plans know of it long before the
// next listing is due.
func TestDeadCloudIsSeenWithTheFirstFailingCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, d, end := outage(t, stocked, emulator.Answer)
		defer end()
		time.Sleep(5 * time.Second) // listings that earlier steps triggered
		listed := d.Last().Observed.Providers["one"].ListedAt
		testutil.Must(t, l.driver.Clouds["one"].SetFaults(emulator.Fault{Operation: "*", Action: emulator.LostBefore}))
		l.asks(d, watch.NewRequest{Labels: []string{"small"}})
		calls := l.driver.Clouds["one"].Calls()["server.create"]
		for d.Last().Observed.Providers["one"].Err == "" {
			if time.Sleep(100 * time.Millisecond); time.Since(listed) > 50*time.Second {
				t.Fatal("the daemon does not know that the cloud is dead")
			}
		}
		t.Logf("known %s after the listing, %d creates", time.Since(listed), l.driver.Clouds["one"].Calls()["server.create"]-calls)
	})
}

// TestDaemonIsReadyWhenEveryProviderHasResponded starts a daemon beside a dead cloud. A later outage does not count.
func TestDaemonIsReadyWhenEveryProviderHasResponded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		dead := emulator.Fault{Operation: "*", Action: emulator.LostBefore}
		testutil.Must(t, l.driver.Clouds["one"].SetFaults(dead))
		d, end := l.daemon()
		defer end()
		time.Sleep(10 * time.Minute)
		if why := d.NotReady(); why != "never listed successfully: one" {
			t.Errorf("the daemon is not ready because of %q", why)
		}
		testutil.Must(t, l.driver.Clouds["one"].SetFaults())
		time.Sleep(time.Minute)
		if why := d.NotReady(); why != "" {
			t.Errorf("the daemon is not ready: %s", why)
		}
		testutil.Must(t, l.driver.Clouds["one"].SetFaults(dead))
		time.Sleep(10 * time.Minute)
		if why := d.NotReady(); why != "" {
			t.Errorf("after an outage the daemon is not ready: %s", why)
		}
	})
}

// TestReadyNodeOfAnOldListingIsNotHandedOut: the server of a ready node disappears while the provider is listed once an hour. The
// next request gets another node.
func TestReadyNodeOfAnOldListingIsNotHandedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{BuildTime: 5 * time.Second, DeleteTime: time.Second})
		l.refresh, l.listing = time.Hour, 2*time.Minute
		d, end := l.daemon()
		defer end()
		var lost *resources.Node
		testutil.Await(t, "a node is ready", func() bool {
			for _, n := range d.Last().Observed.Records.Nodes {
				if n.State == resources.StateReady && !n.Static {
					lost = n
				}
			}
			return lost != nil
		})
		time.Sleep(10 * time.Minute)
		testutil.Must(t, l.driver.Clouds["one"].Remove(lost.ExternalID))
		r := l.fulfilled(d, l.asks(d, watch.NewRequest{Labels: []string{"small"}}))
		if r.State != resources.StateFulfilled || len(r.Nodes) != 1 || r.Nodes[0] == lost.ID {
			t.Errorf("without the server of node %s the request is %s with nodes %q", lost.ID, r.State, r.Nodes)
		}
	})
}
