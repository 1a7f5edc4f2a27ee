//go:build integration

package share

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/test/zookeeper/lab"
)

// TestNodepoolEndpointsAnswerAsNodepool compares the web endpoints of npctl with those of a real nodepool-launcher on
// the same ZooKeeper.
func TestNodepoolEndpointsAnswerAsNodepool(t *testing.T) {
	t.Parallel()
	zk := lab.Start(t, 1)
	theirs := fmt.Sprintf("127.0.0.1:%d", testutil.FreePort(t))
	ours := fmt.Sprintf("127.0.0.1:%d", testutil.FreePort(t))
	z := newZuul(t, zk.Env)
	lab.StartLauncher(t, zk, lab.Nodepool{Driver: "static", Provider: "nodepool", Nodes: 2, Labels: []string{"theirs"}, Web: theirs})
	m := newMachine(t, zk, "npctl", staticProvider("npctl", 2, 100, "ours"))
	m.options = []string{"-nodepool-listen=" + ours}
	m.start()
	defer m.Stop()
	testutil.Await(t, "both are registered", func() bool { names, _ := z.children(t.Context(), poolsRoot); return len(names) == 2 })

	now := time.Now().Unix()
	const build = "0123456789abcdef0123456789abcdef"
	for _, one := range [][2]string{ // as a nodepool-builder writes them
		{"/nodepool/images/debian", ``},
		{"/nodepool/images/debian/builds", ``},
		{"/nodepool/images/debian/builds/" + build, fmt.Sprintf(`{"state": "ready", "state_time": %d.5, "builder": "nb01", "builder_id": "b-1",
			"formats": "qcow2,raw", "username": "zuul", "python_path": "auto", "shell_type": null}`, now-100)},
		{"/nodepool/images/debian/builds/" + build + "/providers", ``},
		{"/nodepool/images/debian/builds/" + build + "/providers/elsewhere", ``},
		{"/nodepool/images/debian/builds/" + build + "/providers/elsewhere/images", ``},
		{"/nodepool/images/debian/builds/" + build + "/providers/elsewhere/images/0000000001", fmt.Sprintf(`{"state": "ready", "state_time": %d.25,
			"external_id": "image-1", "external_name": "debian-1", "format": "qcow2", "username": "zuul", "python_path": "auto", "shell_type": null}`, now-50)},
	} {
		_, err := z.create(t.Context(), one[0], []byte(one[1]), 0, nil)
		testutil.Must(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	for _, label := range []string{"ours", "theirs"} { // one node of each is in use, one is ready, and one request waits
		id, err := z.request(ctx, wanted{labels: []string{label}})
		testutil.Must(t, err)
		a, err := z.wait(ctx, id)
		testutil.Must(t, err)
		held, err := z.accept(ctx, id, a.Nodes)
		testutil.Must(t, err)
		testutil.Must(t, z.state(ctx, held[0], "in-use"))
		_, err = z.request(ctx, wanted{labels: []string{label, label}})
		testutil.Must(t, err)
	}

	ready := "" // Nodepool calls a single node unlocked even if it is locked
	testutil.Await(t, "a node is ready", func() bool {
		ids, err := z.children(ctx, nodesRoot)
		testutil.Must(t, err)
		for _, id := range ids {
			if n := (&node{ID: id}); z.read(ctx, n) == nil && n.State == "ready" {
				ready = id
			}
		}
		return ready != ""
	})
	for _, path := range []string{"/node-list", "/node-list?node_id=" + ready, "/request-list", "/label-list", "/image-list", "/dib-image-list", "/image-status"} {
		var theirHeaders, ourHeaders http.Header
		var want, got string
		same := func(accept string, read func(string) string) func() bool {
			return func() bool {
				theirHeaders, want = fetch(t, theirs+path, accept)
				ourHeaders, got = fetch(t, ours+path, accept)
				want, got = read(want), read(got)
				return want == got
			}
		}
		for accept, read := range map[string]func(string) string{"application/json": normalJSON, "*/*": normalText} {
			if !testutil.Poll(testutil.Patience, same(accept, read)) {
				t.Errorf("%s (%s) (-Nodepool +npctl):\n%s", path, accept, cmp.Diff(want, got))
			}
			for _, name := range []string{"Content-Type", "Access-Control-Allow-Origin"} {
				if a, b := theirHeaders.Get(name), ourHeaders.Get(name); a != b {
					t.Errorf("%s (%s): header %s is %q, Nodepool's is %q", path, accept, name, b, a)
				}
			}
		}
		if len(got) < 20 {
			t.Errorf("%s is empty: %s", path, got)
		}
	}
	for address := range map[string]bool{ours: true, theirs: true} {
		if _, body := fetch(t, address+"/ready", "*/*"); body != "OK" {
			t.Errorf("/ready at %s: %s", address, body)
		}
	}
}

func fetch(t *testing.T, at, accept string) (http.Header, string) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at, nil)
	testutil.Must(t, err)
	r.Header.Set("Accept", accept)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err.Error()
	}
	defer answer.Body.Close() //nolint:errcheck // read below
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	testutil.Must(t, err)
	return answer.Header, string(body)
}

// age is an age in text, which changes between two calls.
var age = regexp.MustCompile(`\d\d:\d\d:\d\d:\d\d`)

// normalJSON returns a list of objects with sorted keys, in a fixed order.
func normalJSON(doc string) string {
	doc = age.ReplaceAllString(doc, "DD:HH:MM:SS")
	var objects []map[string]any
	if err := json.Unmarshal([]byte(doc), &objects); err != nil {
		return doc
	}
	var lines []string
	for _, one := range objects {
		line, err := json.MarshalIndent(one, "", "  ")
		if err != nil {
			return doc
		}
		lines = append(lines, string(line))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// normalText returns the lines of a table in a fixed order.
func normalText(doc string) string {
	lines := strings.Split(age.ReplaceAllString(doc, "DD:HH:MM:SS"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
