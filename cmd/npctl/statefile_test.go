package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/zookeeper"
)

func TestPlainState(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		ok         bool
	}{
		"no state block": {`label "x" {}`, "npctl.db", true},
		"relative":       {"npctl {\nstate \"bolt\" { path = \"a/b.db\" }\n}", "a/b.db", true},
		"default path":   {"npctl {\nstate \"bolt\" {}\n}", "npctl.db", true},
		"a variable":     {"npctl {\nstate \"bolt\" { path = var.path }\n}", "", false},
		"shared":         {"npctl {\nstate \"zookeeper\" {\nhosts = [\"zk1\"]\nfile = \"x.db\"\n}\n}", "x.db", true},
		"no hosts":       {"npctl {\nstate \"zookeeper\" {}\n}", "", false},
		"another kind":   {"npctl {\nstate \"etcd\" {}\n}", "", false},
		"dynamic":        {"npctl {\ndynamic \"state\" {\nfor_each = [1]\nlabels = [\"bolt\"]\ncontent {}\n}\n}", "", false},
		"no HCL":         {`npctl { state "bolt" {`, "", false},
		"other mistakes": {"npctl {\nstate \"bolt\" { path = \"x.db\" }\n}\nlable \"x\" {}", "x.db", true},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "npctl.hcl"), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		want := ""
		if c.ok {
			want = filepath.Join(dir, c.want)
		}
		if got, ok := plainState(dir); got.file != want || ok != c.ok {
			t.Errorf("%s: plainState = %+v, %t, want %q, %t", name, got, ok, want, c.ok)
		}
	}
}

func TestDataIsBesideTheState(t *testing.T) {
	for path, want := range map[string]string{
		"/srv/npctl.db":             "/srv/.npctl/providers",
		"/srv/.npctl/npctl.db":      "/srv/.npctl/providers",
		"/srv/state/.npctl/fleet.d": "/srv/state/.npctl/providers",
	} {
		if got := dataDir(path); got != want {
			t.Errorf("dataDir(%s) = %s, want %s", path, got, want)
		}
	}
}

func TestStateInZooKeeperIsFoundWithoutEvaluating(t *testing.T) {
	dir := t.TempDir()
	text := `npctl {
  state "zookeeper" {
    hosts           = ["zk1:2281", "zk2"]
    chroot          = "/zuul"
    session_timeout = "30s"
    tls {
      cert              = "tls/client.pem"
      key               = "/etc/client.key"
      ca                = "tls/ca.pem"
      verify_host_names = false
    }
  }
}`
	if err := os.WriteFile(filepath.Join(dir, "npctl.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got, ok := plainState(dir)
	want := stateLocation{file: filepath.Join(dir, "npctl.db"), shared: &zookeeper.Options{Hosts: []string{"zk1:2281", "zk2"}, Chroot: "/zuul",
		SessionTimeout: 30 * time.Second, TLS: &zookeeper.TLS{Cert: filepath.Join(dir, "tls/client.pem"), Key: "/etc/client.key",
			CA: filepath.Join(dir, "tls/ca.pem"), AnyName: true}}}
	if !ok || got.file != want.file || !reflect.DeepEqual(got.shared, want.shared) {
		t.Errorf("plainState = %+v, %t, want %+v", got, ok, want)
	}
	if got.String() != "ZooKeeper at zk1:2281,zk2/zuul" {
		t.Errorf("the place is called %q", got)
	}
}

func TestBuildsAreListedByTime(t *testing.T) {
	at := func(hour int) time.Time { return time.Date(2026, 1, 2, hour, 0, 0, 0, time.UTC) }
	var entries []state.Entry
	for _, r := range []resources.Record{
		&resources.ImageRecord{Name: "a"},
		&resources.Build{ID: "1", Image: "b", Created: at(1)},
		&resources.Build{ID: "2", Image: "a", Created: at(9)},
		&resources.Build{ID: "3", Image: "a", Created: at(5)},
		&resources.Build{ID: "4", Image: "a", Created: at(7)},
		&resources.Node{ID: "1", Created: at(8)},
		&resources.Node{ID: "2", Created: at(6)},
	} {
		entries = append(entries, state.Entry{Record: r})
	}
	sortBuilds(entries)
	var got []string
	for _, e := range entries {
		got = append(got, recordAddress(e.Record))
	}
	want := "image.a .build.3 .build.4 .build.2 .build.1 node.1 node.2"
	if text := strings.NewReplacer("a.build", "build", "b.build", "build").Replace(strings.Join(got, " ")); text != want {
		t.Errorf("order is %s, want %s", text, want)
	}
	sortBuilds(nil)
}
