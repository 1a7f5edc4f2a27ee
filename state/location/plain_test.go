package location

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/state/zookeeper"
)

func TestPlain(t *testing.T) {
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
		testutil.WriteFile(t, filepath.Join(dir, "npctl.hcl"), c.text)
		want := ""
		if c.ok {
			want = filepath.Join(dir, c.want)
		}
		if got, ok := Plain(dir); got.File != want || ok != c.ok {
			t.Errorf("%s: Plain = %+v, %t, want %q, %t", name, got, ok, want, c.ok)
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
	testutil.WriteFile(t, filepath.Join(dir, "npctl.hcl"), text)
	got, ok := Plain(dir)
	want := Location{File: filepath.Join(dir, "npctl.db"), Shared: &zookeeper.Options{Hosts: []string{"zk1:2281", "zk2"}, Chroot: "/zuul",
		SessionTimeout: 30 * time.Second, TLS: &zookeeper.TLS{Cert: filepath.Join(dir, "tls/client.pem"), Key: "/etc/client.key",
			CA: filepath.Join(dir, "tls/ca.pem"), AnyName: true}}}
	if !ok || got.File != want.File || !reflect.DeepEqual(got.Shared, want.Shared) {
		t.Errorf("Plain = %+v, %t, want %+v", got, ok, want)
	}
	if got.String() != "ZooKeeper at zk1:2281,zk2/zuul" {
		t.Errorf("the location is called %q", got)
	}
}

// The JSON syntax and override files of the state block have the same effect here as in the configuration.
func TestPlainReadsJSONAndOverrideFiles(t *testing.T) {
	const block = "npctl {\n images_dir = \"x\"\n state \"bolt\" { path = \"a.db\" }\n}"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
		ok    bool
	}{
		"JSON":                     {map[string]string{"a.hcl.json": `{"npctl": {"state": {"bolt": {"path": "j.db"}}}, "label": {"x": {"min_ready": "${["}}}`}, "j.db", true},
		"JSON with a reference":    {map[string]string{"a.hcl.json": `{"npctl": {"state": {"bolt": {"path": "${var.x}"}}}}`}, "", false},
		"invalid JSON":             {map[string]string{"a.hcl.json": `{"npctl": {"state": `}, "", false},
		"override":                 {map[string]string{"a.hcl": block, "override.hcl": "npctl {\n state \"bolt\" { path = \"b.db\" }\n}"}, "b.db", true},
		"the last override":        {map[string]string{"a.hcl": block, "z_override.hcl.json": `{"npctl": {"state": {"bolt": {"path": "z.db"}}}}`, "b_override.hcl": "npctl {\n state \"bolt\" {}\n}"}, "z.db", true},
		"override of another part": {map[string]string{"a.hcl": block, "override.hcl": "npctl {\n # state\n images_dir = var.x\n}"}, "a.db", true},
		"override of nothing":      {map[string]string{"override.hcl": block}, "", false},
		"override with a variable": {map[string]string{"a.hcl": block, "override.hcl": "npctl {\n state \"bolt\" { path = var.x }\n}"}, "", false},
		"two blocks":               {map[string]string{"a.hcl": block, "b.hcl": block}, "", false},
		"values of variables":      {map[string]string{"a.hcl": block, "x.auto.vars.hcl": "npctl = \"state", "b.auto.vars.hcl.json": "npctl state"}, "a.db", true},
		"deep":                     {map[string]string{"a.hcl": "npctl {\n # state\n x = " + strings.Repeat("[", 1<<19) + "\n}"}, "", false},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			testutil.WriteFile(t, filepath.Join(dir, file), text)
		}
		want := ""
		if c.ok {
			want = filepath.Join(dir, c.want)
		}
		if got, ok := Plain(dir); got.File != want || ok != c.ok {
			t.Errorf("%s: Plain = %+v, %t, want %q, %t", name, got, ok, want, c.ok)
		}
	}
}

func TestStateInZooKeeperIsFoundInJSON(t *testing.T) {
	dir := t.TempDir()
	testutil.WriteFile(t, filepath.Join(dir, "npctl.hcl.json"), `{"npctl": {"state": {"zookeeper": {"hosts": ["zk1", "zk2"], "tls": {"ca": "/ca.pem", "cert": "/c.pem", "key": "/k.pem"}}}}}`)
	got, ok := Plain(dir)
	if !ok || got.Shared == nil || len(got.Shared.Hosts) != 2 || got.Shared.TLS == nil || got.Shared.TLS.CA != "/ca.pem" {
		t.Errorf("Plain = %+v, %t", got, ok)
	}
}
