package zookeeper

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/testutil"
)

func block(with map[string]cty.Value) cty.Value {
	values := Schema().Null().AsValueMap()
	values["hosts"] = cty.ListVal([]cty.Value{cty.StringVal("zk1"), cty.StringVal("zk2:2281")})
	for name, value := range with {
		values[name] = value
	}
	return cty.ObjectVal(values)
}

func tlsValue(with map[string]cty.Value) cty.Value {
	values := Schema().Blocks[0].Schema.Null().AsValueMap()
	for name, value := range with {
		values[name] = value
	}
	return cty.ObjectVal(values)
}

func TestBlockDefaults(t *testing.T) {
	got, file, err := FromConfig(block(nil), "/etc/npctl")
	testutil.Must(t, err)
	want := Options{Hosts: []string{"zk1", "zk2:2281"}, SessionTimeout: 10 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" || file != "/etc/npctl/npctl.db" {
		t.Errorf("the file is %s, the options\n%s", file, diff)
	}
	got, file, err = FromConfig(block(map[string]cty.Value{"chroot": cty.StringVal("/zuul"), "session_timeout": cty.StringVal("2m"), "file": cty.StringVal("/x.db"),
		"tls": tlsValue(map[string]cty.Value{"cert": cty.StringVal("c.pem"), "key": cty.StringVal("/k.pem"), "ca": cty.StringVal("ca.pem"), "verify_host_names": cty.False})}), "/etc/npctl")
	testutil.Must(t, err)
	want = Options{Hosts: want.Hosts, Chroot: "/zuul", SessionTimeout: 2 * time.Minute, TLS: &TLS{Cert: "/etc/npctl/c.pem", Key: "/k.pem", CA: "/etc/npctl/ca.pem", AnyName: true}}
	if diff := cmp.Diff(want, got); diff != "" || file != "/x.db" {
		t.Errorf("the file is %s, the options\n%s", file, diff)
	}
}

func TestHostNamesAreVerifiedByDefault(t *testing.T) {
	for _, value := range []cty.Value{cty.True, cty.NullVal(cty.Bool)} {
		got, _, err := FromConfig(block(map[string]cty.Value{"tls": tlsValue(map[string]cty.Value{"verify_host_names": value})}), "/")
		if err != nil || got.TLS.AnyName {
			t.Errorf("verify_host_names = %#v: %+v, %v", value, got.TLS, err)
		}
	}
}

func TestInvalidBlocksAreRejected(t *testing.T) {
	half := block(map[string]cty.Value{"tls": tlsValue(map[string]cty.Value{"key": cty.StringVal("k.pem")})})
	if _, _, err := FromConfig(half, "/"); err == nil || !strings.Contains(err.Error(), "or neither") {
		t.Errorf("a key without a certificate: %v", err)
	}
	anyone := block(map[string]cty.Value{"tls": tlsValue(map[string]cty.Value{"verify_host_names": cty.False})})
	if _, _, err := FromConfig(anyone, "/"); err == nil || !strings.Contains(err.Error(), "needs ca") {
		t.Errorf("any certificate of a public authority would do: %v", err)
	}
	if _, _, err := FromConfig(block(map[string]cty.Value{"chroot": cty.UnknownVal(cty.String)}), "/"); err == nil {
		t.Error("an unknown chroot was read")
	}
	known := Schema()
	for name, wrong := range map[string][]cty.Value{
		"hosts": {cty.ListValEmpty(cty.String), cty.ListVal([]cty.Value{cty.StringVal("zk1/zuul")}), cty.ListVal([]cty.Value{cty.StringVal("")}),
			cty.ListVal([]cty.Value{cty.StringVal("zk1:99999")}), cty.ListVal([]cty.Value{cty.NullVal(cty.String)})},
		"chroot":          {cty.StringVal("zuul"), cty.StringVal("/a//b"), cty.StringVal("/a/../b")},
		"session_timeout": {cty.StringVal("10ms"), cty.StringVal("0s")},
		"file":            {cty.StringVal(""), cty.StringVal("a\nb")},
	} {
		a, ok := known.Lookup(name)
		if !ok {
			t.Fatalf("there is no attribute %s", name)
		}
		for _, value := range wrong {
			if a.Check(value) == nil {
				t.Errorf("%s = %#v is taken", name, value)
			}
		}
	}
	for _, chroot := range []string{"", "/", "/zuul", "/a/b"} {
		if err := checkChroot(cty.StringVal(chroot)); err != nil {
			t.Errorf("chroot = %q: %v", chroot, err)
		}
	}
}
