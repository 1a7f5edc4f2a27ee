package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// cloudKey returns the key of the connection to a provider.
func (e *Engine) cloudKey(name string, record *resources.ProviderRecord) cloudKey {
	if key, configured := e.keys[name]; configured {
		return key
	}
	if record == nil {
		return cloudKey{name: name}
	}
	return cloudKey{name, record.Driver + string(record.Config)}
}

// cloudKeys returns the keys of the configured providers.
func cloudKeys(providers []resources.Provider) map[string]cloudKey {
	keys := make(map[string]cloudKey, len(providers))
	for i := range providers {
		p := &providers[i]
		sum := sha256.New()
		_, _ = fmt.Fprintf(sum, "%s %#v %g %d %d", p.Driver, p.Config, p.Rate, p.APITimeout, p.UploadTimeout)
		keys[p.Name] = cloudKey{p.Name, string(sum.Sum(nil))}
	}
	return keys
}

func (e *Engine) open(ctx context.Context, name string, record *resources.ProviderRecord) (drivers.Cloud, error) {
	provider, configured := e.provider(name)
	if !configured {
		var err error
		if provider, err = e.remembered(name, record); err != nil {
			return nil, err
		}
	}
	driver := e.Drivers[provider.Driver]
	if driver == nil {
		return nil, fmt.Errorf("this npctl has no driver %q", provider.Driver)
	}
	installation, err := e.Installation(ctx)
	if err != nil {
		return nil, err
	}
	env := drivers.Env{Log: e.Log.With("provider", name), Provider: name, Installation: installation,
		Dir: filepath.Join(e.DataDir, name), WrapTransport: e.WrapTransport}
	var cloud drivers.Cloud
	opening, trace := drivers.Call{Name: "open"}, drivers.Trace(name, env.Log, e.OnCall)
	err = drivers.Retry(1, env.Log)(ctx, opening, func(ctx context.Context) error { // waits as Retry-After demands
		return trace(ctx, opening, func(ctx context.Context) (err error) {
			cloud, err = driver.Open(ctx, env, provider.Config)
			return err
		})
	})
	if err != nil {
		return nil, err // callers add the name of the provider
	}
	cloud = drivers.Decorate(cloud, drivers.DecorateOptions{Provider: name, Log: env.Log, Rate: provider.Rate,
		Timeout: provider.APITimeout, UploadTimeout: provider.UploadTimeout, OnCall: e.OnCall})
	if e.ReadOnly {
		cloud = drivers.Wrap(cloud, drivers.ReadOnly())
	}
	return cloud, nil
}

// remembered restores the configuration of a provider after its block has been removed.
func (e *Engine) remembered(name string, record *resources.ProviderRecord) (*resources.Provider, error) {
	if record == nil {
		return nil, errors.New("it is neither configured nor remembered, so it cannot be reached; " +
			"restore its block, or remove its records with npctl state rm")
	}
	driver := e.Drivers[record.Driver]
	if driver == nil {
		return nil, fmt.Errorf("this npctl has no driver %q", record.Driver)
	}
	body := driver.Schema().Provider
	config, err := ctyjson.Unmarshal(record.Config, body.Type())
	if err != nil {
		return nil, fmt.Errorf("its remembered configuration no longer fits driver %s: %w", record.Driver, err)
	}
	return &resources.Provider{Name: name, Driver: record.Driver, Config: config}, nil
}

// Remember returns the record of a configured provider. It contains every attribute that is not sensitive.
func Remember(p *resources.Provider, body schema.Block) (*resources.ProviderRecord, error) {
	config := withoutSecrets(p.Config, body)
	text, err := ctyjson.Marshal(config, body.Type())
	if err != nil {
		return nil, fmt.Errorf("provider %s: %w", p.Name, err)
	}
	return &resources.ProviderRecord{Name: p.Name, Driver: p.Driver, Config: json.RawMessage(text),
		PreventDestroy: p.PreventDestroy}, nil
}

// withoutSecrets sets attributes to null that are sensitive by the schema or marked so in the configuration.
func withoutSecrets(v cty.Value, body schema.Block) cty.Value {
	if v.IsNull() || !v.Type().IsObjectType() {
		return v
	}
	values := v.AsValueMap()
	for _, a := range body.Attributes {
		if value, ok := values[a.Name]; ok && (a.Sensitive || value.IsMarked() || value.ContainsMarked()) {
			values[a.Name] = cty.NullVal(a.Type)
		}
	}
	for _, n := range body.Blocks {
		if value, ok := values[n.Name]; ok {
			values[n.Name] = blocksWithoutSecrets(value, n.Schema)
		}
	}
	return cty.ObjectVal(values)
}

// blocksWithoutSecrets does the same for one nested block, or a list, set or map of them.
func blocksWithoutSecrets(v cty.Value, body schema.Block) cty.Value {
	if v.IsMarked() {
		return cty.NullVal(v.Type()) // the whole value comes from a sensitive one
	}
	if v.IsNull() || v.Type().IsObjectType() {
		return withoutSecrets(v, body)
	}
	if v.LengthInt() == 0 {
		return v
	}
	switch {
	case v.Type().IsMapType():
		inner := v.AsValueMap()
		for key, value := range inner {
			inner[key] = blocksWithoutSecrets(value, body)
		}
		return cty.MapVal(inner)
	default:
		inner := v.AsValueSlice()
		for i, value := range inner {
			inner[i] = blocksWithoutSecrets(value, body)
		}
		if v.Type().IsSetType() {
			return cty.SetVal(inner)
		}
		return cty.ListVal(inner)
	}
}
