package snapshot_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/builders/buildertest"
	"github.com/npctl/npctl/builders/snapshot"
	"github.com/npctl/npctl/internal/testutil"
)

func TestHostKeyThatIsKnownIsCompared(t *testing.T) {
	other, _ := newKey(t)
	for name, known := range map[string]struct {
		machine, block bool // which side knows the right key
		wrong          bool // the machine shows another key
	}{
		"the cloud knows it":         {machine: true},
		"the block knows it":         {block: true},
		"both know it":               {machine: true, block: true},
		"the cloud knows another":    {machine: true, wrong: true},
		"the block knows another":    {block: true, wrong: true},
		"the block knows one of two": {block: true, machine: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTrial(t, nil)
			key := publicText(tr.key)
			if known.wrong {
				key = publicText(other)
			}
			if known.machine {
				tr.known = []string{key + " root@machine"}
			}
			if known.block {
				tr.job.Config = buildertest.With(tr.job.Config, map[string]cty.Value{"host_keys": cty.ListVal([]cty.Value{text(key)})})
			}
			if known.wrong {
				tr.mustFail(t, "has the host key ssh-ed25519 "+ssh.FingerprintSHA256(tr.key.PublicKey()), "another computer answers")
				if slices.Contains(tr.noted(), "command") {
					t.Error("a command was sent to whoever answered")
				}
				return
			}
			if _, err := tr.build(t.Context()); err != nil {
				t.Fatalf("%v\n%s", err, &tr.log)
			}
			if want := "its host key is a known one: ssh-ed25519 SHA256:"; !strings.Contains(tr.log.String(), want) {
				t.Errorf("log lacks %q:\n%s", want, &tr.log)
			}
		})
	}
}

func TestMachineThatNeverAnswersShowsItsConsole(t *testing.T) {
	tr := newTrial(t, map[string]cty.Value{"connect_timeout": text("500ms")})
	tr.deaf = true
	tr.mustFail(t, "no login as debian at 127.0.0.1:", "within 500ms (connect_timeout)")
	if want := "npctl: the console of the instance:\nkernel panic - not syncing"; !strings.Contains(tr.log.String(), want) {
		t.Errorf("log lacks %q:\n%s", want, &tr.log)
	}
}

func TestUnknownKeyIsExplained(t *testing.T) {
	tr := newTrial(t, map[string]cty.Value{"connect_timeout": text("500ms"), "username": text("root")})
	tr.mustFail(t, "no login as root at", "unable to authenticate", "does the instance have the public key of private_key_file?")
}

func TestMachineThatAnswersLateIsWaitedFor(t *testing.T) {
	tr := newTrial(t, nil)
	tr.deafFor = 2
	if _, err := tr.build(t.Context()); err != nil {
		t.Errorf("%v\n%s", err, &tr.log)
	}
}

func TestMistakesAreFoundBeforeTheBoot(t *testing.T) {
	for name, test := range map[string]struct {
		written map[string]cty.Value
		want    string
	}{
		"nothing to run":  {map[string]cty.Value{"inline": cty.NullVal(cty.String)}, `write script = "setup.sh"`},
		"two scripts":     {map[string]cty.Value{"script": text("setup.sh")}, "remove one of them"},
		"no such script":  {map[string]cty.Value{"inline": cty.NullVal(cty.String), "script": text("setup.sh")}, "setup.sh: no such file"},
		"endless script":  {map[string]cty.Value{"inline": cty.NullVal(cty.String), "script": text("/dev/zero")}, "/dev/zero has more than 4194304 bytes"},
		"no such key":     {map[string]cty.Value{"private_key_file": text("id")}, "private_key_file: open "},
		"no key":          {map[string]cty.Value{"private_key_file": text("/dev/null")}, "/dev/null is not a private key"},
		"endless key":     {map[string]cty.Value{"private_key_file": text("/dev/zero")}, "/dev/zero has more than"},
		"locked key":      {map[string]cty.Value{"private_key_file": text("locked")}, "has a passphrase"},
		"wrong host keys": {map[string]cty.Value{"host_keys": cty.ListVal([]cty.Value{text("nonsense")})}, `host key "nonsense"`},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTrial(t, test.written)
			locked, err := os.ReadFile("testdata/locked")
			testutil.Must(t, err)
			testutil.WriteFile(t, filepath.Join(tr.job.BaseDir, "locked"), string(locked))
			tr.mustFail(t, test.want)
			if noted := tr.noted(); len(noted) > 0 {
				t.Errorf("the machine saw %q", noted)
			}
		})
	}
}

func TestLoginOfTheLabelThatCannotBeUsed(t *testing.T) {
	tr := newTrial(t, nil)
	tr.login.ConnectionType = "winrm"
	tr.mustFail(t, "nodes of label base are reached by winrm")
	tr = newTrial(t, nil)
	tr.login.Username = ""
	tr.mustFail(t, "set username")
}

func TestInputHashFollowsTheScript(t *testing.T) {
	base := t.TempDir()
	b := new(snapshot.Builder)
	hash := func(written map[string]cty.Value) string {
		t.Helper()
		h, err := b.InputFiles(t.Context(), buildertest.With(config(map[string]cty.Value{"private_key_file": text("id")}), written), base)
		testutil.Must(t, err)
		return string(h.Hash)
	}
	testutil.WriteFile(t, filepath.Join(base, "setup.sh"), "one")
	testutil.WriteFile(t, filepath.Join(base, "packages"), "vim")
	of := map[string]cty.Value{"script": text("setup.sh")}
	first := hash(of)
	if again := hash(of); again != first || first == "" {
		t.Errorf("hash is %q, then %q", first, again)
	}
	testutil.WriteFile(t, filepath.Join(base, "setup.sh"), "two")
	second := hash(of)
	of["inputs"] = cty.ListVal([]cty.Value{text("packages")})
	third := hash(of)
	testutil.WriteFile(t, filepath.Join(base, "packages"), "emacs")
	if fourth := hash(of); first == second || second == third || third == fourth {
		t.Errorf("hashes are %s, %s, %s, %s; want four", first, second, third, fourth)
	}
	if none := hash(map[string]cty.Value{"inline": text("true")}); none != "" {
		t.Errorf("an inline script has the hash %q, want none: it is part of the configuration", none)
	}
	if _, err := b.InputFiles(t.Context(), config(map[string]cty.Value{"private_key_file": text("id")}), base); err == nil {
		t.Error("a block with nothing to run has a hash: its mistake is to be found by a plan")
	}
}

func TestSchemaChecks(t *testing.T) {
	for _, test := range []struct {
		attribute string
		value     cty.Value
		want      string // empty: no error
	}{
		{"provider", text(" "), "it is empty"},
		{"interpreter", text("bash -e"), ""},
		{"interpreter", text("bash\nrm"), "is not a command"},
		{"env", cty.MapVal(map[string]cty.Value{"A=B": text("x")}), "not the name of an environment variable"},
		{"secret_env", cty.MapVal(map[string]cty.Value{"NPCTL_X": text("x")}), "set by npctl"},
		{"port", cty.NumberIntVal(22), ""},
		{"port", cty.NumberIntVal(70000), "not a port"},
		{"host_keys", cty.ListVal([]cty.Value{text("nonsense")}), "nonsense"},
		{"connect_timeout", text("0s"), "greater than zero"},
	} {
		attribute, ok := new(snapshot.Builder).Schema().Lookup(test.attribute)
		if !ok {
			t.Fatalf("no attribute %s", test.attribute)
		}
		err := attribute.Check(test.value)
		if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s = %#v: error is %v, want %q", test.attribute, test.value, err, test.want)
		}
	}
}

func TestBuilderReturnsItsInstanceOffer(t *testing.T) {
	provider, pool, label, err := new(snapshot.Builder).InstanceOffer(config(map[string]cty.Value{"pool": text("main")}))
	if provider != "cloud" || pool != "main" || label != "base" || err != nil {
		t.Errorf("Borrows = %q, %q, %q, %v", provider, pool, label, err)
	}
}
