package external_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/external"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func TestSchema(t *testing.T) { drivertest.Schema(t, external.New().Schema()) }

// reference is the program of the documentation.
const reference = "../../examples/external/driver.sh"

// place is a provider's block and directory in a test.
type place struct {
	dir    string
	values map[string]cty.Value
}

func newPlace(t *testing.T, command ...string) *place {
	t.Helper()
	p := &place{dir: filepath.Join(t.TempDir(), "provider"), values: external.New().Schema().Provider.Null().AsValueMap()}
	p.values["command"] = list(command...)
	return p
}

func (p *place) open(ctx context.Context) (drivers.Cloud, error) {
	env := drivers.Env{Provider: "rack", Installation: "here", Dir: p.dir, Log: slog.New(slog.DiscardHandler)}
	return external.New().Open(ctx, env, cty.ObjectVal(p.values))
}

func (p *place) mustOpen(t *testing.T) drivers.Cloud {
	t.Helper()
	c, err := p.open(t.Context())
	testutil.Must(t, err)
	return c
}

func list(words ...string) cty.Value {
	values := make([]cty.Value, len(words))
	for i, word := range words {
		values[i] = cty.StringVal(word)
	}
	return cty.ListVal(values)
}

// settings returns a map from pairs of words.
func settings(pairs ...string) cty.Value {
	values := map[string]cty.Value{}
	for i := 0; i < len(pairs); i += 2 {
		values[pairs[i]] = cty.StringVal(pairs[i+1])
	}
	return cty.MapVal(values)
}

func offer(pairs ...string) cty.Value {
	values := external.New().Schema().Label.Null().AsValueMap()
	values["settings"] = settings(pairs...)
	return cty.ObjectVal(values)
}

// script writes a program and returns its path.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "driver.sh")
	testutil.WriteProgram(t, path, "#!/bin/sh\n"+text)
	return path
}

// described answers describe and open; rest is the branch of all other calls.
func described(rest string) string {
	return `case $NPCTL_CALL in
describe) echo '{"npctl_protocols": [1], "abilities": ["console", "access", "advance", "quota"]}' ;;
open) echo '{}' ;;
*) ` + rest + ` ;;
esac`
}

func TestContractOfTheReferenceProgram(t *testing.T) {
	drivertest.Run(t, func(t *testing.T) drivertest.Setup {
		p := newPlace(t, reference)
		root := filepath.Join(t.TempDir(), "machines")
		p.values["settings"] = settings("root", root, "max", "20")
		return drivertest.Setup{
			Cloud:  p.mustOpen(t),
			Reopen: func(t *testing.T) drivers.Cloud { return p.mustOpen(t) },
			Config: offer("flavor", "small", "image", "debian"),
			Rejected: map[string]func(*drivers.Spec){
				"flavor":          func(s *drivers.Spec) { s.Config = offer("flavor", "huge", "image", "debian") },
				"unknown setting": func(s *drivers.Spec) { s.Config = offer("flavor", "small", "image", "debian", "colour", "red") },
			},
			BadOffers: map[string]drivertest.BadOffer{
				"value":    {Config: offer("flavor", "smal", "image", "debian"), Attribute: "settings", Near: "small"},
				"name":     {Config: offer("flavour", "small", "image", "debian"), Attribute: "settings", Near: "flavor"},
				"required": {Config: offer("flavor", "small"), Attribute: "settings"},
				"image":    {Config: offer("flavor", "small", "image", "debain"), Attribute: "settings", Near: "debian"},
			},
			Foreign: func(t *testing.T) string {
				testutil.Must(t, os.WriteFile(filepath.Join(root, "theirs.json"), []byte(`{"id": "theirs", "status": "ready"}`+"\n"), 0o600))
				t.Cleanup(func() { _ = os.Remove(filepath.Join(root, "theirs.json")) })
				return "theirs"
			},
			FillQuota: func(t *testing.T) {
				for i := range 20 {
					id := fmt.Sprintf("filler%d", i)
					testutil.Must(t, os.WriteFile(filepath.Join(root, id+".json"), fmt.Appendf(nil, "{\"id\": %q, \"status\": \"ready\"}\n", id), 0o600))
				}
			},
			Spoil: map[string]func(*testing.T, resources.Instance){
				"deleted": func(t *testing.T, i resources.Instance) {
					testutil.Must(t, os.Remove(filepath.Join(root, i.ID+".json")))
				},
				"pending":              replaceIn(root, `"status": "ready"`, `"status": "pending"`),
				"failed":               replaceIn(root, `"status": "ready"`, `"status": "failed"`),
				"with another address": replaceIn(root, `"interface": "127.0.0.1"`, `"interface": "127.0.0.2"`),
			},
			Files: func(t *testing.T) []string {
				return slices.Concat(drivertest.FilesIn(t, p.dir), drivertest.FilesIn(t, root))
			},
			Kill: func(t *testing.T, k *testutil.Killer) drivers.Cloud {
				return p.killable(t, k, "NPCTL_CALL", "create | delete")
			},
			Objects: func(t *testing.T) []string { return machinesIn(t, root, ".json") },
			Neighbours: func(t *testing.T, node drivers.Spec, _ drivers.ImageSpec) []drivertest.Foreign {
				return neighbourMachines(t, root, node)
			},
			Copies: func(t *testing.T, _ resources.Kind, id string) []drivertest.Foreign { return copiesOf(t, root, id) },
			Lacks:  []string{"images", "cloud images", "sweeper", "access", "snapshots", "adopter"},
			Omits: map[string]string{
				"Attach":         "what another user attaches to a machine is none of the program's",
				"Exhaust":        "an offer has no list of types; the program chooses",
				"LoseNextAnswer": "TestLostResponseIsFoundAgain; group Kills loses each response",
				"Calls":          "a list is one call of the program",
				"OpenWrong":      "TestInvalidProgramsAreRejected has a program that rejects a password",
				"Withdraw":       "the program renews its credentials",
			},
			Many: 4,
		}
	})
}

// ownerOf returns the owner of a record as a request has it, and the ID of its machine.
func ownerOf(m resources.OwnerTags) (owner, id string) {
	owner = strings.Join([]string{m.Installation, string(m.Kind), m.ID}, "/")
	return owner, strings.ReplaceAll(owner, "/", "_")
}

// neighbourMachines are machines of others with similar names, and the remains of an interrupted create.
func neighbourMachines(t *testing.T, root string, node drivers.Spec) []drivertest.Foreign {
	t.Helper()
	owner, id := ownerOf(node.Marks)
	machine := func(id string) string { return fmt.Sprintf("{\"id\": %q, \"status\": \"ready\"}\n", id) }
	return neighboursIn(t, root, ".json", map[string]string{
		id + "0.json": machine(id + "0"), id + "-old.json": machine(id + "-old"), "old-" + id + ".json": machine("old-" + id),
		id + "-old.owner": "theirs\n", id + "-gone.owner": id + " " + owner + "\n", id + ".12345": machine(id), id + ".json.bak": machine(id),
		"directory.json/data": "theirs", "empty.json": "", "README": "theirs",
	})
}

// copiesOf copies a machine: its files, also under an ID of its own, and each of the two files alone.
func copiesOf(t *testing.T, root, id string) []drivertest.Foreign {
	t.Helper()
	machine, owner := testutil.ReadFile(t, filepath.Join(root, id+".json")), testutil.ReadFile(t, filepath.Join(root, id+".owner"))
	clone := func(name string) string { return strings.Replace(machine, id, name, 1) }
	return neighboursIn(t, root, ".json", map[string]string{
		"copied.json": machine, "copied.owner": owner, "cloned.json": clone("cloned"), "cloned.owner": owner, "alone.json": clone("alone"), "lone.owner": owner,
	})
}

// replaceIn changes the file of a machine.
func replaceIn(root, before, after string) func(*testing.T, resources.Instance) {
	return func(t *testing.T, i resources.Instance) {
		path := filepath.Join(root, i.ID+".json")
		text, err := os.ReadFile(path)
		testutil.Must(t, err)
		testutil.Must(t, os.WriteFile(path, []byte(strings.Replace(string(text), before, after, 1)), 0o600))
	}
}

// An answer that is lost after the creation is an unknown outcome, and the next create finds the machine.
func TestLostResponseIsFoundAgain(t *testing.T) {
	p := newPlace(t, script(t, `reference=`+absolute(t, reference)+`
if [ "$NPCTL_CALL" = create ] && [ ! -e "$NPCTL_DIRECTORY/lost" ]; then
	"$reference" create >/dev/null; : >"$NPCTL_DIRECTORY/lost"; echo "connection reset" >&2; exit 1
fi
exec "$reference" "$@"`))
	c := p.mustOpen(t)
	spec := nodeSpec()
	_, err := c.Create(t.Context(), spec)
	if err == nil || drivers.IsNothingDone(err) || !strings.Contains(err.Error(), "connection reset") {
		t.Fatalf("Create = %v, want an unknown outcome with the text of stderr", err)
	}
	spec.MaybeCreated = true
	made, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	if all, err := c.List(t.Context()); err != nil || len(all) != 1 || all[0].ID != made.ID || all[0].Marks != spec.Marks {
		t.Errorf("List = %+v, %v; want %s alone", all, err, made.ID)
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	testutil.Must(t, err)
	return path
}

func nodeSpec() drivers.Spec {
	return drivers.Spec{
		Marks:    resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: "0000000007", Provider: "rack", Pool: "main", Label: "small"},
		Hostname: "np0000000007", Config: offer("flavor", "small", "image", "debian"), Properties: map[string]string{"request": "r1"},
	}
}

func TestErrorsOfTheProgram(t *testing.T) {
	for name, test := range map[string]struct {
		response    string
		kind        error
		nothingDone bool
	}{
		"quota":       {`echo '{"error": {"kind": "quota", "message": "full", "nothing_done": true}}'`, drivers.ErrQuota, true},
		"capacity":    {`echo '{"error": {"kind": "capacity", "message": "full", "nothing_done": true}}'`, drivers.ErrCapacity, true},
		"rejected":    {`echo '{"error": {"kind": "rejected", "message": "full"}}'`, drivers.ErrRejected, false},
		"throttled":   {`echo '{"error": {"kind": "throttled", "message": "full", "retry_after": 1.5}}'`, drivers.ErrThrottled, false},
		"unavailable": {`echo '{"error": {"kind": "unavailable", "message": "full"}}'`, drivers.ErrUnavailable, false},
		"not ours":    {`echo '{"error": {"kind": "not_ours", "message": "full"}}'`, drivers.ErrNotOurs, false},
	} {
		c := newPlace(t, script(t, described(test.response))).mustOpen(t)
		_, err := c.List(t.Context())
		if !errors.Is(err, test.kind) || drivers.IsNothingDone(err) != test.nothingDone || !strings.Contains(err.Error(), "driver.sh list: full") {
			t.Errorf("%s: error is %v, nothing done %t", name, err, drivers.IsNothingDone(err))
		}
		if got := drivers.RetryAfterOf(err); name == "throttled" && got != 1500*time.Millisecond {
			t.Errorf("retry after %s", got)
		}
	}
}

func TestInvalidResponsesAreErrors(t *testing.T) {
	for response, want := range map[string]string{
		`:`:                             "its stdout is no response: it is empty",
		`echo '{"instances": []'`:       "its stdout is no response: unexpected EOF",
		`echo '{"instances": []} more'`: "there is more after the JSON object",
		`echo '{}'`:                     `the response has no "instances"`,
		`echo '{"instances": [{"id": "a", "status": "up"}]}'`:                                    `instance "a" has the status "up"`,
		`echo '{"instances": [{"status": "ready"}]}'`:                                            "an instance has no id",
		`echo '{"instances": [{"id": "a", "status": "ready"}, {"id": "a", "status": "ready"}]}'`: `two instances have the id "a"`,
		`echo '{"error": {"kind": "qouta", "message": "full"}}'`:                                 `unknown kind "qouta": full`,
		`echo '{"instances": []}'; for i in 1 2 3 4 5 6 7; do echo "line $i" >&2; done; exit 3`:  "exit status 3: line 3; line 4; line 5; line 6; line 7",
		`kill -9 $$`:                          "signal: killed",
		`echo '{"instances": []}'; sleep 5 &`: "keeps its stdout or stderr open",
	} {
		c := newPlace(t, script(t, described(response))).mustOpen(t)
		if _, err := c.List(t.Context()); err == nil || !strings.Contains(err.Error(), want) || drivers.IsNothingDone(err) {
			t.Errorf("%s: error is %v, want %q and an unknown outcome", response, err, want)
		}
	}
}

func TestLongResponseIsAnError(t *testing.T) {
	c := newPlace(t, script(t, described(`head -c 2000000 /dev/zero`))).mustOpen(t)
	if _, err := c.Quota(t.Context()); err == nil || !strings.Contains(err.Error(), "printed more than 1048576 bytes") {
		t.Errorf("Quota: %v", err)
	}
	c = newPlace(t, script(t, described(`printf '{"instances": []'; head -c 2000000 /dev/zero | tr '\0' ' '; echo '}'`))).mustOpen(t)
	if list, err := c.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("List of 2 MB: %v, %v", list, err)
	}
}

func TestSecretsAreMasked(t *testing.T) {
	t.Setenv("RACK_TOKEN", "tok-4711")
	p := newPlace(t, script(t, strings.ReplaceAll(described(`request=$(cat); echo "$request $RACK_TOKEN" >&2; env >"$NPCTL_DIRECTORY/env"; exit 1`),
		`"abilities"`, `"provider": [{"name": "password", "secret": true, "required": true}], "abilities"`)))
	p.values["pass_env"] = list("RACK_TOKEN")
	_, err := p.open(t.Context())
	if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "secrets: the setting password is required") {
		t.Errorf("open without a secret: %v", err)
	}
	p.values["settings"] = settings("password", "hunter2")
	if _, err = p.open(t.Context()); err == nil || !strings.Contains(err.Error(), "settings: password belongs to secrets") {
		t.Errorf("open with a secret in settings: %v", err)
	}
	p.values["settings"], p.values["secrets"] = cty.NullVal(cty.Map(cty.String)), settings("password", "hunter2")
	_, err = p.mustOpen(t).List(t.Context())
	if err == nil || !strings.Contains(err.Error(), `"password":"(sensitive)"`) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "tok-4711") {
		t.Errorf("error is %v", err)
	}
	env, err := os.ReadFile(filepath.Join(p.dir, "env"))
	testutil.Must(t, err)
	if strings.Contains(string(env), "hunter2") || !strings.Contains(string(env), "RACK_TOKEN=tok-4711") {
		t.Errorf("environment is\n%s", env)
	}
}

func TestEnvironmentIsClean(t *testing.T) {
	t.Setenv("OS_PASSWORD", "hunter2")
	p := newPlace(t, script(t, described(`env >"$NPCTL_DIRECTORY/env"; pwd >>"$NPCTL_DIRECTORY/env"; echo '{"instances": []}'`)))
	p.values["env"] = settings("RACK", "seven")
	_, err := p.mustOpen(t).List(t.Context())
	testutil.Must(t, err)
	env, err := os.ReadFile(filepath.Join(p.dir, "env"))
	testutil.Must(t, err)
	for _, want := range []string{"RACK=seven\n", "NPCTL_CALL=list\n", "NPCTL_PROVIDER=rack\n", "NPCTL_INSTALLATION=here\n", "NPCTL_DIRECTORY=" + p.dir + "\n", "\n" + p.dir + "\n"} {
		if !strings.Contains(string(env), want) {
			t.Errorf("environment and directory lack %q:\n%s", want, env)
		}
	}
	if strings.Contains(string(env), "OS_PASSWORD") {
		t.Errorf("the program received a variable that is not listed:\n%s", env)
	}
}

func TestEndOfTheContextKillsTheProcessGroup(t *testing.T) {
	p := newPlace(t, script(t, described(`sleep 300 & echo $! >"$NPCTL_DIRECTORY/pid.new"; mv "$NPCTL_DIRECTORY/pid.new" "$NPCTL_DIRECTORY/pid"; wait`)))
	c := p.mustOpen(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := c.List(ctx); done <- err }()
	var pid int
	eventually(t, func() bool {
		text, _ := os.ReadFile(filepath.Join(p.dir, "pid"))
		n, _ := fmt.Sscan(string(text), &pid)
		return n == 1
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || drivers.IsNothingDone(err) {
		t.Errorf("error is %v, want an unknown outcome", err)
	}
	eventually(t, func() bool { _, alive := process.StartTime(pid); return !alive })
}

func eventually(t *testing.T, is func() bool) {
	t.Helper()
	testutil.Await(t, "the process and its children", is)
}

func TestInvalidProgramsAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		`echo '{}'`:                          "it has the versions [] of the protocol",
		`echo '{"npctl_protocols": [2, 3]}'`: "it has the versions [2 3] of the protocol in npctl_protocols, this npctl has 1",
		`echo '{"npctl_protocols": [1], "abilities": ["consol"]}'`:                                                                             "did you mean console?",
		`echo '{"npctl_protocols": [1], "label": [{"name": "A"}]}'`:                                                                            "a name has lower-case letters",
		`echo '{"npctl_protocols": [1], "provider": [{"name": "region", "required": true}]}'`:                                                  "settings: the setting region is required",
		`[ $NPCTL_CALL = describe ] && echo '{"npctl_protocols": [1]}' || echo '{"error": {"kind": "rejected", "message": "wrong password"}}'`: "wrong password",
	} {
		if _, err := newPlace(t, script(t, text)).open(t.Context()); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for command, want := range map[string]string{"/nowhere/driver.sh": "no such file", "no-such-driver": "not found in $PATH", os.DevNull: "permission denied"} {
		if _, err := newPlace(t, command).open(t.Context()); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", command, err, want)
		}
	}
}

func TestAbilitiesOfTheProgram(t *testing.T) {
	for abilities, want := range map[string][2]bool{`[]`: {}, `["access"]`: {true, false}, `["console"]`: {false, true}, `["access", "console"]`: {true, true}} {
		c := newPlace(t, script(t, `[ $NPCTL_CALL = describe ] && echo '{"npctl_protocols": [1], "abilities": `+abilities+`}' || echo '{"location": "here"}'`)).mustOpen(t)
		_, access := drivers.AccessorOf(c)
		_, console := drivers.ConsoleOf(c)
		if access != want[0] || console != want[1] {
			t.Errorf("%s: access %t, console %t", abilities, access, console)
		}
		if place, ok := drivers.As[drivers.Locator](c); !ok || place.Location() != "here" {
			t.Errorf("%s: no location", abilities)
		}
		offer, problems, err := c.(drivers.Resolver).ResolveOffer(t.Context(), external.New().Schema().Label.Null())
		if err != nil || len(problems) > 0 || offer.Resources.Instances != 1 {
			t.Errorf("%s: ResolveOffer = %+v, %v, %v", abilities, offer, problems, err)
		}
		if quota, err := c.Quota(t.Context()); err != nil || quota.Limit.Cores != resources.Unlimited {
			t.Errorf("%s: Quota = %+v, %v", abilities, quota, err)
		}
	}
}

func TestAdvanceAndAccess(t *testing.T) {
	c := newPlace(t, script(t, described(`cat >"$NPCTL_DIRECTORY/$NPCTL_CALL.json"; case $NPCTL_CALL in
	access) echo '{"access": {"token": "t"}}' ;;
	*) printf '{"instance": {"id": "%s", "status": "ready", "login": {"connection_type": "kubectl"}}}\n' "$NPCTL_INSTANCE" ;;
	esac`))).mustOpen(t)
	seen := resources.Instance{ID: "i1", Status: resources.StatusPending}
	now, err := c.Advance(t.Context(), nodeSpec(), seen)
	if err != nil || now.ID != "i1" || now.Status != resources.StatusReady || now.Login.ConnectionType != "kubectl" {
		t.Errorf("Advance = %+v, %v", now, err)
	}
	accessor, _ := drivers.AccessorOf(c)
	if text, err := accessor.Access(t.Context(), "i1"); err != nil || text != `{"token": "t"}` {
		t.Errorf("Access = %s, %v", text, err)
	}
}
