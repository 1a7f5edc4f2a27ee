package reconcile

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state"
)

// idleConnectionTimeout is how long an unused connection stays open that is not part of the active configuration. After
// the removal of its block, a provider is still listed repeatedly, and a configuration that was only tried may become
// active.
const idleConnectionTimeout = 5 * time.Minute

// connections holds the open providers. Engines for newer configurations share it.
type connections struct {
	mu     sync.Mutex // guards the fields below, and users and left of openCloud
	clouds map[cloudKey]*openCloud
	active map[string]cloudKey // by provider: the connections of the active configuration
}

// cloudKey identifies a connection. A change of the provider block results in another key.
type cloudKey struct{ name, config string }

// openCloud is a connection, or the error of opening it.
type openCloud struct {
	done  chan struct{} // closed when opening has ended; cloud and err are set by then
	ready atomic.Bool   // cloud is set
	cloud drivers.Cloud
	err   error

	users int       // guarded by connections.mu
	left  time.Time // when the last user released it; guarded by connections.mu
}

// cloud opens a provider once and keeps it open. It uses the configuration or, for a provider that is no longer
// configured, its record. The caller must call release after it has used the cloud; release is never nil.
func (e *Engine) cloud(ctx context.Context, name string, record *resources.ProviderRecord) (cloud drivers.Cloud, release func(), err error) {
	for _, open := range e.connections.unused(e.Now()) { // checked on each use of a provider, so that none stays open for long
		if err := open.cloud.Close(); err != nil {
			e.Log.Warn("a provider was not closed properly", "error", err)
		}
	}
	key, configured := e.keys[name]
	if !configured {
		if key.name = name; record != nil {
			key.config = record.Driver + string(record.Config)
		}
	}
	open, first := e.connections.acquire(key)
	release = sync.OnceFunc(func() {
		e.connections.mu.Lock()
		defer e.connections.mu.Unlock()
		open.users--
		open.left = e.Now()
	})
	if first {
		open.cloud, open.err = e.open(ctx, name, record)
		open.ready.Store(open.err == nil)
		close(open.done)
	}
	select {
	case <-open.done:
	case <-ctx.Done(): // another caller may still wait for a provider that hangs
		release()
		return nil, release, context.Cause(ctx)
	}
	if open.err != nil { // all callers that waited get the error; a later call tries again
		release()
		e.connections.forget(key, open)
	}
	return open.cloud, release, open.err
}

// acquire adds the caller to the users of a connection. The first user has to open it.
func (c *connections) acquire(key cloudKey) (open *openCloud, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open = c.clouds[key]
	if first = open == nil; first {
		open = &openCloud{done: make(chan struct{})}
		c.clouds[key] = open
	}
	open.users++
	return open, first
}

// forget removes a connection that could not be opened.
func (c *connections) forget(key cloudKey, failed *openCloud) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clouds[key] == failed {
		delete(c.clouds, key)
	}
}

// activate keeps the connections of a configuration open, even when they are unused.
func (c *connections) activate(keys map[string]cloudKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = keys
}

// unused removes and returns the connections to close.
func (c *connections) unused(now time.Time) (retired []*openCloud) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, open := range c.clouds {
		if open.users == 0 && open.ready.Load() && c.active[key.name] != key && now.Sub(open.left) >= idleConnectionTimeout {
			delete(c.clouds, key)
			retired = append(retired, open)
		}
	}
	return retired
}

// opened returns an open connection, or nil.
func (c *connections) opened(key cloudKey) drivers.Cloud {
	c.mu.Lock()
	defer c.mu.Unlock()
	if open := c.clouds[key]; open != nil && open.ready.Load() {
		return open.cloud
	}
	return nil
}

// connected reports whether a cloud is one of the open connections.
func (c *connections) connected(cloud drivers.Cloud) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, open := range c.clouds {
		if open.ready.Load() && open.cloud == cloud {
			return true
		}
	}
	return false
}

// close closes all connections.
func (c *connections) close() (first error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, open := range c.clouds {
		if open.ready.Load() {
			if err := open.cloud.Close(); err != nil && first == nil {
				first = err
			}
		}
	}
	clear(c.clouds)
	return first
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
	provider, configured := e.Desired.Provider(name)
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
	dir, err := e.directory(ctx, name)
	if err != nil {
		return nil, err
	}
	env := drivers.Env{Log: e.Log.With("provider", name), Provider: name, Installation: installation,
		Dir: dir, WrapTransport: e.WrapTransport, Nodes: e.nodeSource(provider.Driver, name)}
	var cloud drivers.Cloud
	opening, trace := drivers.Call{Name: "open"}, drivers.Trace(name, env.Log, e.OnCall)
	err = drivers.Retry(1, env.Log)(ctx, opening, func(ctx context.Context) error { // waits as Retry-After demands
		return trace(ctx, opening, func(ctx context.Context) (err error) {
			cloud, err = driver.Open(ctx, env, provider.Config)
			return drivers.CauseFirst(err)
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

// directory returns the directory for the files of a provider's driver. A provider that a moved block renames has its files
// in the directory with the earlier name, as long as its record has the earlier name; see moveDirectory.
func (e *Engine) directory(ctx context.Context, name string) (string, error) {
	for _, former := range e.Desired.Moves.FormerProviders(name) {
		_, err := e.Store.Get(ctx, resources.Key{Kind: resources.KindProvider, ID: former})
		if err == nil {
			return e.movedDirectory(former), nil
		}
		if !errors.Is(err, state.ErrNotFound) {
			return "", err
		}
	}
	return e.movedDirectory(name), nil
}

// movedDirectory returns the directory of a provider. It follows the links of moveDirectory, so that a directory has one path
// whatever the provider is called.
func (e *Engine) movedDirectory(name string) string {
	for range 100 { // a cycle of links has no directory
		target, err := os.Readlink(filepath.Join(e.DataDir, name))
		if err != nil || target != filepath.Base(target) {
			break
		}
		name = target
	}
	return filepath.Join(e.DataDir, name)
}

// moveDirectory makes the directory of a renamed provider available under its present name, by a link, because files and
// running processes contain its path. It may run twice. A directory with the present name is from plans before the move.
func (e *Engine) moveDirectory(from, to string) error {
	from, to = filepath.Join(e.DataDir, from), filepath.Join(e.DataDir, to)
	switch link, err := os.Readlink(to); {
	case err == nil && link == filepath.Base(from):
		return nil
	case !exists(from):
		return nil // the driver has no files
	}
	if exists(to) {
		if err := os.Rename(to, to+".unused"); err != nil {
			return err
		}
	}
	return os.Symlink(filepath.Base(from), to)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
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

// cloudImage returns the image that a cloud_image block resolves to: from the observation, or from the cloud if the
// plan was computed without listing it.
func (x *execution) cloudImage(ctx context.Context, p *resources.Provider, ref resources.ImageRef) (id string, login resources.Login, err error) {
	i := slices.IndexFunc(p.CloudImages, func(spec resources.CloudImageSpec) bool { return spec.Name == ref.Name })
	if i < 0 {
		return "", login, fmt.Errorf("%w: provider %s has no %s", drivers.ErrRejected, p.Name, ref)
	}
	spec := p.CloudImages[i]
	if id := x.seen.Providers[p.Name].CloudImages[ref.Name].Image.ID; id != "" {
		return id, spec.Login, nil
	}
	cloud, release, err := x.cloud(ctx, p.Name, nil)
	defer release()
	if err != nil {
		return "", login, err
	}
	resolver, ok := drivers.ResolverOf(cloud)
	if !ok {
		return "", login, fmt.Errorf("%s: %w", ref, drivers.ErrNotSupported)
	}
	found, problems, err := resolver.ResolveImage(ctx, spec)
	if err == nil && len(problems) > 0 {
		err = fmt.Errorf("%w: %s = %q: %s", drivers.ErrRejected, problems[0].Attribute, problems[0].Value, problems[0].Detail)
	}
	if err != nil {
		return "", login, fmt.Errorf("%s: %w", ref, err)
	}
	return found.ID, spec.Login, nil
}

// Access requests the credentials of a node from its cloud. No record contains them. The error is ErrNotSupported if jobs
// connect to the nodes of the driver without credentials of the cloud.
func (r *Runner) Access(ctx context.Context, node *resources.Node) (string, error) {
	cloud, release, err := r.using().cloud(ctx, node.Provider, r.providerRecord(node.Provider))
	defer release()
	if err != nil {
		return "", fmt.Errorf("provider %s: %w", node.Provider, err)
	}
	credentials, err := access(ctx, cloud, node.ExternalID)
	switch {
	case err != nil:
		return "", fmt.Errorf("credentials of node %s: %w", node.ID, err)
	case credentials == "":
		return "", fmt.Errorf("provider %s: credentials of nodes: %w", node.Provider, drivers.ErrNotSupported)
	}
	return credentials, nil
}
