package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// world is everything that the planner knows: the desired state, the observed state, the options, and the indexes over
// them that join records with the objects in the clouds. It is built once and read only.
type world struct {
	want     resources.Desired // without objects if everything is to be deleted
	declared resources.Desired // the whole configuration
	seen     Observed
	opt      Options

	providers    map[string]*resources.Provider // desired, by name
	pools        []*poolState                   // desired pools, in the order of the configuration
	poolByKey    map[poolKey]*poolState
	views        map[string]*ProviderView       // of providers that responded and are not frozen
	images       map[string]*resources.Image    // desired, by name
	builds       map[string][]*resources.Build  // by image, newest first
	build        map[string]*resources.Build    // by ID
	uploads      map[string][]*resources.Upload // by image, newest build first
	nodes        map[string][]*resources.Node   // by provider, by ID
	node         map[string]*resources.Node     // by ID
	upload       map[string]*resources.Upload   // by ID
	image        map[string]*resources.ImageRecord
	trials       map[imageAt]Trials
	instances    map[string]*resources.Instance // of nodes, by node ID
	remote       map[string]resources.RemoteImage
	leaks        []leak            // with our ownership tags, without a record
	parts        map[string][]leak // ports, floating IPs and volumes of nodes, by node ID
	files        map[string]bool
	requestNodes map[string][]*resources.Node // by ID of the pending or fulfilled request
	formerNodes  map[string][]*resources.Node // by ID of a request that has left their pool, and may return there
	requests     map[string]*resources.Request
	unneeded     map[string]*resources.UnneededNode // by request
	backing      backingNodes
	names        []string                           // all providers that are configured or have records
	moved        map[resources.Key]resources.Record // records with earlier names of moved blocks
	ownProviders map[string]bool                    // in a shared store: providers with a block or a provider record; else nil: all
}

// leak is an object in a cloud, or without a provider a file in our images directory, that carries our ownership tags
// and belongs to no record.
type leak struct {
	provider string
	kind     string // server, image, port, floating_ip, volume
	id       string
	name     string
	marks    resources.OwnerTags
	of       resources.Key // the record, if it has another object (a duplicate) or is a build
	inUse    bool          // by an existing object
}

// newWorld indexes a configuration and an observation.
func newWorld(declared resources.Desired, seen Observed, opt Options) *world {
	want := declared
	if opt.Destroy {
		want = resources.Desired{Settings: want.Settings, Digests: want.Digests}
	}
	w := &world{
		want: want, declared: declared, seen: seen, opt: opt,

		providers:    map[string]*resources.Provider{},
		poolByKey:    map[poolKey]*poolState{},
		images:       map[string]*resources.Image{},
		builds:       map[string][]*resources.Build{},
		build:        map[string]*resources.Build{},
		uploads:      map[string][]*resources.Upload{},
		nodes:        map[string][]*resources.Node{},
		node:         make(map[string]*resources.Node, len(seen.Records.Nodes)),
		upload:       map[string]*resources.Upload{},
		views:        map[string]*ProviderView{},
		image:        map[string]*resources.ImageRecord{},
		trials:       map[imageAt]Trials{},
		instances:    make(map[string]*resources.Instance, len(seen.Records.Nodes)),
		remote:       map[string]resources.RemoteImage{},
		files:        map[string]bool{},
		parts:        map[string][]leak{},
		requestNodes: map[string][]*resources.Node{},
		formerNodes:  map[string][]*resources.Node{},
		requests:     map[string]*resources.Request{},
		unneeded:     map[string]*resources.UnneededNode{},
		backing:      backingNodesOf(seen.Records.Nodes),
	}
	w.indexDesired(want)
	if seen.Shared {
		w.ownProviders = ownProviders(declared, seen.Records)
	}
	w.indexRecords(seen.Records)
	for name := range seen.Providers { // also one without records: it may contain leaks
		w.names = append(w.names, name)
	}
	slices.Sort(w.names)
	w.names = slices.Compact(w.names)
	for _, f := range seen.Files {
		w.files[f.Name] = true
		if id := BuildIDOfFile(f.Name); id != "" && w.build[id] == nil && seen.hasMade(f) {
			w.leaks = append(w.leaks, leak{kind: "file", id: f.Name, name: f.Name, marks: resources.OwnerTags{Kind: resources.KindBuild, ID: id}})
		}
	}
	for _, name := range w.names {
		if view, ok := seen.Providers[name]; ok && view.Err == "" && !seen.Frozen[name] {
			w.views[name] = &view
			w.join(name, &view, seen.Installation)
			for i := range view.Unneeded {
				w.unneeded[view.Unneeded[i].Request] = &view.Unneeded[i]
			}
		}
	}
	w.resolveOffers()
	return w
}

func (w *world) indexDesired(want resources.Desired) {
	for i := range want.Providers {
		w.providers[want.Providers[i].Name] = &want.Providers[i]
	}
	for i := range want.Images {
		w.images[want.Images[i].Name] = &want.Images[i]
	}
	for i := range want.Providers {
		p := &want.Providers[i]
		for j := range p.Pools {
			s := &poolState{at: poolKey{p.Name, p.Pools[j].Name}, provider: p, pool: &p.Pools[j], offers: map[string]*poolOffer{}, slots: map[string]int64{}}
			for k := range s.pool.Nodes {
				node := &s.pool.Nodes[k]
				for _, label := range node.Labels {
					s.slots[label] += node.Slots
				}
			}
			w.pools, w.poolByKey[s.at] = append(w.pools, s), s
		}
	}
	for i := range w.seen.RegisteredPools {
		p := &w.seen.RegisteredPools[i]
		if s := w.poolByKey[poolKey{p.Provider, p.Pool}]; s != nil && p.Own && !w.seen.Frozen[p.Provider] {
			s.peer = p
		}
	}
}

func (w *world) indexRecords(r Records) {
	for _, b := range r.Builds {
		w.builds[b.Image] = append(w.builds[b.Image], b)
		w.build[b.ID] = b
	}
	for _, list := range w.builds {
		slices.SortFunc(list, resources.CompareBuilds)
	}
	for _, u := range r.Uploads {
		w.uploads[u.Image] = append(w.uploads[u.Image], u)
		w.upload[u.ID] = u
		at := imageAt{u.Image, u.Provider}
		if w.trials[at] == nil {
			w.trials[at] = Trials{}
		}
		w.trials[at].add(u, r)
	}
	for _, list := range w.uploads {
		slices.SortFunc(list, func(a, b *resources.Upload) int {
			if outdated := w.isOutdated(a); a.Build == b.Build && outdated != w.isOutdated(b) { // nodes boot from the other one
				return map[bool]int{true: 1, false: -1}[outdated]
			}
			return resources.CompareUploads(a, b, func(id string) *resources.Build { return w.build[id] })
		})
	}
	known := map[string]bool{}
	for name := range w.providers {
		known[name] = true
	}
	for _, p := range r.Providers {
		known[p.Name] = true
	}
	for _, i := range r.Images {
		w.image[i.Name] = i
	}
	for _, q := range r.Requests {
		w.requests[q.ID] = q
	}
	for _, n := range r.Nodes {
		w.node[n.ID] = n
		if w.isForeign(n.Provider) {
			continue
		}
		if w.owns(n) {
			w.requestNodes[n.Request] = append(w.requestNodes[n.Request], n)
		} else if n.Request != "" && (n.State == resources.StateInit || n.State == resources.StateBuilding || n.State == resources.StateReady) {
			w.formerNodes[n.Request] = append(w.formerNodes[n.Request], n)
		}
		w.nodes[n.Provider] = append(w.nodes[n.Provider], n)
		known[n.Provider] = true
	}
	for _, u := range r.Uploads {
		if !w.isForeign(u.Provider) {
			known[u.Provider] = true
		}
	}
	byID := func(a, b *resources.Node) int { return cmp.Compare(a.ID, b.ID) }
	for _, list := range w.nodes {
		if !slices.IsSortedFunc(list, byID) { // a store returns them sorted
			slices.SortFunc(list, byID)
		}
	}
	for name := range known {
		w.names = append(w.names, name)
	}
	slices.Sort(w.names)
}

// ownProviders returns the providers that are configured or have a provider record.
func ownProviders(declared resources.Desired, r Records) map[string]bool {
	ours := map[string]bool{}
	for i := range declared.Providers {
		ours[declared.Providers[i].Name] = true
	}
	for _, p := range r.Providers {
		ours[p.Name] = true
	}
	return ours
}

// isForeign reports whether a provider belongs to other processes only.
func (w *world) isForeign(provider string) bool {
	return w.ownProviders != nil && !w.ownProviders[provider]
}

// owns reports whether the node is reserved for a pending or fulfilled request.
func (w *world) owns(n *resources.Node) bool {
	return n.Request != "" && Owns(w.requests[n.Request], n)
}

// Owns reports whether a node is reserved for a request, which may be nil. A node of a pool or zone that the request has left, because
// that declined it or stopped responding, is not.
func Owns(r *resources.Request, n *resources.Node) bool {
	if r == nil || n.Request != r.ID || n.State.IsInService() || n.State == resources.StateUsed ||
		r.State != resources.StatePending && r.State != resources.StateFulfilled {
		return false
	}
	if r.State == resources.StateFulfilled && slices.Contains(r.Nodes, n.ID) {
		return true
	}
	zone := r.Placement.Zone == "" || n.Zone == "" || r.Placement.Zone == n.Zone // a node in another zone is older than its decline
	return zone && r.Placement.Provider == n.Provider && r.Placement.Pool == n.Pool
}

// view returns the observed state of the provider. looked is false if it did not respond, was not queried, or is
// frozen.
func (w *world) view(provider string) (view *ProviderView, looked bool) {
	if view, looked = w.views[provider]; looked {
		return view, true
	}
	return &ProviderView{}, false
}

// reachable reports whether the provider may have steps: it responded, or was deliberately not queried.
func (w *world) reachable(provider string) bool {
	if _, looked := w.view(provider); looked {
		return true
	}
	if w.isForeign(provider) {
		return false
	}
	_, asked := w.seen.Providers[provider]
	return !asked && !w.seen.Frozen[provider]
}

// unreachable returns why a provider can have no steps, or nil if it is reachable.
func (w *world) unreachable(provider string) *blocker {
	switch {
	case w.reachable(provider):
		return nil
	case w.seen.Frozen[provider]:
		return frozen
	default:
		return notListed
	}
}

func (w *world) source(provider string) resources.Source {
	if p := w.providers[provider]; p != nil {
		return p.Source
	}
	return resources.Source{}
}

// imageKind returns the block type of an image. Its builds keep the type after the block is removed.
func (w *world) imageKind(name string) resources.ImageKind {
	if img := w.images[name]; img != nil {
		return img.Kind
	}
	if builds := w.builds[name]; len(builds) > 0 {
		return builds[0].Kind
	}
	return ""
}

// busy reports whether a running step or another process works on the record.
func (w *world) busy(key resources.Key) bool {
	return key.Kind != "" && (w.seen.Busy[key] || w.seen.ForeignClaims[key])
}

// because returns the reason, or ReasonDestroy if everything is to be deleted.
func (w *world) because(r Reason) Reason {
	if w.opt.Destroy {
		return ReasonDestroy
	}
	return r
}

// estimate returns the median duration of the newest runs of a subject, in seconds; 0 without a history.
func (w *world) estimate(subject string) float64 {
	i, found := slices.BinarySearchFunc(w.seen.Records.Histories, subject,
		func(h *resources.History, s string) int { return strings.Compare(h.Subject, s) })
	if !found || len(w.seen.Records.Histories[i].Seconds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(w.seen.Records.Histories[i].Seconds))
	return sorted[len(sorted)/2]
}

// join finds the object of each record of the provider, and the objects without a record. Two providers may lead to
// the same cloud project: objects that belong to a record of the other provider are skipped.
func (w *world) join(provider string, view *ProviderView, installation string) {
	adopted := w.adoptedNodes(provider)
	for k := range view.Instances {
		i := &view.Instances[k]
		if n := adopted[i.ID]; n != nil && i.Marks.Installation == "" && !view.DeletedInstances[i.ID] {
			w.instances[n.ID] = i
			continue
		}
		if i.Marks.Installation != installation || installation == "" || view.DeletedInstances[i.ID] {
			continue
		}
		if i.Marks.Kind == resources.KindUpload {
			continue // of no record that has servers
		}
		s := leak{provider: provider, kind: "server", id: i.ID, name: i.Name, marks: i.Marks}
		if i.Marks.Kind == resources.KindBuild {
			w.leaks = append(w.leaks, w.ofBuild(s))
			continue
		}
		n := w.node[i.Marks.ID]
		switch before := w.instances[i.Marks.ID]; {
		case n == nil:
			w.leaks = append(w.leaks, s)
		case n.Provider != provider:
		case n.ExternalID != "" && n.ExternalID != i.ID:
			s.of = n.Key()
			w.leaks = append(w.leaks, s)
		case before != nil && before.ID < i.ID: // two instances and no ID in the record: the lower ID stays, in any order
			s.of = n.Key()
			w.leaks = append(w.leaks, s)
		case before != nil:
			w.leaks = append(w.leaks, leak{provider: provider, kind: "server", id: before.ID, name: before.Name,
				marks: before.Marks, of: n.Key()})
			w.instances[n.ID] = i
		default:
			w.instances[n.ID] = i
		}
	}
	w.joinImages(provider, view, installation)
	for _, l := range view.Leftovers {
		if l.Marks.Installation != installation || installation == "" {
			continue
		}
		s := leak{provider: provider, kind: l.Type, id: l.ID, name: l.Name, marks: l.Marks, inUse: l.InUse && !view.lacksServer(l.Server)}
		switch n := w.node[l.Marks.ID]; {
		case l.Marks.Kind == resources.KindUpload && w.upload[l.Marks.ID] != nil: // a running upload writes it; deleted with the image
		case l.Marks.Kind == resources.KindUpload || n == nil:
			w.leaks = append(w.leaks, s)
		case n.Provider == provider:
			w.parts[n.ID] = append(w.parts[n.ID], s)
		}
	}
}

// lacksServer reports whether the listing does not contain the server. Neutron may name a server for a port long
// after the server is deleted.
func (v *ProviderView) lacksServer(id string) bool {
	return id != "" && !slices.ContainsFunc(v.Instances, func(i resources.Instance) bool { return i.ID == id })
}

// ofBuild adds the build to the leak of an instance or snapshot that a build created. A build deletes them when it
// ends, so an existing one belongs to a running or interrupted build.
func (w *world) ofBuild(s leak) leak {
	if b := w.build[s.marks.ID]; b != nil {
		s.of = b.Key()
	}
	return s
}

// adoptedNodes returns, by instance ID, the nodes of a provider that other programs launched, such as the Nodepool
// that managed it before, and those with an unfinished import. Their instances have no ownership tags; only the records
// assign them to the provider.
func (w *world) adoptedNodes(provider string) map[string]*resources.Node {
	adopted := map[string]*resources.Node{}
	for _, n := range w.nodes[provider] {
		if (n.Hash == "" && w.ownProviders != nil || n.Importing != "") && n.ExternalID != "" {
			adopted[n.ExternalID] = n
		}
	}
	return adopted
}

func (w *world) joinImages(provider string, view *ProviderView, installation string) {
	for _, image := range view.Images {
		if image.Marks.Installation != installation || installation == "" {
			continue
		}
		if image.Marks.Kind == resources.KindNode {
			continue // a backup of a node: npctl makes none
		}
		u := w.upload[image.Marks.ID]
		s := leak{provider: provider, kind: "image", id: image.ID, name: image.Name, marks: image.Marks}
		if image.Marks.Kind == resources.KindBuild {
			w.leaks = append(w.leaks, w.ofBuild(s))
			continue
		}
		switch {
		case u == nil:
			w.leaks = append(w.leaks, s)
		case u.Provider != provider:
		case u.ExternalID != "" && u.ExternalID != image.ID:
			s.of = u.Key()
			w.leaks = append(w.leaks, s)
		default:
			w.remote[u.ID] = image
		}
	}
}

type poolKey struct{ provider, pool string }

func (k poolKey) String() string { return k.provider + "/" + k.pool }

// poolState is a configured pool, with the data that does not depend on a request.
type poolState struct {
	at       poolKey
	provider *resources.Provider
	pool     *resources.Pool
	offers   map[string]*poolOffer     // by label
	slots    map[string]int64          // of static nodes, by label
	peer     *resources.RegisteredPool // its registration, in a shared store
}

// poolOffer is an offer of a pool, with its state in the cloud.
type poolOffer struct {
	*poolState
	offer    *resources.Offer
	each     resources.ResourceAmounts // resources of one node
	zones    []string                  // zones to choose from; none if the cloud chooses
	problems []resources.Problem
}

// resolveOffers sets the offers of all pools with their state in the cloud.
func (w *world) resolveOffers() {
	for _, s := range w.pools {
		view, looked := w.view(s.at.provider)
		for i := range s.pool.Offers {
			offer := &s.pool.Offers[i]
			if s.offers[offer.Label] != nil {
				continue
			}
			at := &poolOffer{poolState: s, offer: offer, each: resources.ResourceAmounts{Instances: 1}}
			s.offers[offer.Label] = at
			if !looked {
				continue
			}
			seen := view.Offers[OfferKey{s.at.pool, offer.Label}]
			at.each, at.zones, at.problems = seen.Resources, seen.Zones, seen.Problems
			at.each.Instances = 1
			if offer.Image.Kind == resources.CloudImage {
				at.problems = slices.Concat(at.problems, view.CloudImages[offer.Image.Name].Problems)
			}
		}
	}
}

// offersAny reports whether the pool has one of the labels.
func (s *poolState) offersAny(labels []string) bool {
	return slices.ContainsFunc(labels, func(label string) bool {
		_, exists := s.slots[label]
		return exists || s.offers[label] != nil
	})
}

// problemText describes the error in a name of the configuration.
func problemText(p resources.Problem) string {
	return fmt.Sprintf("%s = %q: %s", p.Attribute, p.Value, p.Detail)
}
