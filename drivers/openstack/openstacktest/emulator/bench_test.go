package emulator

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/npctl/npctl/internal/testutil"
)

// crowd creates n active servers with one address each.
func crowd(b *testing.B, n int) *client {
	b.Helper()
	quota := Unlimited()
	c := connect(b, Options{Quota: &quota})
	image := c.uploaded(b, "tiny", []byte("x")).ID
	for made := 0; made < n; made += 500 {
		_, err := servers.Create(b.Context(), c.compute, servers.CreateOpts{
			Name: "node", ImageRef: image, FlavorRef: flavorID("small"), Networks: []servers.Network{{UUID: stableID("network/private")}},
			Min: 500, Metadata: map[string]string{"npctl_installation": "i", "npctl_id": "0000000001", "npctl_pool": "main", "npctl_label": "small"},
		}, nil).Extract()
		testutil.Must(b, err)
	}
	return c
}

func get(b *testing.B, c *client, url string) int64 {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	testutil.Must(b, err)
	req.Header.Set("X-Auth-Token", c.provider.Token())
	resp, err := c.cloud.Transport().RoundTrip(req)
	testutil.Must(b, err)
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatal(resp.Status, err)
	}
	return n
}

func BenchmarkPageOf1000Of10000Servers(b *testing.B) {
	c := crowd(b, 10_000)
	for b.Loop() {
		b.SetBytes(get(b, c, c.compute.ServiceURL("servers", "detail")))
	}
}

func BenchmarkPageOf1000Of10000Ports(b *testing.B) {
	c := crowd(b, 10_000)
	for b.Loop() {
		b.SetBytes(get(b, c, c.network.ServiceURL("ports")+"?limit=1000"))
	}
}

func BenchmarkOneOf10000Servers(b *testing.B) {
	c := crowd(b, 10_000)
	id := c.things(b, "server")[5000].ID
	for b.Loop() {
		get(b, c, c.compute.ServiceURL("servers", id))
	}
}

func BenchmarkCreateAndDeleteAmong10000Servers(b *testing.B) {
	c := crowd(b, 10_000)
	image := c.things(b, "image")[0].ID
	for b.Loop() {
		s, err := c.asked(b, image, "one")
		testutil.Must(b, err)
		testutil.Must(b, servers.Delete(b.Context(), c.compute, s.ID).ExtractErr())
	}
}

func BenchmarkCreateInAFileOf300Servers(b *testing.B) {
	quota := Unlimited()
	c := connect(b, Options{File: filepath.Join(b.TempDir(), "cloud.json"), Quota: &quota})
	image := c.uploaded(b, "tiny", []byte("x")).ID
	for i := range 300 {
		if _, err := c.asked(b, image, fmt.Sprintf("node-%d", i)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		s, err := c.asked(b, image, "one")
		testutil.Must(b, err)
		testutil.Must(b, c.cloud.Remove(s.ID))
	}
}

func BenchmarkStateOf500Servers(b *testing.B) {
	c := crowd(b, 500)
	b.ReportAllocs()
	for b.Loop() {
		text, err := formatState(c.cloud.store.state)
		testutil.Must(b, err)
		b.SetBytes(int64(len(text)))
	}
}
