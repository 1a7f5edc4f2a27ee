package watch_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/internal/sandboxcloud"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// TestRequestDoesNotWaitForTheDeletionOfAFailedServer: the servers of provider one fail, and cannot be deleted. The next
// attempt, or another provider, serves the request meanwhile.
func TestRequestDoesNotWaitForTheDeletionOfAFailedServer(t *testing.T) {
	one := stocked[strings.Index(stocked, `provider "lab" "one"`):strings.Index(stocked, `provider "static"`)]
	for name, test := range map[string]struct {
		config   string
		servers  int // of provider one that fail
		provider string
	}{
		"next attempt":   {stocked, 1, "one"},
		"other provider": {stocked + strings.Replace(strings.Replace(one, `"one"`, `"two"`, 1), `pool "main" {`, "pool \"main\" {\n    priority = 200", 1), 3, "two"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, d, end := outage(t, test.config, sandboxcloud.Answer)
				defer end()
				if err := l.driver.clouds["one"].SetFaults(
					sandboxcloud.Fault{Operation: "server.create", Action: sandboxcloud.ServerError, Message: "the host has died", Times: test.servers},
					sandboxcloud.Fault{Operation: "server.delete", Action: sandboxcloud.Answer, Status: 500}); err != nil {
					t.Fatal(err)
				}
				id, asked := l.asks(d, watch.NewRequest{Labels: []string{"small"}}), time.Now()
				if r := l.fulfilled(d, id); r.State != resources.StateFulfilled || r.Place.Provider != test.provider {
					t.Errorf("the request is %s by %q after %s: %s", r.State, r.Place.Provider, time.Since(asked), r.Error)
				}
				if n := l.servers("one"); n < test.servers {
					t.Errorf("%d servers of provider one are there, want the %d that failed", n, test.servers)
				}
				if err := l.driver.clouds["one"].SetFaults(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(15 * time.Minute)
				if all := l.servers("one") + l.servers("two"); all != 1 {
					t.Errorf("%d servers are there in the end, want one", all)
				}
				for _, n := range d.Last().Seen.Records.Nodes {
					if !n.Static && n.State != resources.StateReady {
						t.Errorf("node %s is %s in the end", n.ID, n.State)
					}
				}
			})
		})
	}
}
