package emulator

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/imagedata"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
)

func TestStateSurvivesAProcess(t *testing.T) {
	o := Options{File: filepath.Join(t.TempDir(), "sub", "cloud.json"), KeepBytes: 4 << 20}
	c := connect(t, o)
	content := bytes.Repeat([]byte("12345678"), 1<<18) // larger than the in-memory limit
	image := c.uploaded(t, "tiny", content)
	s, err := c.asked(t, image.ID, "node")
	testutil.Must(t, err)
	again := connect(t, o)
	if got := again.server(t, s.ID); got.Status != "ACTIVE" || got.Name != "node" {
		t.Errorf("server %+v", got)
	}
	body, err := imagedata.Download(t.Context(), again.image, image.ID).Extract()
	testutil.Must(t, err)
	got := new(bytes.Buffer)
	if _, err := got.ReadFrom(body); err != nil || !bytes.Equal(got.Bytes(), content) {
		t.Errorf("%d bytes came back, %v", got.Len(), err)
	}
	if info, err := os.Stat(o.File); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("state file %v, %v; want mode 600", info.Mode(), err)
	}
}

func TestProcessesShareAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cloud.json")
	first := connect(t, Options{File: file})
	image := first.uploaded(t, "tiny", []byte("x")).ID
	const processes, each = 4, 6
	var wg sync.WaitGroup
	for p := range processes {
		c := connect(t, Options{File: file})
		for n := range each {
			wg.Go(func() {
				if _, err := c.asked(t, image, fmt.Sprintf("p%d-%d", p, n)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	if n := len(first.listed(t)); n != processes*each {
		t.Errorf("%d servers, want %d", n, processes*each)
	}
	addresses := map[string]bool{}
	for _, s := range first.things(t, "port") {
		addresses[s.ID] = true
	}
	if len(addresses) != processes*each {
		t.Errorf("%d ports, want %d", len(addresses), processes*each)
	}
	checkState(t, first.cloud)
}

func TestConcurrentChangesShareOneWrite(t *testing.T) {
	c := open(t, Options{File: filepath.Join(t.TempDir(), "cloud.json")})
	before := c.store.state.Serial
	c.store.mu.Lock() // while this is held, changes queue up
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if err := c.store.update(c.now(), func(w *cloudState) error { w.LastSeq++; return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	for queued := 0; queued < 50; {
		c.store.queueMu.Lock()
		queued = len(c.store.queue)
		c.store.queueMu.Unlock()
	}
	c.store.mu.Unlock()
	wg.Wait()
	if writes := c.store.state.Serial - before; writes != 1 {
		t.Errorf("%d writes, want 1", writes)
	}
}

func TestUnreadableStateIsReportedAndNotChanged(t *testing.T) {
	for name, text := range map[string]string{
		"not an emulator state": `{"version": 1, "projects"`,
		"it has version 2":      `{"version": 2}`,
	} {
		file := filepath.Join(t.TempDir(), "cloud.json")
		testutil.WriteFile(t, file, text)
		_, err := Open(Options{File: file})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), file) {
			t.Errorf("error %v, want one that says %q and names the file", err, name)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("the file was changed to %q, %v", got, err)
		}
	}
}

// A change that cannot be written must have no effect.
func TestFailedWriteChangesNothing(t *testing.T) {
	dir := t.TempDir()
	c := connect(t, Options{File: filepath.Join(dir, "cloud.json")})
	image := c.uploaded(t, "tiny", []byte("x")).ID
	hidden := dir + ".hidden"
	testutil.Must(t, os.Rename(dir, hidden))
	if _, err := c.asked(t, image, "lost"); err == nil {
		t.Error("a server was made though its record could not be written")
	}
	testutil.Must(t, os.Rename(hidden, dir))
	if got := c.listed(t); len(got) != 0 {
		t.Errorf("servers %v", got)
	}
}

func TestQuotaAndForeignServersFollowTheOptions(t *testing.T) {
	o := Options{File: filepath.Join(t.TempDir(), "cloud.json"), Foreign: []ForeignServer{{Name: "theirs"}, {Name: "beyond", Project: Other}}}
	c := connect(t, o)
	if diff := cmp.Diff([]string{"theirs"}, c.listed(t)); diff != "" {
		t.Errorf("servers (-want +got):\n%s", diff)
	}
	testutil.Must(t, servers.Delete(t.Context(), c.compute, c.things(t, "server")[0].ID).ExtractErr())
	q := DefaultQuota()
	q.Instances = 0
	o.Quota = &q
	c = connect(t, o)
	if _, err := c.asked(t, c.uploaded(t, "tiny", []byte("x")).ID, "x"); err == nil || !strings.Contains(err.Error(), "of 0 instances") {
		t.Errorf("with a quota of none: %v", err)
	}
	for _, s := range c.things(t, "server") {
		if s.Name == "theirs" {
			t.Error("a foreign server that was deleted came back")
		}
	}
}

// checkState checks the invariants of the state.
func checkState(t interface{ Errorf(string, ...any) }, c *Cloud) {
	err := c.store.view(c.now(), func(w *cloudState) error {
		text, err := formatState(w)
		if err != nil {
			return err
		}
		again, err := parseState(text)
		if err != nil {
			return err
		}
		for project, u := range w.used {
			if *u != *again.use(project) {
				t.Errorf("use of %s is counted as %+v, but is %+v", project, *u, *again.use(project))
			}
		}
		if diff := cmp.Diff(again.addresses, w.addresses); diff != "" {
			t.Errorf("addresses in use (-want +got):\n%s", diff)
		}
		if len(again.portsOf) != len(w.portsOf) || len(again.floatingOf) != len(w.floatingOf) {
			t.Errorf("%d servers with ports and %d ports with floating IPs, want %d and %d", len(w.portsOf), len(w.floatingOf),
				len(again.portsOf), len(again.floatingOf))
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v", err)
	}
}

func TestCountsAndIndexesStayConsistent(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		q := DefaultQuota()
		q.Instances, q.Ports, q.Volumes = 6, 7, 3
		cloud, err := Open(Options{
			BuildTime: time.Second, DeleteTime: time.Second, Quota: &q, Now: func() time.Time { return now },
			Networks: []Network{{Name: "narrow", CIDRs: []string{"127.99.0.0/29", "fd99::/64"}}},
			Faults: []Fault{
				{Operation: "*.create", Action: LateEffect, Delay: 3 * time.Second, Every: 7},
				{Operation: "*", Action: LateListing, Delay: 2 * time.Second, Every: 5},
				{Operation: "server.delete", Action: DeleteFails, Every: 4},
				{Operation: "server.create", Action: ServerError, Every: 6},
			},
		})
		testutil.Must(rt, err)
		defer func() { _ = cloud.Close() }()
		c, err := tryLogin(t.Context(), cloud.Transport(), "http://emulator/identity/v3", User, Password)
		testutil.Must(rt, err)
		c.cloud = cloud
		image := c.uploaded(t, "tiny", []byte("x")).ID
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			c.randomStep(t, rt, image)
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "wait")) * 500 * time.Millisecond)
			checkState(rt, cloud)
			for project, u := range cloud.store.state.used {
				if project == hexID("project/"+User) && (u.instances > q.Instances || u.ports > q.Ports || u.volumes > q.Volumes) {
					rt.Errorf("above quota: %+v", *u)
				}
			}
		}
	})
}

// randomStep makes a random request; errors and lost responses are acceptable.
func (c *client) randomStep(t *testing.T, rt *rapid.T, image string) {
	network := rapid.SampledFrom([]string{"private", "narrow"}).Draw(rt, "network")
	all, err := c.cloud.Inventory()
	testutil.Must(rt, err)
	pick := func(kind string) string {
		for _, one := range all {
			if one.Type == kind && rapid.Bool().Draw(rt, "take") {
				return one.ID
			}
		}
		return "none"
	}
	post := func(client string, path string, body string) {
		service := map[string]string{"compute": c.compute.Endpoint, "network": c.network.ResourceBase, "volume": c.volume.Endpoint}[client]
		_, _ = c.provider.Request(t.Context(), "POST", service+path, rawBody(body))
	}
	switch rapid.SampledFrom([]string{"server", "server", "bfv", "delete", "delete", "port", "unport", "fip", "unfip", "volume", "unvolume", "behind"}).Draw(rt, "what") {
	case "server":
		count := rapid.IntRange(1, 3).Draw(rt, "count")
		post("compute", "servers", fmt.Sprintf(`{"server":{"name":"n","imageRef":"%s","flavorRef":"%s","min_count":%d,"networks":[{"uuid":"%s"}]}}`,
			image, flavorID("small"), count, stableID("network/"+network)))
	case "bfv":
		post("compute", "servers", fmt.Sprintf(`{"server":{"name":"n","flavorRef":"%s","networks":[{"uuid":"%s"}],"block_device_mapping_v2":[{"boot_index":0,"uuid":"%s","source_type":"image","destination_type":"volume","volume_size":1,"delete_on_termination":%t}]}}`,
			flavorID("small"), stableID("network/"+network), image, rapid.Bool().Draw(rt, "delete")))
	case "delete":
		_, _ = c.provider.Request(t.Context(), "DELETE", c.compute.ServiceURL("servers", pick("server")), rawBody(""))
	case "port":
		post("network", "ports", fmt.Sprintf(`{"port":{"network_id":"%s","device_id":"%s"}}`, stableID("network/"+network), strings.ReplaceAll(pick("server"), "none", "")))
	case "unport":
		_, _ = c.provider.Request(t.Context(), "DELETE", c.network.ServiceURL("ports", pick("port")), rawBody(""))
	case "fip":
		port := "null"
		if id := pick("port"); id != "none" {
			port = `"` + id + `"`
		}
		post("network", "floatingips", fmt.Sprintf(`{"floatingip":{"floating_network_id":"%s","port_id":%s}}`, stableID("network/public"), port))
	case "unfip":
		_, _ = c.provider.Request(t.Context(), "DELETE", c.network.ServiceURL("floatingips", pick("floating_ip")), rawBody(""))
	case "volume":
		post("volume", "volumes", `{"volume":{"size":1}}`)
	case "unvolume":
		_, _ = c.provider.Request(t.Context(), "DELETE", c.volume.ServiceURL("volumes", pick("volume")), rawBody(""))
	case "behind":
		_ = c.cloud.Remove(pick(rapid.SampledFrom([]string{"server", "port", "floating_ip", "volume"}).Draw(rt, "kind")))
	}
}
