package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// Imports: a server of another owner becomes a node, an image becomes a build with an upload. An import has three
// effects: the record with the ID of the object, the ownership tags of the object, and the final state of the record. A
// record without the final state is an unfinished import; its object belongs to its owner until it has our tags, so it is
// never deleted.

// importPlanner plans the imports of objects that have no record yet.
type importPlanner struct {
	world    *world
	draft    *draft
	capacity *capacity
	builds   map[string]string // by image: the build that the imports of this plan share
}

func planImports(w *world, d *draft, use *capacity) {
	p := &importPlanner{world: w, draft: d, capacity: use, builds: map[string]string{}}
	for i := range w.want.Imports {
		p.plan(&w.want.Imports[i])
	}
}

// plan adds the step of an import, or a problem if the object cannot be imported.
func (p *importPlanner) plan(one *resources.Import) {
	if p.world.providers[one.Provider] == nil {
		p.refuse(one, fmt.Sprintf("provider %s is not configured", one.Provider), suggestion(one.Provider, p.world.configured()))
		return
	}
	view, looked := p.world.view(one.Provider)
	owner, imported := p.recordOf(one)
	switch {
	case imported || !looked || view.DeletedInstances[one.ID]:
		return
	case owner != "":
		p.refuse(one, fmt.Sprintf("%s is %s already", one.ID, owner), "remove the import: the object is managed")
		return
	case p.wasImported(one):
		p.draft.note(Info, "imported-before", Address(one.Address()), one.Source, "%s was imported and is gone; the import can be removed", one.ID)
		return
	}
	object, asked := view.Imports[ImportKey{one.Kind(), one.ID}]
	if !asked {
		return // the import is newer than the listing
	}
	if text, hint := p.refusal(one, view, object); text != "" {
		p.refuse(one, text, hint)
		return
	}
	if one.Kind() == resources.KindUpload {
		p.image(one, object)
		return
	}
	p.server(one, object)
}

func (p *importPlanner) refuse(one *resources.Import, text, hint string) {
	p.draft.problems = append(p.draft.problems, Problem{Address: Address(one.Address()), Provider: one.Provider, Text: "import: " + text, Hint: hint, Source: one.Source})
}

// recordOf returns the record that names the object of an import. imported is true if it is a record of the same
// provider.
func (p *importPlanner) recordOf(one *resources.Import) (owner string, imported bool) {
	for _, n := range p.world.seen.Records.Nodes {
		if n.ExternalID == one.ID && one.Kind() == resources.KindNode && !n.Static {
			return fmt.Sprintf("node %s of provider %s", n.ID, n.Provider), n.Provider == one.Provider
		}
	}
	for _, u := range p.world.seen.Records.Uploads {
		if u.ExternalID == one.ID && one.Kind() == resources.KindUpload {
			return fmt.Sprintf("upload %s of image %s in provider %s", u.ID, u.Image, u.Provider), u.Provider == one.Provider && u.Image == one.Image
		}
	}
	return "", false
}

func (p *importPlanner) wasImported(one *resources.Import) bool {
	return slices.ContainsFunc(p.world.seen.Records.Providers, func(r *resources.ProviderRecord) bool {
		return r.Name == one.Provider && slices.Contains(r.Imported, one.ID)
	})
}

// refusal returns why an object cannot be imported, and the next step of the operator, or "".
func (p *importPlanner) refusal(one *resources.Import, view *ProviderView, object ImportView) (text, hint string) {
	what := map[resources.Kind]string{resources.KindNode: "server", resources.KindUpload: "image"}[one.Kind()]
	marks := object.Facts().Marks
	record := p.world.seen.Records.Get(resources.Key{Kind: marks.Kind, ID: marks.ID})
	switch {
	case object.Err != "":
		return fmt.Sprintf("%s %s could not be read: %s", what, one.ID, object.Err), ""
	case !object.Found:
		return fmt.Sprintf("provider %s has no %s with the ID %q", one.Provider, what, one.ID), nearObjects(one, view)
	case marks.Installation != "" && marks.Installation != p.world.seen.Installation:
		return fmt.Sprintf("%s %s (%s) has the ownership tags of another npctl, installation %s", what, one.ID, object.Facts().Name, marks.Installation),
			"an object belongs to one npctl; import one that has no owner"
	case marks.Installation != "" && marks.Kind == one.Kind() && record != nil, marks.Kind == resources.KindBuild && record != nil:
		return fmt.Sprintf("%s %s (%s) has the ownership tags of %s of this npctl", what, one.ID, object.Facts().Name, resources.Key{Kind: marks.Kind, ID: marks.ID}),
			"it is another object of that record, such as one that is being deleted; npctl state list shows the records"
	case object.Facts().Status != resources.StatusReady:
		return fmt.Sprintf("%s %s (%s) is %s", what, one.ID, object.Facts().Name, object.Facts().Status), "only a running server and an active image can be imported"
	}
	return p.missingTarget(one)
}

// missingTarget returns why nothing in the configuration has the address of an import, or "".
func (p *importPlanner) missingTarget(one *resources.Import) (text, hint string) {
	const write = "; npctl plan -generate-config-out=FILE writes a missing block"
	if one.Kind() == resources.KindUpload {
		if p.world.images[one.Image] != nil {
			return "", ""
		}
		return fmt.Sprintf("image %s is not configured", one.Image), "add a diskimage block" + write
	}
	s := p.world.poolByKey[poolKey{one.Provider, one.Pool}]
	switch {
	case s == nil:
		return fmt.Sprintf("provider %s has no pool %s", one.Provider, one.Pool), "add a pool block" + write
	case s.offers[one.Label] == nil:
		return fmt.Sprintf("pool %s of provider %s does not offer label %s", one.Pool, one.Provider, one.Label), "add a label block to the pool" + write
	default:
		return "", ""
	}
}

// imported returns the IDs of the objects of a provider that the plan imports.
func (d *draft) imported(provider string) map[string]bool {
	ids := map[string]bool{}
	for i := range d.steps {
		if s := &d.steps[i]; s.Action == ActionImport && s.Provider == provider {
			ids[s.External] = true
		}
	}
	return ids
}

// MissingImports returns the imports whose addresses are not configured, with their objects. A configuration can be generated for
// them.
func MissingImports(want resources.Desired, seen Observed) (imports []resources.Import, objects []ImportView) {
	w := newWorld(want, seen, Options{})
	p := &importPlanner{world: w}
	for i := range want.Imports {
		one := &want.Imports[i]
		view, looked := w.view(one.Provider)
		if object := view.Imports[ImportKey{one.Kind(), one.ID}]; looked && object.Found {
			if text, _ := p.missingTarget(one); text != "" {
				imports, objects = append(imports, *one), append(objects, object)
			}
		}
	}
	return imports, objects
}

// nearObjects suggests an ID: of the object with that name, or a similar one.
func nearObjects(one *resources.Import, view *ProviderView) string {
	names := map[string]string{}
	var ids []string
	if one.Kind() == resources.KindNode {
		for i := range view.Instances {
			names[view.Instances[i].Name] = view.Instances[i].ID
			ids = append(ids, view.Instances[i].ID)
		}
	} else {
		for _, i := range view.Images {
			names[i.Name] = i.ID
			ids = append(ids, i.ID)
		}
	}
	if id := names[one.ID]; id != "" {
		return fmt.Sprintf("that is a name; the ID is %s", id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		if len(one.ID) >= 4 && strings.HasPrefix(id, one.ID) {
			return "did you mean " + id + "?"
		}
	}
	if near := text.Nearest(one.ID, ids); near != "" {
		return "did you mean " + near + "?"
	}
	if one.Kind() == resources.KindNode {
		return "list the servers of the project, for example with: openstack server list"
	}
	return "list the images of the project, for example with: openstack image list --private"
}

func suggestion(word string, known []string) string {
	if near := text.Nearest(word, known); near != "" {
		return "did you mean " + near + "?"
	}
	return "add its provider block"
}

func (w *world) configured() (names []string) {
	for i := range w.declared.Providers {
		names = append(names, w.declared.Providers[i].Name)
	}
	return names
}

// step returns the common part of the steps.
func (p *importPlanner) step(one *resources.Import, object ImportView) Step {
	evidence := []Fact{{"name", object.Facts().Name}, {"created", clock(object.Facts().Created)}}
	a := object.Instance.Addresses
	for _, address := range []string{a.PublicIPv4, a.PrivateIPv4, a.PublicIPv6, a.PrivateIPv6} {
		if address != "" {
			evidence = append(evidence, Fact{"address", address})
		}
	}
	marks := object.Facts().Marks
	tags := cmp.Or(object.Program, "none")
	if marks.Installation != "" {
		tags = fmt.Sprintf("this npctl, lost %s %s", marks.Kind, marks.ID)
	}
	evidence = append(evidence, Fact{"tags", tags})
	return Step{ID: "import " + one.ID + " into " + one.Address(), Address: Address(one.Address()), Reason: ReasonNamed,
		Evidence: evidence, Provider: one.Provider, External: one.ID, Source: one.Source,
		Preconditions: []Fingerprint{{Subject: "object " + one.ID, Digest: digest(object.Facts().Name, marks.Installation, string(marks.Kind), marks.ID, object.Program)}}}
}

// server plans the import of a server. It counts like a node that is being launched.
func (p *importPlanner) server(one *resources.Import, object ImportView) {
	s := p.step(one, object)
	s.Kind, s.Pool, s.Label, s.Becomes = KindImportNode, one.Pool, one.Label, one.State
	s.Evidence = append(s.Evidence, Fact{"state", string(one.State)})
	at := p.world.poolByKey[poolKey{one.Provider, one.Pool}].offers[one.Label]
	s.Changes = differences(at, object)
	p.draft.add(s)
	use := p.capacity.pool(one.Provider, one.Pool)
	use.use = use.use.Plus(object.Instance.Resources)
	if one.State == resources.StateReady {
		p.capacity.readyCount[one.Label]++
	}
}

// differences lists the attributes in which a server differs from its label. The server keeps its values.
func differences(at *poolOffer, object ImportView) (changes []Change) {
	for _, name := range []string{"flavor", "key_name", "networks"} {
		want, has := at.offer.Values[name]
		if !has {
			continue
		}
		match := func(value string) bool { return strings.Contains(want, fmt.Sprintf("%q", value)) }
		if have := object.Settings[name]; len(have) > 0 && !slices.ContainsFunc(have, match) {
			changes = append(changes, Change{Attribute: name, Before: strings.Join(have, ", "), After: strings.Trim(want, `"`)})
		}
	}
	return changes
}

// image plans the import of an image. Imports of one image into several providers share a build.
func (p *importPlanner) image(one *resources.Import, object ImportView) {
	s := p.step(one, object)
	img := p.world.images[one.Image]
	s.Kind, s.Image, s.Format = KindImportImage, one.Image, object.Image.Format
	if p.builds[one.Image] == "" {
		p.builds[one.Image] = p.sharedBuild(one)
	}
	s.Build = p.builds[one.Image]
	s.Evidence = append(s.Evidence, Fact{"build", s.Build}, Fact{"format", object.Image.Format})
	for _, b := range p.world.builds[img.Name] {
		if b.State == resources.StateReady && b.StateTime.After(object.Facts().Created) && b.ID != s.Build {
			p.draft.note(Info, "older-build", Address(one.Address()), one.Source, "the image is older than build %s: nodes boot from the newer build, and keep decides how long the image stays", b.ID)
			break
		}
	}
	p.draft.add(s)
}

// sharedBuild returns the imported build that lacks an upload in the provider, or the ID of a new one. That ID depends
// only on the image, so a repeated plan has the same.
func (p *importPlanner) sharedBuild(one *resources.Import) string {
	for _, b := range p.world.builds[one.Image] {
		uploaded := slices.ContainsFunc(p.world.uploads[one.Image], func(u *resources.Upload) bool { return u.Build == b.ID && u.Provider == one.Provider })
		if b.State == resources.StateReady && b.Imported && !uploaded {
			return b.ID
		}
	}
	return digest("import", one.Image, one.Provider, one.ID) + digest(one.ID, one.Provider, one.Image, "import")
}

// imports reports whether an import of the image is planned or unfinished, and resumes it. The next plan has the other
// steps of the image, with the imported build.
func (ip *imagePlanner) imports(img *resources.Image) (importing bool) {
	for _, u := range ip.world.uploads[img.Name] {
		if u.Importing && ip.world.reachable(u.Provider) {
			ip.unfinishedImport(u)
			importing = true
		}
	}
	for i := range ip.draft.steps {
		s := &ip.draft.steps[i]
		if s.Kind == KindImportImage && s.Image == img.Name {
			ip.plannedUploads[imageAt{img.Name, s.Provider}] = s.ID
			importing = true
		}
	}
	return importing
}

// unfinishedImport resumes the import of an image, or removes its record if the image is gone or has another owner.
func (ip *imagePlanner) unfinishedImport(u *resources.Upload) {
	view, looked := ip.world.view(u.Provider)
	if !looked || ip.world.busy(u.Key()) {
		return
	}
	s := Step{Address: uploadAddress(u.Provider, u.Image), Image: u.Image, Build: u.Build, Provider: u.Provider,
		Record: u.Key(), External: u.ExternalID, Format: u.Format, Evidence: []Fact{{"image", u.ExternalID}, {"name", u.Name}}}
	_, tagged := ip.world.remote[u.ID]
	object, asked := view.Imports[ImportKey{resources.KindUpload, u.ExternalID}]
	switch {
	case tagged && (ip.world.images[u.Image] == nil || ip.world.opt.Destroy):
		ip.deleteUpload(u, ip.world.because(ReasonImageRemoved))
		return
	case !tagged && (ip.world.images[u.Image] == nil || ip.world.opt.Destroy):
		s.ID, s.Kind, s.Reason = "forget upload "+u.ID, KindForgetUpload, ip.world.because(ReasonImageRemoved)
	case !tagged && asked && object.Err == "" && !object.Found:
		s.ID, s.Kind, s.Reason = "forget upload "+u.ID, KindForgetUpload, ReasonLost
	case !tagged && asked && object.Facts().Marks.Installation != "":
		s.ID, s.Kind, s.Reason = "forget upload "+u.ID, KindForgetUpload, ReasonNotOurs
	default:
		s.ID, s.Kind, s.Reason = "import upload "+u.ID, KindImportImage, ReasonUnfinished
	}
	ip.draft.add(s)
}

// unfinishedImport resumes the import of a server, or removes its record if the server is gone or has another owner.
func (np *nodePlanner) unfinishedImport(n *resources.Node) {
	np.capacity.count(n)
	view, looked := np.world.view(n.Provider)
	instance, ours := np.world.instances[n.ID] // it has our tags or none
	s := Step{Address: nodeAddress(n.ID), Provider: n.Provider, Pool: n.Pool, Label: strings.Join(n.Labels, ","), Record: n.Key(),
		External: n.ExternalID, Evidence: []Fact{{"server", n.ExternalID}, {"name", n.Hostname}}, Becomes: n.Importing}
	_, removed := np.world.placeOfNode(n)
	foreign := slices.ContainsFunc(view.Instances, func(i resources.Instance) bool { return i.ID == n.ExternalID })
	switch tagged := ours && instance.Marks.Installation != ""; {
	case !looked:
		return
	case tagged && np.world.opt.Destroy:
		np.endNode(n, ReasonDestroy)
		return
	case !ours && foreign && !view.DeletedInstances[n.ExternalID]:
		s.ID, s.Kind, s.Reason = "forget node "+n.ID, KindForgetNode, ReasonNotOurs
	case !ours && n.StateTime.Before(view.ListedAt):
		s.ID, s.Kind, s.Reason = "forget node "+n.ID, KindForgetNode, ReasonLost
	case !tagged && removed != "":
		s.ID, s.Kind, s.Reason = "forget node "+n.ID, KindForgetNode, np.world.because(removed)
	default:
		s.ID, s.Kind, s.Reason = "import node "+n.ID, KindImportNode, ReasonUnfinished
	}
	np.draft.add(s)
	if s.Kind == KindImportNode && n.Importing == resources.StateReady && removed == "" {
		np.capacity.readyCount[n.Labels[0]]++
	}
}

// onlyImports keeps the steps and problems of the imports in Options.Imports, and the notes about their addresses.
func (rv review) onlyImports(p Plan) Plan {
	chosen := map[Address]bool{}
	for i := range rv.world.want.Imports {
		one := &rv.world.want.Imports[i]
		if slices.Contains(rv.world.opt.Imports, ImportKey{one.Kind(), one.ID}) {
			chosen[Address(one.Address())] = true
			chosen[ProviderAddress(one.Provider)] = true
		}
	}
	p.Steps = withNeeds(p.Steps, func(s Step) bool {
		return s.Action == ActionImport && slices.ContainsFunc(rv.world.opt.Imports, func(k ImportKey) bool { return k.ID == s.External })
	})
	p.Problems = slices.DeleteFunc(p.Problems, func(q Problem) bool { return !chosen[q.Address] })
	p.Notes = slices.DeleteFunc(p.Notes, func(n Note) bool { return !chosen[n.Address] && n.Code != CodeInProgress })
	p.Deferred = slices.DeleteFunc(p.Deferred, func(name string) bool { return !chosen[ProviderAddress(name)] })
	p.Unchanged = Unchanged{}
	return p
}
