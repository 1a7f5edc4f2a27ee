package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/placeholder"
	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/sandbox"
	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/plan/render"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// testWorld holds the objects that the runs of one file share: a state in a temporary directory, clouds in memory, and builders that
// write small files. It reaches nothing outside of these.
type testWorld struct {
	app      *app
	dir      string
	store    *bolt.Store
	identity state.Identity
	drivers  map[string]drivers.Driver
	builders map[string]builders.Builder
}

func (a *app) newTestWorld() (*testWorld, error) {
	dir, err := os.MkdirTemp("", "npctl-test-")
	if err != nil {
		return nil, fmt.Errorf("create the directory of a test: %w", err)
	}
	w := &testWorld{app: a, dir: dir, drivers: map[string]drivers.Driver{}, builders: map[string]builders.Builder{}}
	reg := newRegistry()
	for kind, d := range reg.drivers {
		w.drivers[kind] = sandbox.Replace(d)
	}
	for kind, b := range reg.builders {
		w.builders[kind] = placeholder.Replace(b)
	}
	if w.store, err = bolt.Open(bolt.Options{Path: filepath.Join(dir, "npctl.db"), Version: version(), Log: a.log}); err != nil {
		w.close()
		return nil, err
	}
	if w.identity, err = w.store.Identity(context.Background()); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// close removes everything that the runs created.
func (w *testWorld) close() {
	if w.store != nil {
		_ = w.store.Close() // the file is removed below
	}
	if err := os.RemoveAll(w.dir); err != nil {
		w.app.log.Warn("the directory of a test was not removed", "error", err)
	}
}

// isolate changes a configuration so that applying it reaches nothing outside of the world.
func (w *testWorld) isolate(d resources.Desired) resources.Desired {
	d.Settings.ImagesDir, d.Settings.BuildLogDir = filepath.Join(w.dir, "images"), filepath.Join(w.dir, "logs")
	d.Settings.State, d.Settings.Gearman = resources.StateSettings{}, nil
	d.Providers = slices.Clone(d.Providers)
	for i := range d.Providers {
		p := &d.Providers[i]
		p.PostUploadHook, p.NodeLaunchedHook, p.NodeReadyHook, p.NodeDeletedHook = "", nil, nil, nil
		p.Pools = slices.Clone(p.Pools)
		for j := range p.Pools {
			p.Pools[j].Offers = slices.Clone(p.Pools[j].Offers)
			for k := range p.Pools[j].Offers {
				o := &p.Pools[j].Offers[k]
				o.Config = unchecked(o.Config)
			}
		}
	}
	return d
}

// unchecked turns host_key_checking off: instances in memory have no SSH server. The hash of the offer stays.
func unchecked(offer cty.Value) cty.Value {
	const name = "host_key_checking"
	if offer == cty.NilVal || offer.IsNull() || !offer.Type().IsObjectType() || !offer.Type().HasAttribute(name) {
		return offer
	}
	values := maps.Clone(offer.AsValueMap())
	values[name] = cty.False
	return cty.ObjectVal(values)
}

// run executes one run and returns the summary of its plan. The error is a *failedRun if a condition is false.
func (w *testWorld) run(ctx context.Context, v variableOptions, file *config.TestFile, run config.TestRun) (string, error) {
	c, err := w.app.read(v, config.Options{Values: run.Values})
	if diags, ok := err.(*diagnosed); ok { //nolint:errorlint // read returns it unwrapped
		diags.files = sources(diags.files, file.Files)
		return "", expectFailures(run, diags)
	}
	if err != nil {
		return "", err
	}
	if len(run.Expected) > 0 {
		return "", expectFailures(run, &diagnosed{files: sources(c.Files, file.Files)})
	}
	desired := w.isolate(c.Desired)
	engine := reconcile.New(reconcile.Options{Desired: desired, HashKey: w.identity.HashKey, Store: w.store, Drivers: w.drivers, Builders: w.builders,
		DataDir: filepath.Join(w.dir, "providers"), Log: w.app.log})
	defer engine.Close() //nolint:errcheck // clouds in memory
	seen, err := engine.Observe(ctx, true)
	if err != nil {
		return "", err
	}
	opt := plan.Options{Targets: addresses(run.Targets), Replace: addresses(run.Replace), Destroy: run.Destroy, AllowDestroy: plan.AllowAll}
	if err := checkAddresses(opt, engine.Desired, seen); err != nil {
		return "", err
	}
	p := describedPlan(engine.Desired, seen, opt)
	summary := p.Summary().String()
	if run.Apply {
		if err := w.apply(ctx, engine, p, opt, seen); err != nil {
			return summary, err
		}
	}
	more, err := w.roots(ctx, c.Desired, p, seen, opt)
	if err != nil {
		return summary, err
	}
	if diags := file.Assert(run, c.Scope, more); len(diags) > 0 {
		return summary, &failedRun{&diagnosed{diags, sources(c.Files, file.Files)}}
	}
	return summary, nil
}

// apply executes the plan of a run.
func (w *testWorld) apply(ctx context.Context, engine *reconcile.Engine, p plan.Plan, opt plan.Options, seen plan.Observed) error {
	if len(p.Problems) > 0 {
		return fmt.Errorf("the plan has a problem: %s: %s", p.Problems[0].Address, p.Problems[0].Text)
	}
	result, err := engine.Execute(ctx, p, opt, seen)
	if len(result.Failed) > 0 {
		return fmt.Errorf("%s: %w", stepTitle(result.Failed[0].Step), result.Failed[0].Err)
	}
	return cmp.Or(err, result.Err())
}

// roots returns the values that conditions refer to: plan, desired and state.
func (w *testWorld) roots(ctx context.Context, desired resources.Desired, p plan.Plan, seen plan.Observed, opt plan.Options) (map[string]cty.Value, error) {
	records, err := listRecords(ctx, w.store)
	if err != nil {
		return nil, err
	}
	report, err := render.Report(p, plan.Meta{NpctlVersion: version(), Lineage: w.identity.Lineage, Created: seen.Now.UTC(), Options: opt})
	if err != nil {
		return nil, err
	}
	all := inspect.ExpressionRoots(desired, records)
	all["plan"] = json.RawMessage(report)
	return expressionValues(all)
}

// expressionValues converts values to those of expressions by way of JSON.
func expressionValues(all map[string]any) (map[string]cty.Value, error) {
	values := map[string]cty.Value{}
	for name, value := range all {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		t, err := ctyjson.ImpliedType(text)
		if err != nil {
			return nil, err
		}
		if values[name], err = ctyjson.Unmarshal(text, t); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// expectFailures compares the errors of a configuration with the expected errors of a run. It returns nil if these and no
// others occurred.
func expectFailures(run config.TestRun, found *diagnosed) error {
	missing := slices.Clone(run.Expected)
	var others hcl.Diagnostics
	for _, diag := range found.diags {
		if diag.Severity != hcl.DiagError {
			continue
		}
		rule, ok := hcl.DiagnosticExtra[config.FailedRule](diag)
		if !ok || !slices.Contains(run.Expected, rule.Address) {
			others = append(others, diag)
			continue
		}
		missing = slices.DeleteFunc(missing, func(address string) bool { return address == rule.Address })
	}
	switch {
	case len(others) > 0:
		return &diagnosed{others, found.files}
	case len(missing) > 0:
		return &failedRun{&diagnosed{hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Expected failure did not occur", Subject: &run.Source,
			Detail: fmt.Sprintf("The run expects that a rule of %s fails, and none did.", strings.Join(missing, ", "))}}, found.files}}
	}
	return nil
}
