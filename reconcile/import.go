package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// lookUpImports adds to the view the objects that the imports of a provider name, except the imported ones.
func (e *Engine) lookUpImports(ctx context.Context, name string, cloud drivers.Cloud, there expectedIDs, record *resources.ProviderRecord, view *plan.ProviderView) error {
	var imported []string
	if record != nil {
		imported = record.Imported
	}
	view.Imports = map[plan.ImportKey]plan.ImportView{}
	adopter, able := drivers.AdopterOf(cloud)
	for i := range e.Desired.Imports {
		one := &e.Desired.Imports[i]
		if one.Provider != name || there.servers[one.ID] || there.images[one.ID] || slices.Contains(imported, one.ID) {
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

// errTaken is the error of an import if the object is gone, or has another owner, since the plan.
var errTaken = fmt.Errorf("%w: the object has changed since the plan", drivers.ErrRejected)

// importStep imports one object.
type importStep struct {
	x       *execution
	step    plan.Step
	adopter drivers.Adopter
}

// adopter opens the provider of a step.
func (x *execution) adopter(ctx context.Context, s plan.Step) (drivers.Adopter, func(), error) {
	cloud, release, err := x.cloud(ctx, s.Provider, x.cache.provider(s.Provider))
	if err != nil {
		return nil, release, err
	}
	adopter, able := drivers.AdopterOf(cloud)
	if !able {
		return nil, release, fmt.Errorf("change ownership tags in provider %s: %w", s.Provider, drivers.ErrNotSupported)
	}
	return adopter, release, nil
}

// adopt reads the object of an import and writes our tags. gone is true if the object can never be imported.
func (im *importStep) adopt(ctx context.Context, marks resources.OwnerTags) (object resources.ExistingObject, gone bool, err error) {
	object, found, err := im.adopter.LookUp(ctx, marks.Kind, im.step.External)
	switch {
	case err != nil:
		return object, rejected(err), err
	case !found:
		return object, true, fmt.Errorf("import %s: %w: the cloud no longer has it", im.step.External, errTaken)
	}
	var replaced resources.OwnerTags // those of a lost record of this installation, which the plan showed
	had := object.Facts().Marks
	if record, _ := im.x.cache.record(resources.Key{Kind: had.Kind, ID: had.ID}); had.Installation == marks.Installation && record == nil {
		replaced = had
	}
	if err := im.x.cache.claims.awaitConnected(ctx, im.step.ID); err != nil {
		return object, false, err
	}
	err = im.adopter.Adopt(ctx, im.step.External, marks, replaced)
	if errors.Is(err, drivers.ErrNotOurs) {
		return object, true, fmt.Errorf("import %s: %w: %w", im.step.External, errTaken, err)
	}
	return object, rejected(err), err
}

// importNode makes a server of another owner a node: the record, the ownership tags, the final state.
func (x *execution) importNode(ctx context.Context, s plan.Step) (string, error) {
	adopter, release, err := x.adopter(ctx, s)
	defer release()
	if err != nil {
		return "", err
	}
	im := &importStep{x, s, adopter}
	provider, pool, offer := im.offerOf()
	node, err := im.intendImport(ctx, pool, offer)
	if err != nil {
		return "", err
	}
	marks := resources.OwnerTags{Installation: x.seen.Installation, Kind: resources.KindNode, ID: node.ID, Provider: node.Provider, Pool: node.Pool,
		Label: node.Labels[0], Hash: node.Hash}
	object, gone, err := im.adopt(ctx, marks)
	if gone {
		return node.ID, errors.Join(err, x.cache.drop(ctx, node.Key()))
	} else if err != nil {
		return node.ID, err
	}
	if err := im.rememberImport(ctx); err != nil {
		return node.ID, err
	}
	i := object.Instance
	node.Addresses, node.Zone, node.Cloud, node.Region, node.HostID, node.Hostname = i.Addresses, i.Zone, i.Cloud, i.Region, i.HostID, i.Name
	if i.Resources.Instances > 0 {
		node.Resources = i.Resources
	}
	if err := im.scanImported(ctx, node, provider, offer); err != nil {
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
func (im *importStep) offerOf() (provider *resources.Provider, pool *resources.Pool, offer *resources.Offer) {
	provider, _ = im.x.Desired.Provider(im.step.Provider)
	if provider == nil {
		return nil, nil, nil
	}
	if pool = provider.Pool(im.step.Pool); pool == nil {
		return provider, nil, nil
	}
	return provider, pool, pool.Offer(im.step.Label)
}

// intendImport writes the record of the node, or claims that of an unfinished import. Its state and hash make it a node
// like any other: a change of the label replaces it once it is ready.
func (im *importStep) intendImport(ctx context.Context, pool *resources.Pool, offer *resources.Offer) (*resources.Node, error) {
	key := im.step.Record
	if key.Kind == "" {
		if offer == nil {
			return nil, fmt.Errorf("pool %s of provider %s does not offer label %s", im.step.Pool, im.step.Provider, im.step.Label)
		}
		now := im.x.Now()
		node := &resources.Node{State: resources.StateBuilding, StateTime: now, Created: now, Provider: im.step.Provider, Pool: im.step.Pool,
			Labels: []string{im.step.Label}, Hash: offer.Hashes.Current(), Attributes: pool.NodeAttributes, ExternalID: im.step.External,
			Importing: im.step.Becomes, Login: im.loginOf(offer), Resources: resources.ResourceAmounts{Instances: 1}}
		for i := range im.x.seen.Providers[im.step.Provider].Instances {
			if instance := &im.x.seen.Providers[im.step.Provider].Instances[i]; instance.ID == im.step.External {
				node.Hostname = instance.Name
			}
		}
		if im.x.cache.claims.store != nil {
			node.State = resources.StateInit // other processes ignore it until it is claimed
		}
		if err := im.x.cache.putFor(ctx, im.step.ID, append([]resources.Record{node}, im.x.cache.template(node.Hash, offer.Static, nil)...)...); err != nil {
			return nil, err
		}
		key = node.Key()
	}
	node, at := find[resources.Node](im.x.cache, key)
	if node == nil {
		return nil, fmt.Errorf("%s: %w", key, errChanged)
	}
	if im.step.Record.Kind != "" {
		if err := im.x.asPlanned(im.step, at); err != nil {
			return nil, err
		}
	}
	node.State = resources.StateBuilding
	return node, im.x.cache.claim(ctx, im.step.ID, node, at)
}

// loginOf returns the login of nodes that boot from the image of an offer.
func (im *importStep) loginOf(offer *resources.Offer) resources.Login {
	p, _ := im.x.Desired.Provider(im.step.Provider)
	if img := im.x.Desired.Image(offer.Image.Name); img != nil && offer.Image.IsUploaded() {
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
func (im *importStep) scanImported(ctx context.Context, node *resources.Node, provider *resources.Provider, offer *resources.Offer) error {
	how := probeOf(node.Login)
	if check, err := checksHostKeys(offer); how == probeNone || !check {
		return err
	}
	if node.Importing == resources.StateReady {
		instance := resources.Instance{Addresses: node.Addresses}
		l := &nodeLaunch{x: im.x, step: im.step, provider: provider, offer: offer, node: node}
		err := l.awaitReachable(ctx, &instance)
		node.HostKeys = instance.HostKeys
		return err
	}
	port := cmp.Or(node.Login.ConnectionPort, defaultPorts[how])
	if keys, err := im.x.probe(ctx, how, net.JoinHostPort(node.Addresses.Interface, strconv.FormatInt(port, 10))); err == nil {
		node.HostKeys, node.VerifiedAt = keys, im.x.Now()
	}
	return nil
}

// rememberImport records the ID of an imported object in the record of its provider, so that its import has no effect
// after the object is gone.
func (im *importStep) rememberImport(ctx context.Context) error {
	release, err := im.x.slots.acquire(ctx, "record of provider "+im.step.Provider, 1)
	if err != nil {
		return err
	}
	defer release()
	record, known := get[resources.ProviderRecord](im.x.cache, resources.Key{Kind: resources.KindProvider, ID: im.step.Provider})
	if !known || slices.Contains(record.Imported, im.step.External) {
		return nil
	}
	record.Imported = append(slices.Clone(record.Imported), im.step.External)
	return im.x.cache.put(ctx, record)
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
	im := &importStep{x, s, adopter}
	upload, err := im.intendImageImport(ctx)
	if err != nil {
		return "", err
	}
	marks := resources.OwnerTags{Installation: x.seen.Installation, Kind: resources.KindUpload, ID: upload.ID, Provider: upload.Provider,
		Image: upload.Image, Build: upload.Build, Hash: upload.Hash}
	object, gone, err := im.adopt(ctx, marks)
	if gone {
		return upload.ID, errors.Join(err, im.dropImageImport(ctx, upload))
	} else if err != nil {
		return upload.ID, err
	}
	if err := im.rememberImport(ctx); err != nil {
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
func (im *importStep) intendImageImport(ctx context.Context) (*resources.Upload, error) {
	if im.step.Record.Kind != "" {
		if err := im.x.claimRecord(ctx, im.step); err != nil {
			return nil, err
		}
		upload, ok := get[resources.Upload](im.x.cache, im.step.Record)
		if !ok {
			return nil, fmt.Errorf("%s: %w", im.step.Record, errChanged)
		}
		return upload, nil
	}
	img := im.x.Desired.Image(im.step.Image)
	if img == nil {
		return nil, fmt.Errorf("image %s is not configured", im.step.Image)
	}
	provider, _ := im.x.Desired.Provider(im.step.Provider)
	object := im.x.seen.Providers[im.step.Provider].Imports[plan.ImportKey{Kind: resources.KindUpload, ID: im.step.External}].Image
	// The builds of one image must not be created twice by imports into several providers.
	release, err := im.x.slots.acquire(ctx, "build "+im.step.Build, 1)
	if err != nil {
		return nil, err
	}
	defer release()
	now := im.x.Now()
	build, exists := get[resources.Build](im.x.cache, resources.Key{Kind: resources.KindBuild, ID: im.step.Build})
	var records []resources.Record
	if !exists {
		inputs := im.x.seen.Inputs[img.Name]
		build = &resources.Build{ID: im.step.Build, Image: img.Name, Kind: img.Kind, State: resources.StateReady, StateTime: object.Created, Created: now,
			Builder: img.Builder, HostID: im.x.seen.BuilderID, Hash: plan.ImageHashes(img.Hashes, inputs.Hash).Current(), Login: img.Login, Imported: true}
		if build.StateTime.IsZero() {
			build.StateTime = now
		}
		records = append([]resources.Record{build}, im.x.cache.template(build.Hash, img.Static, inputs.Files)...)
	}
	upload := &resources.Upload{Image: img.Name, Build: build.ID, Provider: im.step.Provider, State: resources.StateUploading, StateTime: now, Created: now,
		Format: im.step.Format, ExternalID: im.step.External, Name: object.Name, Size: object.Size, Hash: build.Hash, Login: img.LoginIn(provider), Importing: true}
	return upload, im.x.cache.putFor(ctx, im.step.ID, append(records, upload)...)
}

// dropImageImport removes the records of an import that can never succeed.
func (im *importStep) dropImageImport(ctx context.Context, upload *resources.Upload) error {
	keys := []resources.Key{upload.Key()}
	others := slices.ContainsFunc(all[resources.Upload](im.x.cache), func(u *resources.Upload) bool { return u.Build == upload.Build && u.ID != upload.ID })
	if !others {
		keys = append(keys, resources.Key{Kind: resources.KindBuild, ID: upload.Build})
	}
	return im.x.cache.drop(ctx, keys...)
}
