//go:build integration

package watch

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/resources"
)

// watch checks clouds and records continuously.
func (c *chaos) watch(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		for _, p := range c.projects {
			c.checkForeign(p)
			c.withinQuota(p)
		}
		if nodes, err := c.Nodes(ctx, wire.NodeFilter{}); err == nil {
			c.withinLimits(nodes)
		}
	}
}

// checkForeign checks that the foreign objects in a cloud are unchanged.
func (c *chaos) checkForeign(p *project) {
	if diff := p.changed(); diff != "" {
		c.reportOnce("foreign objects in provider %s have changed (-before +after):\n%s", p.Name, diff)
	}
}

// withinQuota checks the quota of a cloud, including foreign objects.
func (c *chaos) withinQuota(p *project) {
	count := map[string]int{}
	for _, thing := range p.things() {
		count[thing.Type]++
	}
	for kind, limit := range chaosQuota[p.Name] {
		if count[kind] > limit {
			c.reportOnce("provider %s has %d of %s, and its quota is %d", p.Name, count[kind], kind, limit)
		}
	}
}

// withinLimits checks the limits of pools and tenants against the records. A node that replaces a failed node has a
// record while the failed server is being deleted, but npctl creates no server for it until the pool has capacity for
// both.
func (c *chaos) withinLimits(nodes []wire.Node) {
	pools, tenant := map[string][]string{}, []string{}
	for _, n := range nodes {
		what := fmt.Sprintf("%s of %s is %s for request %q, server %q, error %q", n.ID, n.Provider, n.State, n.Request, n.ExternalID, n.Error)
		if waits := n.ExternalID == "" && n.Error != ""; !waits {
			pools[n.Provider+"/"+n.Pool] = append(pools[n.Provider+"/"+n.Pool], what)
		}
		switch n.State {
		case resources.StateFailed, resources.StateAborted, resources.StateDeleting: // their replacements may be launching
		default:
			if n.Tenant == chaosTenant {
				tenant = append(tenant, what)
			}
		}
	}
	for pool, limit := range chaosPools {
		if len(pools[pool]) > limit {
			c.reportOnce("pool %s has %d nodes on record, and max_servers is %d:\n%s", pool, len(pools[pool]), limit, strings.Join(pools[pool], "\n"))
		}
	}
	if len(tenant) > chaosTenantLimit {
		c.reportOnce("tenant %s has %d nodes, and may have %d: %s", chaosTenant, len(tenant), chaosTenantLimit, strings.Join(tenant, ", "))
	}
}

// checkServer fails the test when the server of a node is gone while its user has it.
func (c *chaos) checkServer(use *nodeUse, sure time.Time) {
	n := use.node
	for _, p := range c.projects {
		if p.Name != n.Provider {
			continue
		}
		things := p.things()
		i := slices.IndexFunc(things, func(t emulator.Thing) bool { return t.Type == "server" && t.ID == n.ExternalID })
		switch {
		case !time.Now().Before(sure):
		case i < 0:
			c.reportOnce("the server %s of node %s is gone while %s uses it", n.ExternalID, n.ID, use.user)
		case things[i].Status != "ACTIVE" || markOf(things[i]).id != n.ID:
			c.reportOnce("the server of node %s, which %s uses, is %+v", n.ID, use.user, things[i])
		}
	}
}

// settle waits until only the nodes of min_ready are left.
func (c *chaos) settle() {
	var left []string
	for {
		if left = c.unsettled(); len(left) == 0 {
			return
		}
		select {
		case <-c.over.Done():
			c.t.Errorf("%s or more after the last fault there is still:\n%s", chaosCalm, strings.Join(left, "\n"))
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// unsettled lists the objects that are not in their expected final state.
func (c *chaos) unsettled() (left []string) {
	ctx := context.WithoutCancel(c.over)
	nodes, err := c.Nodes(ctx, wire.NodeFilter{})
	if err != nil {
		return []string{err.Error()}
	}
	free := map[string]int{}
	for _, n := range nodes {
		if n.State == resources.StateReady && n.Request == "" {
			free[n.Labels[0]]++
			continue
		}
		left = append(left, fmt.Sprintf("node %s of %s is %s, its request is %q, its error %q", n.ID, n.Provider, n.State, n.Request, n.Error))
	}
	if free["small"] < 1 || free["metal"] != 3 {
		left = append(left, fmt.Sprintf("ready are %v", free))
	}
	requests, err := c.Requests(ctx, wire.RequestFilter{})
	if err != nil {
		return append(left, err.Error())
	}
	for _, r := range requests {
		if r.State != resources.StateFailed {
			left = append(left, fmt.Sprintf("request %s for %v by %s is %s", r.ID, r.Labels, r.Requestor, r.State))
		}
	}
	return append(left, c.leaked(ctx)...)
}

// leaked lists objects that carry npctl's ownership tags and have no record, and records of nodes without a server.
func (c *chaos) leaked(ctx context.Context) (found []string) {
	status, err := c.Status(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	before := c.records(ctx)
	servers := map[string]bool{}
	var strays []string
	for _, p := range c.projects {
		for _, thing := range p.ours(status.Installation) {
			m := markOf(thing)
			if thing.Type == "server" && servers[m.id] {
				found = append(found, fmt.Sprintf("node %s has another server %s in %s", m.id, thing.ID, p.Name))
			}
			servers[m.id] = servers[m.id] || thing.Type == "server"
			if !before[m.kind+"/"+m.id] {
				strays = append(strays, fmt.Sprintf("%s %s in %s is that of %s %s, which is not on record", thing.Type, thing.ID, p.Name, m.kind, m.id))
			}
		}
		for _, thing := range p.things() { // created by the cloud for a server of npctl, without ownership tags
			if (thing.Type == "volume" || thing.Type == "port") && markOf(thing).installation == "" && p.foreign[thing.ID].ID == "" && thing.Of == "" {
				found = append(found, fmt.Sprintf("%s %s in %s belongs to nothing", thing.Type, thing.ID, p.Name))
			}
		}
	}
	for record := range before {
		if id, ok := strings.CutPrefix(record, "node/"); ok && !servers[id] {
			found = append(found, "node "+id+" has no server")
		}
	}
	return append(found, strays...)
}

// records lists the records of objects in clouds: nodes other than static ones, uploads and builds.
func (c *chaos) records(ctx context.Context) map[string]bool {
	known := map[string]bool{}
	nodes, err := c.Nodes(ctx, wire.NodeFilter{})
	if err != nil {
		c.reportOnce("%v", err)
	}
	for _, n := range nodes {
		if !n.Static {
			known["node/"+n.ID] = true
		}
	}
	images, err := c.Images(ctx)
	if err != nil {
		c.reportOnce("%v", err)
	}
	for _, image := range images {
		for _, u := range image.Uploads {
			known["upload/"+u.ID] = true
		}
		for _, b := range image.Builds {
			known["build/"+b.ID] = true
		}
	}
	return known
}

// check verifies the whole run at its end.
func (c *chaos) check() {
	for _, double := range c.overlaps() {
		c.reportOnce("%s", double)
	}
	for _, p := range c.projects {
		c.checkForeign(p)
	}
}

// quotaRefusals counts the servers that a cloud refused because of its quota. Injected faults report 1 of 1.
func (c *chaos) quotaRefusals() (n int) {
	log, err := os.ReadFile(filepath.Join(c.dir, "log"))
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("launch attempt failed")) && bytes.Contains(line, []byte("Quota exceeded for ")) &&
			bytes.Contains(line, []byte("but already used")) && !bytes.Contains(line, []byte("already used 1 of 1 ")) {
			n++
		}
	}
	return n
}

// destroy deletes everything, so that only foreign objects are left.
func (c *chaos) destroy() {
	cmd := c.command(c.t.Context(), "destroy", "-config="+c.dir, "-auto-approve", "-allow-destroy=all")
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Errorf("npctl destroy: %v\n%s", err, out)
	}
	for _, p := range c.projects {
		c.checkForeign(p)
		for _, thing := range p.things() {
			if p.foreign[thing.ID].ID == "" {
				c.reportOnce("after everything was destroyed there is still %+v in %s", thing, p.Name)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(c.dir, "images", "*"))
	if err != nil || len(files) > 0 {
		c.reportOnce("after everything was destroyed there are still files: %v %v", files, err)
	}
}
