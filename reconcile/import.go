package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state"
)

// lookUpImports adds to the view the objects that the imports of a provider name, except those that are imported
// already.
func (e *Engine) lookUpImports(ctx context.Context, name string, cloud drivers.Cloud, there expectedIDs, view *plan.ProviderView) error {
	view.Imports = map[plan.ImportKey]plan.ImportView{}
	adopter, able := drivers.AdopterOf(cloud)
	for i := range e.Desired.Imports {
		one := &e.Desired.Imports[i]
		if one.Provider != name || there.servers[one.ID] || there.images[one.ID] {
			continue
		}
		var object plan.ImportView
		var err error
		if able {
			object.ExistingObject, object.Found, err = adopter.LookUp(ctx, one.Kind(), one.ID)
		} else {
			object.Err = fmt.Sprintf("the driver of provider %s cannot import", name)
		}
		if isUnreachable(err) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		} else if err != nil {
			object.Err = err.Error()
		}
		view.Imports[plan.ImportKey{Kind: one.Kind(), ID: one.ID}] = object
	}
	return nil
}

// ListOthers lists the servers and images without ownership tags of npctl in the configured and recorded providers, as far
// as their drivers can. Observe, called afterwards, lists the other objects and returns the errors of providers.
func (e *Engine) ListOthers(ctx context.Context) (map[string][]resources.ExistingObject, error) {
	entries, err := e.Store.List(ctx, resources.KindProvider)
	if err != nil {
		return nil, err
	}
	records := map[string]*resources.ProviderRecord{}
	for i := range e.Desired.Providers {
		records[e.Desired.Providers[i].Name] = nil
	}
	for _, entry := range entries {
		if r, ok := entry.Record.(*resources.ProviderRecord); ok {
			records[r.Name] = r
		}
	}
	var group errgroup.Group
	var mu sync.Mutex
	found := map[string][]resources.ExistingObject{}
	for name, record := range records {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, observeTimeout)
			defer cancel()
			cloud, release, err := e.cloud(ctx, name, record)
			defer release()
			if err != nil {
				return nil //nolint:nilerr // Observe reports it
			}
			adopter, able := drivers.AdopterOf(cloud)
			if !able {
				return nil
			}
			others, err := adopter.ListOthers(ctx)
			if err != nil {
				return fmt.Errorf("provider %s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			found[name] = others
			return nil
		})
	}
	return found, group.Wait()
}

// errTaken is the error of an import if the object is gone, or has another owner, since the plan.
var errTaken = fmt.Errorf("%w: the object has changed since the plan", drivers.ErrRejected)

// adopter opens the provider of a step.
func (x *execution) adopter(ctx context.Context, s plan.Step) (drivers.Adopter, func(), error) {
	cloud, release, err := x.cloud(ctx, s.Provider, x.cache.provider(s.Provider))
	if err != nil {
		return nil, release, err
	}
	adopter, able := drivers.AdopterOf(cloud)
	if !able {
		return nil, release, fmt.Errorf("import into provider %s: %w", s.Provider, drivers.ErrNotSupported)
	}
	return adopter, release, nil
}

// adopt reads the object of an import and writes our tags. gone is true if the object can never be imported.
func (x *execution) adopt(ctx context.Context, s plan.Step, adopter drivers.Adopter, marks resources.OwnerTags) (object resources.ExistingObject, gone bool, err error) {
	object, found, err := adopter.LookUp(ctx, marks.Kind, s.External)
	switch {
	case err != nil:
		return object, rejected(err), err
	case !found:
		return object, true, fmt.Errorf("import %s: %w: the cloud no longer has it", s.External, errTaken)
	}
	var replaced resources.OwnerTags // those of a lost record of this installation, which the plan showed
	if had := object.Marks(); had.Installation == marks.Installation && !x.recorded(resources.Key{Kind: had.Kind, ID: had.ID}) {
		replaced = had
	}
	if err := x.cache.claims.awaitConnected(ctx, s.ID); err != nil {
		return object, false, err
	}
	err = adopter.Adopt(ctx, s.External, marks, replaced)
	if errors.Is(err, drivers.ErrNotOurs) {
		return object, true, fmt.Errorf("import %s: %w: %w", s.External, errTaken, err)
	}
	return object, rejected(err), err
}

// recorded reports whether the cache has a record.
func (x *execution) recorded(key resources.Key) bool {
	records, _ := x.cache.snapshot()
	return records.Get(key) != nil
}

// importNode makes a server of another owner a node: the record, the ownership tags, the final state.
func (x *execution) importNode(ctx context.Context, s plan.Step) (string, error) {
	adopter, release, err := x.adopter(ctx, s)
	defer release()
	if err != nil {
		return "", err
	}
	provider, pool, offer := x.offerOf(s)
	node, err := x.intendImport(ctx, s, pool, offer)
	if err != nil {
		return "", err
	}
	marks := resources.OwnerTags{Installation: x.seen.Installation, Kind: resources.KindNode, ID: node.ID, Provider: node.Provider, Pool: node.Pool,
		Label: node.Labels[0], Hash: node.Hash}
	object, gone, err := x.adopt(ctx, s, adopter, marks)
	if gone {
		return node.ID, errors.Join(err, x.cache.drop(ctx, node.Key()))
	} else if err != nil {
		return node.ID, err
	}
	if err := x.rememberImport(ctx, s); err != nil {
		return node.ID, err
	}
	i := object.Instance
	node.Addresses, node.Zone, node.Cloud, node.Region, node.HostID, node.Hostname = i.Addresses, i.Zone, i.Cloud, i.Region, i.HostID, i.Name
	if i.Resources.Instances > 0 {
		node.Resources = i.Resources
	}
	if err := x.scanImported(ctx, s, node, provider, offer); err != nil {
		node.Error = err.Error()
		return node.ID, errors.Join(fmt.Errorf("import %s: %w", s.External, err), x.cache.put(ctx, node))
	}
	node.State, node.Importing, node.StateTime, node.Error = node.Importing, "", x.Now(), ""
	if node.State == resources.StateHold {
		node.Comment = "imported"
	}
	op := x.cache.ops([]resources.Record{node})[0]
	op.Release = x.cache.claims.store != nil
	_, err = x.cache.commit(ctx, "", []state.Op{op})
	return node.ID, err
}

// offerOf returns the configured provider, pool and offer of a step; each is nil if it is not configured.
func (x *execution) offerOf(s plan.Step) (provider *resources.Provider, pool *resources.Pool, offer *resources.Offer) {
	provider, _ = x.Desired.Provider(s.Provider)
	if provider == nil {
		return nil, nil, nil
	}
	i := slices.IndexFunc(provider.Pools, func(p resources.Pool) bool { return p.Name == s.Pool })
	if i < 0 {
		return provider, nil, nil
	}
	return provider, &provider.Pools[i], provider.Pools[i].Offer(s.Label)
}

// intendImport writes the record of the node, or claims that of an unfinished import. Its state and hash make it a node
// like any other: a change of the label replaces it once it is ready.
func (x *execution) intendImport(ctx context.Context, s plan.Step, pool *resources.Pool, offer *resources.Offer) (*resources.Node, error) {
	key := s.Record
	if key.Kind == "" {
		if offer == nil {
			return nil, fmt.Errorf("pool %s of provider %s does not offer label %s", s.Pool, s.Provider, s.Label)
		}
		now := x.Now()
		node := &resources.Node{State: resources.StateBuilding, StateTime: now, Created: now, Provider: s.Provider, Pool: s.Pool,
			Labels: []string{s.Label}, Hash: offer.Hashes.Current(), Attributes: pool.NodeAttributes, ExternalID: s.External,
			Importing: s.Becomes, Login: x.loginOf(s.Provider, offer), Resources: resources.ResourceAmounts{Instances: 1}}
		for i := range x.seen.Providers[s.Provider].Instances {
			if instance := &x.seen.Providers[s.Provider].Instances[i]; instance.ID == s.External {
				node.Hostname = instance.Name
			}
		}
		if x.cache.claims.store != nil {
			node.State = resources.StateInit // other processes ignore it until it is claimed
		}
		if err := x.cache.putFor(ctx, s.ID, append([]resources.Record{node}, x.cache.template(node.Hash, offer.Static, nil)...)...); err != nil {
			return nil, err
		}
		key = node.Key()
	}
	node, at := find[resources.Node](x.cache, key)
	if node == nil {
		return nil, fmt.Errorf("%s: %w", key, errChanged)
	}
	if s.Record.Kind != "" {
		if err := x.asPlanned(s, at); err != nil {
			return nil, err
		}
	}
	node.State = resources.StateBuilding
	return node, x.cache.claim(ctx, s.ID, node, at)
}

// loginOf returns the login of nodes that boot from the image of an offer.
func (x *execution) loginOf(provider string, offer *resources.Offer) resources.Login {
	p, _ := x.Desired.Provider(provider)
	if img := x.Desired.Image(offer.Image.Name); img != nil && offer.Image.Kind != resources.CloudImage {
		return img.LoginIn(p)
	}
	for i := range p.CloudImages {
		if p.CloudImages[i].Name == offer.Image.Name {
			return p.CloudImages[i].Login
		}
	}
	return resources.Login{}
}

// scanImported reads the host keys of an imported server. A server that becomes ready must answer as a launched one;
// one on hold may not.
func (x *execution) scanImported(ctx context.Context, s plan.Step, node *resources.Node, provider *resources.Provider, offer *resources.Offer) error {
	how := probeOf(node.Login)
	var reach drivers.Reach
	if offer != nil {
		if err := schema.Decode(offer.Config, &reach); err != nil {
			return fmt.Errorf("%w: %w", drivers.ErrRejected, err)
		}
	}
	if how == probeNone || offer == nil || !reach.HostKeyChecking {
		return nil
	}
	if node.Importing == resources.StateReady {
		instance := resources.Instance{Addresses: node.Addresses}
		l := &nodeLaunch{x: x, step: s, provider: provider, offer: offer, node: node}
		err := l.awaitReachable(ctx, &instance)
		node.HostKeys = instance.HostKeys
		return err
	}
	port := cmp.Or(node.Login.ConnectionPort, defaultPorts[how])
	if keys, err := x.probe(ctx, how, net.JoinHostPort(node.Addresses.Interface, strconv.FormatInt(port, 10))); err == nil {
		node.HostKeys, node.VerifiedAt = keys, x.Now()
	}
	return nil
}

// rememberImport records the ID of an imported object in the record of its provider, so that its import has no effect
// after the object is gone.
func (x *execution) rememberImport(ctx context.Context, s plan.Step) error {
	release, err := x.slots.acquire(ctx, "record of provider "+s.Provider, 1)
	if err != nil {
		return err
	}
	defer release()
	record, known := get[resources.ProviderRecord](x.cache, resources.Key{Kind: resources.KindProvider, ID: s.Provider})
	if !known || slices.Contains(record.Imported, s.External) {
		return nil
	}
	record.Imported = append(slices.Clone(record.Imported), s.External)
	return x.cache.put(ctx, record)
}

// stillImported returns the IDs that imports of the configuration still name.
func stillImported(e *Engine, provider string, ids []string) (kept []string) {
	for _, id := range ids {
		named := func(i resources.Import) bool { return i.Provider == provider && i.ID == id }
		if slices.ContainsFunc(e.Desired.Imports, named) {
			kept = append(kept, id)
		}
	}
	return kept
}

// importImage makes an image of another owner an upload of a build without files: the records, the ownership tags, the
// final state.
func (x *execution) importImage(ctx context.Context, s plan.Step) (string, error) {
	adopter, release, err := x.adopter(ctx, s)
	defer release()
	if err != nil {
		return "", err
	}
	upload, err := x.intendImageImport(ctx, s)
	if err != nil {
		return "", err
	}
	marks := resources.OwnerTags{Installation: x.seen.Installation, Kind: resources.KindUpload, ID: upload.ID, Provider: upload.Provider,
		Image: upload.Image, Build: upload.Build, Hash: upload.Hash}
	object, gone, err := x.adopt(ctx, s, adopter, marks)
	if gone {
		return upload.ID, errors.Join(err, x.dropImageImport(ctx, upload))
	} else if err != nil {
		return upload.ID, err
	}
	if err := x.rememberImport(ctx, s); err != nil {
		return upload.ID, err
	}
	upload.State, upload.StateTime, upload.Importing = resources.StateReady, x.Now(), false
	upload.Name, upload.Size, upload.Format = object.Image.Name, object.Image.Size, object.Image.Format
	if err := x.cache.put(ctx, upload); err != nil {
		return upload.ID, err
	}
	x.results.add(s.Image, s.Provider, upload.ID)
	return upload.ID, nil
}

// intendImageImport writes the records of the upload and, unless it exists, its build, in one commit.
func (x *execution) intendImageImport(ctx context.Context, s plan.Step) (*resources.Upload, error) {
	if s.Record.Kind != "" {
		if err := x.claimRecord(ctx, s); err != nil {
			return nil, err
		}
		upload, ok := get[resources.Upload](x.cache, s.Record)
		if !ok {
			return nil, fmt.Errorf("%s: %w", s.Record, errChanged)
		}
		return upload, nil
	}
	img := x.Desired.Image(s.Image)
	if img == nil {
		return nil, fmt.Errorf("image %s is not configured", s.Image)
	}
	provider, _ := x.Desired.Provider(s.Provider)
	object := x.seen.Providers[s.Provider].Imports[plan.ImportKey{Kind: resources.KindUpload, ID: s.External}].Image
	// The builds of one image must not be created twice by imports into several providers.
	release, err := x.slots.acquire(ctx, "build "+s.Build, 1)
	if err != nil {
		return nil, err
	}
	defer release()
	now := x.Now()
	build, exists := get[resources.Build](x.cache, resources.Key{Kind: resources.KindBuild, ID: s.Build})
	var records []resources.Record
	if !exists {
		inputs := x.seen.Inputs[img.Name]
		build = &resources.Build{ID: s.Build, Image: img.Name, Kind: img.Kind, State: resources.StateReady, StateTime: object.Created, Created: now,
			Builder: img.Builder, HostID: x.seen.BuilderID, Hash: plan.ImageHashes(img.Hashes, inputs.Hash).Current(), Login: img.Login, Imported: true}
		if build.StateTime.IsZero() {
			build.StateTime = now
		}
		records = append([]resources.Record{build}, x.cache.template(build.Hash, img.Static, inputs.Files)...)
	}
	upload := &resources.Upload{Image: img.Name, Build: build.ID, Provider: s.Provider, State: resources.StateUploading, StateTime: now, Created: now,
		Format: s.Format, ExternalID: s.External, Name: object.Name, Size: object.Size, Hash: build.Hash, Login: img.LoginIn(provider), Importing: true}
	return upload, x.cache.putFor(ctx, s.ID, append(records, upload)...)
}

// dropImageImport removes the records of an import that can never succeed.
func (x *execution) dropImageImport(ctx context.Context, upload *resources.Upload) error {
	keys := []resources.Key{upload.Key()}
	others := slices.ContainsFunc(all[resources.Upload](x.cache), func(u *resources.Upload) bool { return u.Build == upload.Build && u.ID != upload.ID })
	if !others {
		keys = append(keys, resources.Key{Kind: resources.KindBuild, ID: upload.Build})
	}
	return x.cache.drop(ctx, keys...)
}
