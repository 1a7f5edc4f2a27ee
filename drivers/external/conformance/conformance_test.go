package conformance

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/external"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// broken is a Cloud with one error.
type broken struct {
	drivers.Cloud
	err string
}

func (b broken) List(context.Context) ([]resources.Instance, error) { return nil, errors.New(b.err) }
func (broken) Close() error                                         { return nil }

func TestChecksAfterANeededOneAreOmitted(t *testing.T) {
	var results []Result
	Run(t.Context(), Options{
		Open:   func(context.Context) (drivers.Cloud, error) { return broken{err: "no list"}, nil },
		Config: cty.EmptyObjectVal, Settle: time.Millisecond, Poll: time.Millisecond,
	}, func(r Result) { results = append(results, r) })
	count := map[Status]int{}
	for _, r := range results {
		count[r.Status]++
	}
	if len(results) != len(checks)+1 || count[Failed] != 2 || count[OK] != 1 { // the list and the end failed; open is ok, and there are no settings
		t.Errorf("results are %+v", results)
	}
	if last := results[len(results)-1]; last.Status != Failed || !strings.Contains(last.Detail, "no list") {
		t.Errorf("last result is %+v", last)
	}
}

// TestBrokenProgramsAreFound breaks the reference program, one call at a time.
func TestBrokenProgramsAreFound(t *testing.T) {
	reference := testutil.ReadFile(t, "../../../examples/external/driver.sh")
	for name, test := range map[string]struct{ old, changed, check string }{
		"the reference itself": {"", "", ""},
		"no tags":              {`"tags": %s}`, `"tagz": %s}`, "create returns an instance with its tags"},
		"no owner check":       {`[ "$owner" = "$NPCTL_OWNER" ] ||`, `true ||`, "delete refuses other owners"},
		"new machine each time": {`id=$(printf %s "$NPCTL_OWNER" | tr / _)`, `id=$$; echo "$id $NPCTL_OWNER" >"$root/$id.owner"`,
			"a repeated create returns the same instance"},
		"no delete": {`rm -f "$root/$NPCTL_INSTANCE.json"`, `true "$root/$NPCTL_INSTANCE.json"`, "delete removes the instance and may be repeated"},
		"error for a missing machine": {`if read_machine "$NPCTL_INSTANCE"; then`, `if ! read_machine "$NPCTL_INSTANCE"; then error rejected missing; else`,
			"delete of a missing instance is no error"},
		"empty list":       {`for file in "$root"/*.json; do`, `for file in "$root"/*.none; do`, "the instance becomes ready"},
		"shared file":      {`>"$root/$id.$$"`, `>"$root/$id.$$"; mv "$root/$id.$$" "$root/$id.$$.x"; sleep 0.3; mv "$root/$id.$$.x" "$root/shared"; sleep 0.3; mv "$root/shared" "$root/$id.$$"`, "creates at the same time do not disturb each other"},
		"another size":     {`small) resources='{"instances": 1, "cores": 1`, `small) resources='{"instances": 1, "cores": '$(date +%N | tr -d 0)'`, "the instance uses the resources of the offer"},
		"no address":       {`"interface": "127.0.0.1", `, ``, "the instance becomes ready"},
		"quota of nothing": {`"limit": {"instances": %s}`, `"limit": {"instances": %s, "cores": 0}`, "the quota has limits"},
		"broken console":   {`{"console": "Welcome.\n"}`, `{}`, "the console can be read"},
		"wrong protocol":   {`"npctl_protocols": [1]`, `"npctl_protocols": [7]`, "the program describes itself and opens the provider"},
		"invalid list":     {`echo ']}'`, `echo ']'`, "list returns all instances"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(reference, test.old) {
				t.Fatalf("the reference program does not contain %s", test.old)
			}
			program := filepath.Join(t.TempDir(), "driver.sh")
			testutil.WriteProgram(t, program, strings.Replace(reference, test.old, test.changed, 1))
			var failed []Result
			Run(t.Context(), options(t, program), func(r Result) {
				if r.Status == Failed {
					failed = append(failed, r)
				}
			})
			first := ""
			if len(failed) > 0 {
				first = failed[0].Check
			}
			if first != test.check {
				t.Errorf("failed checks are %+v, want %q first", failed, test.check)
			}
		})
	}
}

func options(t *testing.T, program string) Options {
	driver := external.New()
	provider, label := driver.Schema().Provider.Null().AsValueMap(), driver.Schema().Label.Null().AsValueMap()
	provider["command"] = cty.ListVal([]cty.Value{cty.StringVal(program)})
	label["settings"] = cty.MapVal(map[string]cty.Value{"flavor": cty.StringVal("small"), "image": cty.StringVal("debian")})
	env := drivers.Env{Provider: "conformance", Installation: NewInstallation(), Dir: t.TempDir()}
	return Options{
		Open: func(ctx context.Context) (drivers.Cloud, error) {
			return driver.Open(ctx, env, cty.ObjectVal(provider))
		},
		Installation: env.Installation, Config: cty.ObjectVal(label), Settle: 300 * time.Millisecond, Poll: 10 * time.Millisecond,
	}
}
