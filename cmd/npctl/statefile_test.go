package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPlainStatePath(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string
		ok         bool
	}{
		"no state block": {`label "x" {}`, "npctl.db", true},
		"relative":       {"npctl {\nstate \"bolt\" { path = \"a/b.db\" }\n}", "a/b.db", true},
		"default path":   {"npctl {\nstate \"bolt\" {}\n}", "npctl.db", true},
		"a variable":     {"npctl {\nstate \"bolt\" { path = var.path }\n}", "", false},
		"another kind":   {"npctl {\nstate \"zookeeper\" { hosts = [\"zk1\"] }\n}", "", false},
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
		if got, ok := plainStatePath(dir); got != want || ok != c.ok {
			t.Errorf("%s: plainStatePath = %q, %t, want %q, %t", name, got, ok, want, c.ok)
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
