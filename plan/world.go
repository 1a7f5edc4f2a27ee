package plan

import (
	"cmp"
	"slices"

	"github.com/npctl/npctl/resources"
)

// world is what was observed, joined: each record with what its cloud shows of it.
type world struct {
	providers map[string]*resources.Provider // desired, by name
	sites     []*site                        // desired pools, in the order of the configuration
	site      map[poolKey]*site
	views     map[string]*ProviderView       // of providers that answered and are not frozen
	images    map[string]*resources.Image    // desired, by name
	builds    map[string][]*resources.Build  // by image, newest first
	build     map[string]*resources.Build    // by id
	uploads   map[string][]*resources.Upload // by image, newest build first
	nodes     map[string][]*resources.Node   // by provider, by id
	node      map[string]*resources.Node     // by id
	upload    map[string]*resources.Upload   // by id
	image     map[string]*resources.ImageRecord
	instances map[string]*resources.Instance // of nodes, by node id
	remote    map[string]resources.RemoteImage
	strays    []stray            // ours, without a record
	parts     map[string][]stray // ports, floating IPs and volumes of nodes, by node id
	files     map[string]bool
	owned     map[string][]*resources.Node // by request that waits or is fulfilled, by id
	requests  map[string]*resources.Request
	names     []string        // every provider, configured or remembered
	ours      map[string]bool // the same, where the store is shared; otherwise nil: all are
}

// stray is a thing in a cloud, or without a provider a file in our images directory, that carries our marks and belongs to no record.
type stray struct {
	provider string
	kind     string // server, image, port, floating_ip, volume
	id       string
	name     string
	marks    resources.Marks
	of       resources.Key // the record that has another one, for duplicates
	inUse    bool          // by something that is there
}

// newWorld joins what was observed. declared is what is configured, also when nothing of it is wanted.
func newWorld(declared, want resources.Desired, seen Observed) *world {
	w := &world{
		providers: map[string]*resources.Provider{},
		images:    map[string]*resources.Image{},
		builds:    map[string][]*resources.Build{},
		build:     map[string]*resources.Build{},
		uploads:   map[string][]*resources.Upload{},
		nodes:     map[string][]*resources.Node{},
		node:      make(map[string]*resources.Node, len(seen.Records.Nodes)),
		upload:    map[string]*resources.Upload{},
		views:     map[string]*ProviderView{},
		image:     map[string]*resources.ImageRecord{},
		instances: make(map[string]*resources.Instance, len(seen.Records.Nodes)),
		remote:    map[string]resources.RemoteImage{},
		files:     map[string]bool{},
		parts:     map[string][]stray{},
		owned:     map[string][]*resources.Node{},
		requests:  map[string]*resources.Request{},
	}
	w.indexDesired(want)
	if seen.Shared {
		w.ours = ownProviders(declared, seen.Records)
	}
	w.indexRecords(seen.Records)
	for name := range seen.Providers { // also one without any record: something of ours may be there all the same
		w.names = append(w.names, name)
	}
	slices.Sort(w.names)
	w.names = slices.Compact(w.names)
	for _, f := range seen.Files {
		w.files[f.Name] = true
		id := BuildIDOfFile(f.Name)
		if id != "" && w.build[id] == nil && seen.FilesOf == seen.Installation && seen.Installation != "" {
			w.strays = append(w.strays, stray{kind: "file", id: f.Name, name: f.Name, marks: resources.Marks{Kind: resources.KindBuild, ID: id}})
		}
	}
	for _, name := range w.names {
		if view, ok := seen.Providers[name]; ok && view.Err == "" && !seen.Frozen[name] {
			w.views[name] = &view
			w.join(name, &view, seen.Installation)
		}
	}
	return w
}

func (w *world) indexDesired(want resources.Desired) {
	for i := range want.Providers {
		w.providers[want.Providers[i].Name] = &want.Providers[i]
	}
	for i := range want.Images {
		w.images[want.Images[i].Name] = &want.Images[i]
	}
	w.sites, w.site = newSites(want)
}

func (w *world) indexRecords(r Records) {
	for _, b := range r.Builds {
		w.builds[b.Image] = append(w.builds[b.Image], b)
		w.build[b.ID] = b
	}
	for _, list := range w.builds {
		slices.SortFunc(list, newestBuild)
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
		if w.others(n.Provider) {
			continue
		}
		if w.owns(n) {
			w.owned[n.Request] = append(w.owned[n.Request], n)
		}
		w.nodes[n.Provider] = append(w.nodes[n.Provider], n)
		known[n.Provider] = true
	}
	for _, u := range r.Uploads {
		if !w.others(u.Provider) {
			known[u.Provider] = true
		}
	}
	byID := func(a, b *resources.Node) int { return cmp.Compare(a.ID, b.ID) }
	for _, list := range w.nodes {
		if !slices.IsSortedFunc(list, byID) { // they are, where the records came from a store
			slices.SortFunc(list, byID)
		}
	}
	for name := range known {
		w.names = append(w.names, name)
	}
	slices.Sort(w.names)
}

// ownProviders are those that are configured, or that something of ours was made in.
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

// others reports whether a provider is another process's alone.
func (w *world) others(provider string) bool { return w.ours != nil && !w.ours[provider] }

// owns reports whether a request still counts on the node.
func (w *world) owns(n *resources.Node) bool {
	if n.Request == "" || n.State == resources.StateInUse || n.State == resources.StateUsed || n.State == resources.StateHold {
		return false
	}
	r := w.requests[n.Request]
	if r == nil || r.State != resources.StatePending && r.State != resources.StateFulfilled {
		return false
	}
	if r.State == resources.StateFulfilled && slices.Contains(r.Nodes, n.ID) {
		return true
	}
	zone := r.Place.Zone == "" || n.Zone == "" || r.Place.Zone == n.Zone // another one is from before the pool's zone was given up
	return zone && r.Place.Provider == n.Provider && r.Place.Pool == n.Pool
}

func newestBuild(a, b *resources.Build) int {
	return cmp.Or(b.StateTime.Compare(a.StateTime), cmp.Compare(a.ID, b.ID))
}

// newestUpload orders by the age of what was uploaded, not of the upload: a late retry of an old build is still old.
func (w *world) newestUpload(a, b *resources.Upload) int {
	if x, y := w.build[a.Build], w.build[b.Build]; x != nil && y != nil && x != y {
		return newestBuild(x, y)
	}
	return cmp.Or(b.StateTime.Compare(a.StateTime), cmp.Compare(b.ID, a.ID))
}

// join finds what each record of the provider has in the cloud, and what there is without a record. Two providers may
// lead into the same project: what belongs to a record of the other one is the other one's to judge.
func (w *world) join(provider string, view *ProviderView, installation string) {
	adopted := w.adopted(provider)
	for k := range view.Instances {
		i := &view.Instances[k]
		if n := adopted[i.ID]; n != nil && i.Marks.Installation == "" && !view.Gone[i.ID] {
			w.instances[n.ID] = i
			continue
		}
		if i.Marks.Installation != installation || installation == "" || view.Gone[i.ID] {
			continue
		}
		s := stray{provider: provider, kind: "server", id: i.ID, name: i.Name, marks: i.Marks}
		if i.Marks.Kind == resources.KindBuild {
			w.strays = append(w.strays, w.ofBuild(s))
			continue
		}
		n := w.node[i.Marks.ID]
		switch before := w.instances[i.Marks.ID]; {
		case n == nil:
			w.strays = append(w.strays, s)
		case n.Provider != provider:
		case n.ExternalID != "" && n.ExternalID != i.ID:
			s.of = n.Key()
			w.strays = append(w.strays, s)
		case before != nil && before.ID < i.ID: // two, and the record knows neither: the lower id stays, whichever order
			s.of = n.Key()
			w.strays = append(w.strays, s)
		case before != nil:
			w.strays = append(w.strays, stray{provider: provider, kind: "server", id: before.ID, name: before.Name,
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
		s := stray{provider: provider, kind: l.Type, id: l.ID, name: l.Name, marks: l.Marks, inUse: l.InUse && (l.Type != "port" || !view.lacksServer(l.Server))}
		switch n := w.node[l.Marks.ID]; {
		case n == nil:
			w.strays = append(w.strays, s)
		case n.Provider == provider:
			w.parts[n.ID] = append(w.parts[n.ID], s)
		}
	}
}

// lacksServer reports whether the provider was listed without that server: Neutron may name one for a port long after it
// has gone.
func (v *ProviderView) lacksServer(id string) bool {
	return id != "" && !slices.ContainsFunc(v.Instances, func(i resources.Instance) bool { return i.ID == id })
}

// ofBuild is a machine or snapshot that a build was made with. Those are removed when the build ends, so one that is
// there was left by a build that was interrupted.
func (w *world) ofBuild(s stray) stray {
	if b := w.build[s.marks.ID]; b != nil {
		s.of = b.Key()
	}
	return s
}

// adopted are the nodes of a provider that others have launched, such as the Nodepool that had it before, by the cloud's
// id: their servers carry no marks of ours, and the records alone say that they are the provider's.
func (w *world) adopted(provider string) map[string]*resources.Node {
	if w.ours == nil {
		return nil
	}
	adopted := map[string]*resources.Node{}
	for _, n := range w.nodes[provider] {
		if n.Hash == "" && n.ExternalID != "" {
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
		u := w.upload[image.Marks.ID]
		s := stray{provider: provider, kind: "image", id: image.ID, name: image.Name, marks: image.Marks}
		if image.Marks.Kind == resources.KindBuild {
			w.strays = append(w.strays, w.ofBuild(s))
			continue
		}
		switch {
		case u == nil:
			w.strays = append(w.strays, s)
		case u.Provider != provider:
		case u.ExternalID != "" && u.ExternalID != image.ID:
			s.of = u.Key()
			w.strays = append(w.strays, s)
		default:
			w.remote[u.ID] = image
		}
	}
}
