package external_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/external"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// secret has characters that JSON and Go quote.
const secret = `hunter2"\Zürich`

// inJSON returns the secret as a JSON string, between texts.
func inJSON(before, after string) string {
	text, err := json.Marshal(before + secret + after)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// revealed reports whether a text contains the secret, also quoted or cut off.
func revealed(text string) bool { return strings.Contains(text, "hunter2") }

// A program may print its secrets in every field of a response.
func TestNoFieldRevealsSecrets(t *testing.T) {
	at := inJSON("x", "x")
	long := inJSON(strings.Repeat("x", 195), strings.Repeat("x", 9000)) // texts are cut to different lengths
	fields := func(text string) []string {
		instance := func(rest string) string { return `{"instance": {` + rest + `}, "instances": [{` + rest + `}]}` }
		return []string{
			text, `{` + text + `: 1}`, `{"instances": ` + text + `, "instance": ` + text + `}`,
			`{"error": {"kind": ` + text + `, "message": "x"}}`, `{"error": {"kind": "rejected", "message": ` + text + `}}`,
			`{"error": {"message": "x", "retry_after": ` + text + `}}`,
			`{"npctl_protocols": ` + text + `}`, `{"npctl_protocols": [` + text + `]}`, `{"npctl_protocols": [1], "abilities": [` + text + `]}`,
			`{"npctl_protocols": [1], "label": [{"name": ` + text + `}]}`, `{"npctl_protocols": [1], "provider": [{"name": "a", "type": ` + text + `}]}`,
			`{"npctl_protocols": [1], "provider": [{"name": "a", "required": true, "doc": ` + text + `}]}`,
			`{"npctl_protocols": [1], "provider": [{"name": "a", "required": ` + text + `}]}`,
			`{"npctl_protocols": [1], "provider": [{"name": "token", "secret": true, "one_of": [` + text + `]}]}`,
			`{"npctl_protocols": [1], "provider": [{"name": "token", "secret": true}], "label": [{"name": "flavor", "one_of": [` + text + `]}], "abilities": ["resolve_offer"]}`,
			`{"npctl_protocols": [1], "provider": [{"name": "token", "secret": true}], "label": [{"name": "size", "required": true, "doc": ` + text + `}]}`,
			`{"location": ` + text + `}`,
			instance(`"id": ` + text + `, "status": "odd"`), instance(`"id": "i", "status": ` + text), instance(`"id": "i", "status": "ready", "fault_kind": ` + text),
			instance(`"id": "i", "status": "failed", "fault": ` + text), instance(`"id": "i", "status": "ready", "created": ` + text),
			instance(`"id": "i", "status": "ready", "resources": {"cores": ` + text + `}`), instance(`"id": "i", "status": "ready", "host_keys": ` + text),
			instance(`"id": "i", "status": "ready", "tags": {"hash": ` + text + `}`), instance(`"id": "i", "status": "ready", "addresses": ` + text),
			`{"instances": [{"id": ` + text + `, "status": "ready"}, {"id": ` + text + `, "status": "ready"}]}`,
			`{"quota": {"limit": ` + text + `}}`, `{"quota": {"limit": {"cores": ` + text + `}}}`, `{"quota": ` + text + `}`,
			`{"offer": {"resources": ` + text + `}}`, `{"problems": [{"setting": "flavor", "detail": ` + text + `}]}`,
			`{"problems": [{"setting": ` + text + `, "detail": "x"}]}`, `{"problems": [{"setting": "flavor", "value": ` + text + `, "detail": "x", "suggestions": [` + text + `]}]}`,
			`{"console": ` + text + `}`, `{"console": [` + text + `]}`,
		}
	}
	for call, calls := range map[string][]string{
		"describe": {"create", "resolve_offer"}, "open": nil, "list": {"list"}, "create": {"create"}, "advance": {"advance"}, "delete": {"delete"},
		"quota": {"quota"}, "resolve_offer": {"resolve_offer"}, "console": {"console"},
	} {
		for _, response := range append(fields(at), fields(long)...) {
			p := newPlace(t, script(t, `case $NPCTL_CALL in
`+call+`) cat "$NPCTL_DIRECTORY/response" ;;
describe) echo '{"npctl_protocols": [1], "provider": [{"name": "token", "secret": true}], "label": [{"name": "flavor"}, {"name": "image"}],
	"abilities": ["console", "advance", "quota", "resolve_offer"]}' ;;
*) echo '{}' ;;
esac`))
			p.values["secrets"] = settings("token", secret)
			testutil.Must(t, os.MkdirAll(p.dir, 0o700))
			testutil.Must(t, os.WriteFile(filepath.Join(p.dir, "response"), []byte(response), 0o600))
			for _, text := range textsOf(t, p, calls...) {
				if revealed(text) {
					t.Errorf("%s returns %.200s:\n%.600s", call, response, text)
				}
			}
		}
	}
}

// The same for a provider of GARM.
func TestNoFieldOfGARMRevealsSecrets(t *testing.T) {
	at := inJSON("x", "x")
	in64 := base64.StdEncoding.EncodeToString([]byte("x " + secret))
	for _, command := range []string{"ListInstances", "GetInstance", "CreateInstance", "DeleteInstance"} {
		for _, instance := range []string{
			at, `[` + at + `]`, `{` + at + `: 1}`, `{"provider_id": ` + at + `, "status": "odd"}`, `{"provider_id": "i", "status": ` + at + `}`,
			`{"provider_id": ["i"], "status": ` + at + `}`, `{"provider_id": "i", "name": ` + at + `, "status": "running"}`,
			`{"provider_id": "i", "status": "error", "provider_fault": ` + at + `}`, `{"provider_id": "i", "status": "error", "provider_fault": "` + in64 + `"}`,
			`{"provider_id": "i", "status": "running", "addresses": [` + at + `]}`,
			`{"provider_id": ` + at + `, "status": "running"}, {"provider_id": ` + at + `, "status": "running"}`,
		} {
			response := instance
			if command == "ListInstances" {
				response = `[` + instance + `]`
			}
			p := newPlace(t, script(t, `[ $GARM_COMMAND != `+command+` ] || exec cat "$GARM_PROVIDER_CONFIG_FILE"; echo '[]'`))
			file := filepath.Join(t.TempDir(), "response")
			testutil.Must(t, os.WriteFile(file, []byte(response), 0o600))
			p.values["protocol"] = cty.StringVal("garm")
			p.values["settings"] = settings("config_file", file)
			t.Setenv("RACK_TOKEN", secret)
			p.values["pass_env"] = list("RACK_TOKEN")
			for _, text := range textsOf(t, p, "list", "create", "delete") {
				if revealed(text) {
					t.Errorf("%s returns %s:\n%s", command, response, text)
				}
			}
		}
	}
}

// textsOf opens the provider, makes the calls, and returns their errors, problems and texts for people, and the log.
func textsOf(t *testing.T, p *place, calls ...string) (texts []string) {
	t.Helper()
	note := func(err error, more ...string) {
		if texts = append(texts, more...); err != nil {
			texts = append(texts, err.Error())
		}
	}
	var log strings.Builder
	env := drivers.Env{Provider: "rack", Installation: "here", Dir: p.dir, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	c, err := external.New().Open(t.Context(), env, cty.ObjectVal(p.values))
	if note(err); err != nil {
		return append(texts, log.String())
	}
	note(nil, c.(drivers.Locator).Location())
	for _, call := range calls {
		switch call {
		case "list":
			found, err := c.List(t.Context())
			note(err)
			for _, i := range found {
				note(nil, i.Fault)
			}
		case "create":
			i, err := c.Create(t.Context(), nodeSpec())
			note(err, i.Fault)
		case "advance":
			i, err := c.Advance(t.Context(), nodeSpec(), resources.Instance{ID: "i", Status: resources.StatusPending})
			note(err, i.Fault)
		case "delete":
			note(c.Delete(t.Context(), "i", nodeSpec().Marks))
		case "quota":
			_, err := c.Quota(t.Context())
			note(err)
		case "resolve_offer":
			_, problems, err := c.(drivers.Resolver).ResolveOffer(t.Context(), offer("flavor", "small", "image", "debian"))
			note(err)
			for _, one := range problems {
				note(nil, one.Detail, one.Value, strings.Join(one.Suggestions, " "))
			}
		case "console":
			console, _ := drivers.ConsoleOf(c)
			shown, err := console.ConsoleLog(t.Context(), "i")
			note(err, shown)
		}
	}
	return append(texts, log.String())
}

// A short secret may be part of an ID.
func TestMaskingChangesNoData(t *testing.T) {
	p := newPlace(t, script(t, strings.ReplaceAll(described(`echo '{"instances": [{"id": "i-12", "name": "n12", "zone": "z12", "flavor": "f12", "status": "failed", "fault": "disk 12"}]}'`),
		`"abilities"`, `"provider": [{"name": "pin", "secret": true}], "abilities"`)))
	p.values["secrets"] = settings("pin", "12")
	found, err := p.mustOpen(t).List(t.Context())
	testutil.Must(t, err)
	if i := found[0]; i.ID != "i-12" || i.Name != "n12" || i.Zone != "z12" || i.Flavor != "f12" || i.Fault != "disk (sensitive)" {
		t.Errorf("instance is %+v", i)
	}
}

// Kinds, outcomes and causes stay readable for the callers of a masked error.
func TestMaskedErrorsKeepTheirKind(t *testing.T) {
	p := newPlace(t, script(t, strings.ReplaceAll(described(`echo '{"error": {"kind": "throttled", "message": "login with hunter2", "retry_after": 2, "nothing_done": true}}'`),
		`"abilities"`, `"provider": [{"name": "token", "secret": true}], "abilities"`)))
	p.values["secrets"] = settings("token", "hunter2")
	_, err := p.mustOpen(t).List(t.Context())
	if !errors.Is(err, drivers.ErrThrottled) || !drivers.IsNothingDone(err) || drivers.RetryAfterOf(err).Seconds() != 2 || revealed(err.Error()) {
		t.Errorf("error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c := p.mustOpen(t)
	cancel()
	if _, err := c.List(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

// One element of three bytes must not become a record of a thousand: decoding ends at the first invalid instance, and at a
// number of instances that no provider has.
func TestLongListsAreRefusedEarly(t *testing.T) {
	valid := `{"id":"%d","status":"ready"},`
	for name, c := range map[string]struct {
		command, element, end, want string
		count                       int
	}{
		"native":        {"list", `{},`, `{}]}`, "an instance has no id", 1 << 20},
		"native, valid": {"list", valid, `{}]}`, "more than 100000 instances", 150_000},
		"garm":          {"ListInstances", `{},`, `{}]`, "an instance has no id", 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			start := `{"instances":[`
			if c.command != "list" {
				start = `[`
			}
			var b strings.Builder
			b.WriteString(start)
			for i := range c.count {
				if c.element == valid {
					fmt.Fprintf(&b, valid, i)
				} else {
					b.WriteString(c.element)
				}
			}
			b.WriteString(c.end)
			file := filepath.Join(t.TempDir(), "response")
			testutil.Must(t, os.WriteFile(file, []byte(b.String()), 0o600))
			p := newPlace(t, script(t, described(`cat '`+file+`'`)))
			if c.command != "list" {
				p = newPlace(t, script(t, `cat '`+file+`'`))
				p.values["protocol"], p.values["settings"] = cty.StringVal("garm"), settings("config_file", file)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			cloud, err := p.open(t.Context())
			if err == nil {
				_, err = cloud.List(t.Context())
			}
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 500 {
				t.Errorf("%d MiB allocated for %d MiB", allocated, b.Len()>>20)
			} else {
				t.Logf("%d MiB allocated for %d MiB", allocated, b.Len()>>20)
			}
		})
	}
}
