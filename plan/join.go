package plan

import (
	"slices"

	"github.com/npctl/npctl/resources"
)

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
		s := leak{provider: provider, kind: l.Type, id: l.ID, name: l.Name, marks: l.Marks, inUse: l.InUse && (l.Type != "port" || !view.lacksServer(l.Server))}
		switch n := w.node[l.Marks.ID]; {
		case n == nil:
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
// that managed it before. Their instances have no ownership tags; only the records assign them to the provider.
func (w *world) adoptedNodes(provider string) map[string]*resources.Node {
	if w.ownProviders == nil {
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
