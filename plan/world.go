package plan

import (
	"cmp"
	"slices"

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
	instances    map[string]*resources.Instance // of nodes, by node ID
	remote       map[string]resources.RemoteImage
	leaks        []leak            // with our ownership tags, without a record
	parts        map[string][]leak // ports, floating IPs and volumes of nodes, by node ID
	files        map[string]bool
	requestNodes map[string][]*resources.Node // by ID of the pending or fulfilled request
	requests     map[string]*resources.Request
	names        []string        // all providers that are configured or have records
	ownProviders map[string]bool // in a shared store: providers with a block or a provider record; else nil: all
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
		images:       map[string]*resources.Image{},
		builds:       map[string][]*resources.Build{},
		build:        map[string]*resources.Build{},
		uploads:      map[string][]*resources.Upload{},
		nodes:        map[string][]*resources.Node{},
		node:         make(map[string]*resources.Node, len(seen.Records.Nodes)),
		upload:       map[string]*resources.Upload{},
		views:        map[string]*ProviderView{},
		image:        map[string]*resources.ImageRecord{},
		instances:    make(map[string]*resources.Instance, len(seen.Records.Nodes)),
		remote:       map[string]resources.RemoteImage{},
		files:        map[string]bool{},
		parts:        map[string][]leak{},
		requestNodes: map[string][]*resources.Node{},
		requests:     map[string]*resources.Request{},
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
		if !seen.ownsFiles() {
			continue
		}
		if id := BuildIDOfFile(f.Name); id != "" && w.build[id] == nil {
			w.leaks = append(w.leaks, leak{kind: "file", id: f.Name, name: f.Name, marks: resources.OwnerTags{Kind: resources.KindBuild, ID: id}})
		}
	}
	for _, name := range w.names {
		if view, ok := seen.Providers[name]; ok && view.Err == "" && !seen.Frozen[name] {
			w.views[name] = &view
			w.join(name, &view, seen.Installation)
		}
	}
	w.resolveOffers()
	w.withPeers(seen.RegisteredPools, seen.Frozen)
	return w
}

func (w *world) indexDesired(want resources.Desired) {
	for i := range want.Providers {
		w.providers[want.Providers[i].Name] = &want.Providers[i]
	}
	for i := range want.Images {
		w.images[want.Images[i].Name] = &want.Images[i]
	}
	w.pools, w.poolByKey = newPoolStates(want)
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
	}
	for _, list := range w.uploads {
		slices.SortFunc(list, w.newestUpload)
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
	if n.Request == "" || n.State.IsInService() || n.State == resources.StateUsed {
		return false
	}
	r := w.requests[n.Request]
	if r == nil || r.State != resources.StatePending && r.State != resources.StateFulfilled {
		return false
	}
	if r.State == resources.StateFulfilled && slices.Contains(r.Nodes, n.ID) {
		return true
	}
	zone := r.Placement.Zone == "" || n.Zone == "" || r.Placement.Zone == n.Zone // a node in another zone is older than its decline
	return zone && r.Placement.Provider == n.Provider && r.Placement.Pool == n.Pool
}

// newestUpload orders by the age of the build.
func (w *world) newestUpload(a, b *resources.Upload) int {
	return resources.CompareUploads(a, b, func(id string) *resources.Build { return w.build[id] })
}
