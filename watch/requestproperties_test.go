package watch_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// TestServersHaveThePropertiesOfTheirRequest: some servers are for min_ready, and have no request.
func TestServersHaveThePropertiesOfTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, strings.Replace(fleet, "    max_servers       = 5", `    max_servers       = 5
    instance_properties = { team = "ci", owner = "nobody" }
    request_properties  = { owner = "tenant {request.tenant_name}", of = "{request.id}", labels = "{request.labels}" }`, 1),
			emulator.Options{BuildTime: 5 * time.Second, DeleteTime: time.Second})
		d, end := l.daemon()
		defer end()
		testutil.Await(t, "a server for min_ready", func() bool { return l.servers("one") == 1 })
		r, err := d.Clients.CreateRequest(t.Context(), watch.NewRequest{Labels: []string{"small", "small"}, Tenant: "acme"})
		testutil.Must(t, err)
		if got := l.fulfilled(d, r.ID); got.State != resources.StateFulfilled {
			t.Fatalf("request is %s: %s", got.State, got.Error)
		}
		things, err := l.driver.Clouds["one"].Inventory()
		testutil.Must(t, err)
		of := map[string]int{}
		for _, thing := range things {
			if m := thing.Metadata; thing.Type == "server" && m["npctl_installation"] != "" {
				of[strings.Join([]string{m["team"], m["owner"], m["of"], m["labels"]}, "|")]++
			}
		}
		if of["ci|tenant |"+"|"] == 0 || of["ci|tenant acme|"+r.ID+"|small,small"] == 0 {
			t.Errorf("servers have the properties %v", of)
		}
	})
}
