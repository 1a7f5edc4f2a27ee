package external_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/external"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// garmProgram is a provider of GARM: machines are files beside its configuration file, named after their ID. It follows
// doc/external_provider.md of GARM, including the exit statuses.
const garmProgram = `set -eu
[ "$GARM_INTERFACE_VERSION" = v0.1.1 ]
root=$(dirname "$GARM_PROVIDER_CONFIG_FILE")
show() { # ID
	read -r name <"$root/$1.machine" 2>/dev/null || return 1
	status=running address=10.0.0.7
	if [ -e "$root/$1.changed" ]; then read -r status address <"$root/$1.changed"; fi
	printf '{"provider_id": "%s", "name": "%s", "os_type": "linux", "os_arch": "amd64", "status": "%s", "provider_fault": "", "addresses": [{"address": "%s", "type": "private"}]}' "$1" "$name" "$status" "$address"
}
case $GARM_COMMAND in
CreateInstance)
	cat >"$root/bootstrap.$$"
	name=$(sed 's/^{"name":"\([^"]*\)".*/\1/' "$root/bootstrap.$$")
	mv "$root/bootstrap.$$" "$root/bootstrap.json"
	printf '%s' "$GARM_POOL_EXTRASPECS" >"$root/specs"
	[ ! -e "$root/id-$name.machine" ] || exit 31
	echo "$name" >"$root/.new$$"
	mv "$root/.new$$" "$root/id-$name.machine"
	show "id-$name"
	;;
GetInstance) show "$GARM_INSTANCE_ID" || exit "${NOT_FOUND:-30}" ;;
DeleteInstance) rm -f "$root/$GARM_INSTANCE_ID.machine" ;;
ListInstances)
	[ -n "$GARM_POOL_ID" ] && [ -n "$GARM_CONTROLLER_ID" ]
	separator=[
	for file in "$root"/*.machine; do
		id=${file##*/}
		text=$(show "${id%.machine}") || continue
		printf '%s%s' "$separator" "$text"
		separator=,
	done
	[ "$separator" = , ] || printf '['
	echo ']'
	;;
*) exit 1 ;;
esac`

// newGARM returns a provider and the directory of its machines.
func newGARM(t *testing.T) (*place, string) {
	t.Helper()
	root := t.TempDir()
	testutil.Must(t, os.WriteFile(filepath.Join(root, "config.toml"), nil, 0o600))
	p := newPlace(t, script(t, garmProgram))
	p.values["protocol"] = cty.StringVal("garm")
	p.values["settings"] = settings("config_file", filepath.Join(root, "config.toml"))
	return p, root
}

func garmOffer(more ...string) cty.Value {
	return offer(append([]string{"flavor", "m1.small", "image", "debian", "cores", "2", "ram", "4096"}, more...)...)
}

// garmChange changes the status and the address of a machine.
func garmChange(root, to string) func(*testing.T, resources.Instance) {
	return func(t *testing.T, i resources.Instance) {
		testutil.Must(t, os.WriteFile(filepath.Join(root, i.ID+".changed"), []byte(to+"\n"), 0o600))
	}
}

func TestContractOfAGARMProvider(t *testing.T) {
	for name, notFound := range map[string]string{"exit status 30": "30", "exit status 1": "1"} {
		t.Run(name, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) drivertest.Setup {
				p, root := newGARM(t)
				p.values["env"] = settings("NOT_FOUND", notFound)
				return drivertest.Setup{
					Cloud:  p.mustOpen(t),
					Reopen: func(t *testing.T) drivers.Cloud { return p.mustOpen(t) },
					Config: garmOffer(),
					Rejected: map[string]func(*drivers.Spec){
						"no flavor":   func(s *drivers.Spec) { s.Config = offer("image", "debian") },
						"extra specs": func(s *drivers.Spec) { s.Config = garmOffer("extra_specs", "[1]") },
						"cores":       func(s *drivers.Spec) { s.Config = garmOffer("cores", "1.5") },
						"long name":   func(s *drivers.Spec) { s.Hostname = strings.Repeat("n", 60) },
					},
					BadOffers: map[string]drivertest.BadOffer{
						"name": {Config: garmOffer("flavour", "small"), Attribute: "settings", Near: "flavor"},
						"arch": {Config: garmOffer("arch", "amd46"), Attribute: "settings", Near: "amd64"},
					},
					Foreign: func(t *testing.T) string {
						testutil.Must(t, os.WriteFile(filepath.Join(root, "theirs.machine"), []byte("runner-1\n"), 0o600))
						return "theirs"
					},
					Spoil: map[string]func(*testing.T, resources.Instance){
						"deleted": func(t *testing.T, i resources.Instance) {
							testutil.Must(t, os.Remove(filepath.Join(root, i.ID+".machine")))
						},
						"stopped": garmChange(root, "stopped 10.0.0.7"), "unknown": garmChange(root, "unknown 10.0.0.7"),
						"with another address": garmChange(root, "running 10.0.0.8"),
					},
					Files: func(t *testing.T) []string {
						return slices.Concat(drivertest.FilesIn(t, p.dir), drivertest.FilesIn(t, root))
					},
					Kill: func(t *testing.T, k *testutil.Killer) drivers.Cloud {
						return p.killable(t, k, "GARM_COMMAND", "CreateInstance | DeleteInstance")
					},
					Objects: func(t *testing.T) []string { return machinesIn(t, root, ".machine") }, // npctl's own files stay for a day
					Neighbours: func(t *testing.T, node drivers.Spec, _ drivers.ImageSpec) []drivertest.Foreign {
						return garmNeighbours(t, p.dir, root, node)
					},
					Copies: func(t *testing.T, _ resources.Kind, id string) []drivertest.Foreign {
						return neighboursIn(t, root, ".machine", map[string]string{"copied.machine": testutil.ReadFile(t, filepath.Join(root, id+".machine"))})
					},
					Lacks: []string{"images", "cloud images", "sweeper", "access", "console", "snapshots", "adopter"},
					Omits: map[string]string{
						"Attach":         "what another user attaches to a machine is none of the program's",
						"Exhaust":        "an offer has no list of types; the program chooses",
						"LoseNextAnswer": "TestLostResponseIsFoundAgain; group Kills loses each response",
						"Calls":          "a list is one call of the program",
						"FillQuota":      "the protocol has no errors of quotas",
						"OpenWrong":      "the protocol has no errors of credentials",
						"Withdraw":       "the program renews its credentials",
					},
					Many: 4,
				}
			}, "Instances", "Errors", "Copies", "Kills", "Foreign")
		})
	}
}

// garmNeighbours are machines of others with names that resemble that of a node, and files of others beside those of npctl.
func garmNeighbours(t *testing.T, dir, root string, node drivers.Spec) []drivertest.Foreign {
	t.Helper()
	hash := sha256.Sum256([]byte(node.Marks.Installation))
	name := fmt.Sprintf("%s-%x-%s", node.Hostname, hash[:4], node.Marks.ID)
	other := sha256.Sum256([]byte("theirs"))
	return append(neighboursIn(t, root, ".machine", map[string]string{
		"n1.machine": name + "0\n", "n2.machine": name + "-old\n", "n3.machine": fmt.Sprintf("%s-%x-%s\n", node.Hostname, other[:4], node.Marks.ID),
		"n4.machine": node.Hostname + "-" + node.Marks.ID + "\n", "n5.machine": node.Hostname + "\n", "n6.machine": strings.TrimPrefix(name, node.Hostname) + "\n", "README": "theirs",
	}), neighboursIn(t, dir, ".machine", map[string]string{
		name + "-old.instance.json": "{}", name + ".instance.json.bak": "{}", "db.json": "{}", "data/" + name + ".instance.json": "{}",
	})...)
}

func TestGARMProviderReceivesThePublishedDocument(t *testing.T) {
	p, root := newGARM(t)
	c := p.mustOpen(t)
	spec := nodeSpec()
	spec.Config = garmOffer("extra_specs", `{"disk": 20}`, "install_script", "#!/bin/sh\ntouch /ready\n", "ssh_keys", "ssh-ed25519 AAAA a\nssh-ed25519 BBBB b\n", "username", "zuul")
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	want := resources.Addresses{Interface: "10.0.0.7", PrivateIPv4: "10.0.0.7"}
	if made.Name != spec.Hostname || made.Marks != spec.Marks || made.Login.Username != "zuul" || made.Addresses != want || made.Resources.RAM != 4096 {
		t.Errorf("Create = %+v", made)
	}
	text, err := os.ReadFile(filepath.Join(root, "bootstrap.json"))
	testutil.Must(t, err)
	var document map[string]any
	testutil.Must(t, json.Unmarshal(text, &document))
	pool, _ := document["pool_id"].(string)
	specs := map[string]any{"disk": 20.0, "runner_install_template": base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\ntouch /ready\n"))}
	for key, value := range map[string]any{
		"name": "np0000000007-fcec9150-0000000007", "flavor": "m1.small", "image": "debian", "os_type": "linux", "arch": "amd64", "labels": []any{"small"},
		"ssh-keys": []any{"ssh-ed25519 AAAA a", "ssh-ed25519 BBBB b"}, "extra_specs": specs, "jit_config_enabled": true,
	} {
		if diff := cmp.Diff(value, document[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	if len(pool) != 36 || len(document["tools"].([]any)) == 0 {
		t.Errorf("pool %q, tools %v", pool, document["tools"])
	}
	encoded, err := os.ReadFile(filepath.Join(root, "specs"))
	testutil.Must(t, err)
	decoded, err := base64.StdEncoding.DecodeString(string(encoded))
	var sent map[string]any
	if err != nil || json.Unmarshal(decoded, &sent) != nil || !cmp.Equal(sent, specs) {
		t.Errorf("GARM_POOL_EXTRASPECS is %s, %v", decoded, err)
	}
}

// The pool is that of the directory, which a rename of the provider does not change.
func TestGARMPoolOfARenamedProviderStays(t *testing.T) {
	p, root := newGARM(t)
	poolOf := func(provider, directory string) any {
		c, err := external.New().Open(t.Context(), drivers.Env{Provider: provider, Installation: "here",
			Dir: filepath.Join(filepath.Dir(p.dir), directory), Log: slog.New(slog.DiscardHandler)}, cty.ObjectVal(p.values))
		testutil.Must(t, err)
		spec := nodeSpec()
		spec.Config = garmOffer()
		_, err = c.Create(t.Context(), spec)
		testutil.Must(t, err)
		text, err := os.ReadFile(filepath.Join(root, "bootstrap.json"))
		testutil.Must(t, err)
		var document map[string]any
		testutil.Must(t, json.Unmarshal(text, &document))
		testutil.Must(t, os.Remove(filepath.Join(root, "bootstrap.json")))
		return document["pool_id"]
	}
	before, other := poolOf("rack", "rack"), poolOf("other", "other")
	if after := poolOf("shelf", "rack"); after != before || other == before {
		t.Errorf("pool %v, after the move %v, of another provider %v", before, after, other)
	}
}

// A plan lists instances, and changes no files. A deletion removes the files of missing instances, and no others.
func TestGARMFilesOfMissingInstancesGoWithTheNextDeletion(t *testing.T) {
	p, root := newGARM(t)
	c := p.mustOpen(t)
	spec := nodeSpec()
	spec.Config = garmOffer()
	made := func(id string) resources.Instance {
		spec.Marks.ID = id
		i, err := c.Create(t.Context(), spec)
		testutil.Must(t, err)
		return i
	}
	missing, deleted, unlisted := made("0000000001"), made("0000000002"), made("0000000005")
	for _, id := range []string{missing.ID, unlisted.ID} {
		testutil.Must(t, os.Remove(filepath.Join(root, id+".machine")))
	}
	facts, err := filepath.Glob(filepath.Join(p.dir, "*-0000000001.instance.json"))
	if err != nil || len(facts) != 1 {
		t.Fatalf("files %q, %v; want one", facts, err)
	}
	named := func(id string) string { return strings.Replace(facts[0], missing.Marks.ID, id, 1) }
	theirs := []string{filepath.Join(p.dir, "db.instance.json"), named("0000000003"), filepath.Join(p.dir, "copy-of-"+strings.TrimSuffix(filepath.Base(facts[0]), ".instance.json")), named("0000000004")}
	testutil.WriteFile(t, theirs[0], "{}")
	for _, path := range theirs[1:3] {
		testutil.WriteFile(t, path, testutil.ReadFile(t, facts[0])) // a copy
	}
	testutil.Must(t, os.Symlink(facts[0], theirs[3]))
	long := time.Now().Add(-48 * time.Hour)
	for _, path := range append(theirs[:3:3], facts[0]) {
		testutil.Must(t, os.Chtimes(path, long, long))
	}
	_, err = p.mustOpen(t).List(t.Context())
	testutil.Must(t, err)
	if _, err := os.Stat(facts[0]); err != nil {
		t.Errorf("List: %v", err)
	}
	testutil.Must(t, c.Delete(t.Context(), deleted.ID, deleted.Marks))
	if _, err := os.Stat(facts[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of the missing instance: %v", err)
	}
	for _, path := range append(theirs, named(unlisted.Marks.ID)) { // a new instance may not be listed yet
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

// The record of an instance is in its name: another host without the provider's directory finds and deletes it.
func TestGARMInstanceIsKnownWithoutItsFile(t *testing.T) {
	p, _ := newGARM(t)
	spec := nodeSpec()
	spec.Config = garmOffer()
	_, err := p.mustOpen(t).Create(t.Context(), spec)
	testutil.Must(t, err)
	p.dir = filepath.Join(t.TempDir(), "another host")
	c := p.mustOpen(t)
	list, err := c.List(t.Context())
	if err != nil || len(list) != 1 || !list[0].Marks.SameRecord(spec.Marks) || list[0].Name != spec.Hostname {
		t.Fatalf("List = %+v, %v", list, err)
	}
	testutil.Must(t, c.Delete(t.Context(), list[0].ID, spec.Marks))
	if list, err := c.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List = %+v, %v", list, err)
	}
}

// The ID of an instance is also known if only a later create has found it.
func TestGARMCopyOfAFoundInstanceIsForeign(t *testing.T) {
	p, root := newGARM(t)
	k := &testutil.Killer{Survives: true}
	c := p.killable(t, k, "GARM_COMMAND", "CreateInstance")
	k.Revive(2)
	spec := nodeSpec()
	spec.Config = garmOffer()
	if _, err := c.Create(t.Context(), spec); err == nil || drivers.IsNothingDone(err) {
		t.Errorf("Create with a lost response: %v", err)
	}
	spec.MaybeCreated = true
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	testutil.WriteFile(t, filepath.Join(root, "copied.machine"), testutil.ReadFile(t, filepath.Join(root, made.ID+".machine")))
	list, err := c.List(t.Context())
	list = slices.DeleteFunc(list, func(i resources.Instance) bool { return i.Marks == (resources.OwnerTags{}) })
	if err != nil || len(list) != 1 || list[0].ID != made.ID {
		t.Errorf("instances of npctl are %+v, %v; want %s", list, err, made.ID)
	}
	if err := c.Delete(t.Context(), "copied", spec.Marks); !errors.Is(err, drivers.ErrNotOurs) {
		t.Errorf("deletion of the copy: %v", err)
	}
}

func TestGARMDuplicateIsFound(t *testing.T) {
	p, _ := newGARM(t)
	c := p.mustOpen(t)
	spec := nodeSpec()
	spec.Config = garmOffer()
	first, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	again, err := c.Create(t.Context(), spec)
	if err != nil || again.ID != first.ID {
		t.Errorf("Create = %+v, %v; want %s", again, err, first.ID)
	}
}

func TestGARMConfigurationFileIsRequired(t *testing.T) {
	p, root := newGARM(t)
	testutil.Must(t, os.Remove(filepath.Join(root, "config.toml")))
	if _, err := p.open(t.Context()); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "setting config_file") {
		t.Errorf("open without a file: %v", err)
	}
	p.values["settings"] = cty.NullVal(cty.Map(cty.String))
	if _, err := p.open(t.Context()); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "the setting config_file is required") {
		t.Errorf("open without a setting: %v", err)
	}
}
