package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// Moves rename blocks without replacing their objects. The planner reads records with earlier names as if
// they had the present ones, so all other planning finds nothing to change, and plans for each such record a step that
// writes the present names.

// MovedRecord returns a record with the present names of moved blocks, and whether it has earlier ones. The hash of a
// node that contains the earlier names becomes the hash with the present ones.
func MovedRecord(want resources.Desired, record resources.Record) (renamed resources.Record, moved bool) {
	renamed, moved = want.Moves.Apply(record)
	n, ok := renamed.(*resources.Node)
	if !ok || n.Hash == "" {
		return renamed, moved
	}
	now, former := hashesOfNode(want, n)
	if len(now) == 0 || now.Same(n.Hash) || !former.Same(n.Hash) {
		return renamed, moved
	}
	if !moved {
		copied := *n
		n = &copied
	}
	n.Hash = now.Current()
	return n, true
}

// hashesOfNode returns the present and the former hashes of the offer or machine of a node.
func hashesOfNode(want resources.Desired, n *resources.Node) (now, former resources.Hashes) {
	p, _ := want.Provider(n.Provider)
	offer, machine := p.SourceOf(n)
	switch {
	case machine != nil:
		return machine.Hashes, machine.Former
	case offer != nil:
		return offer.Hashes, offer.Former
	default:
		return nil, nil
	}
}

// withMoves returns the observed state with the present names, and the records with earlier names by their keys.
func withMoves(want resources.Desired, seen Observed) (Observed, map[resources.Key]resources.Record) {
	if len(want.Moves) == 0 {
		return seen, nil
	}
	moved := map[resources.Key]resources.Record{}
	records := seen.Records
	for _, record := range seen.Records.movable() {
		renamed, changed := MovedRecord(want, record)
		if !changed {
			continue
		}
		if len(moved) == 0 {
			records = seen.Records.Clone()
		}
		before, after := record.Key(), renamed.Key()
		moved[before] = record
		switch {
		case before == after:
			records.Put(renamed, seen.Records.Revisions[before])
		case seen.Records.Get(after) != nil: // an interrupted run has written it
			records.Drop(before)
		default:
			records.Drop(before)
			records.Put(renamed, seen.Records.Revisions[before])
		}
	}
	seen.Records = records
	views := maps.Clone(seen.Providers)
	frozen := make(map[string]bool, len(seen.Frozen))
	for name := range views {
		if want.Moves.Provider(name) != name { // its objects are in the listing under the present name
			delete(views, name)
		}
	}
	for name, is := range seen.Frozen {
		frozen[want.Moves.Provider(name)] = is || frozen[want.Moves.Provider(name)]
	}
	seen.Providers, seen.Frozen = views, frozen
	seen.RequestedBuilds = slices.Clone(seen.RequestedBuilds)
	for i, image := range seen.RequestedBuilds {
		seen.RequestedBuilds[i] = want.Moves.Image(image)
	}
	return seen, moved
}

// movable lists the records that contain names of blocks.
func (r *Records) movable() (all []resources.Record) {
	for _, p := range r.Providers {
		all = append(all, p)
	}
	for _, i := range r.Images {
		all = append(all, i)
	}
	for _, b := range r.Builds {
		all = append(all, b)
	}
	for _, u := range r.Uploads {
		all = append(all, u)
	}
	for _, n := range r.Nodes {
		all = append(all, n)
	}
	for _, q := range r.Requests {
		all = append(all, q)
	}
	return all
}

// planMoves plans a step for each record with earlier names. All other steps about such a record wait for it.
func planMoves(d *draft) {
	w := d.world
	images := d.sharedImageMoves()
	waiting, unplaced := 0, map[string]bool{}
	for _, key := range slices.SortedFunc(maps.Keys(w.moved), compareKeys) {
		before := w.moved[key]
		after, _ := MovedRecord(w.declared, before)
		switch {
		case w.seen.Shared && key.Kind == resources.KindRequest:
			continue // its requestor wrote the names
		case w.seen.Shared && w.seen.ForeignClaims[key]:
			waiting++
			continue
		case images[imageOf(after)] == moveRefused:
			continue
		case images[imageOf(after)] == moveWaits:
			waiting++
			continue
		}
		if place := placeOfLostHash(w.declared, before, after); w.opt.Moves && place != "" && !unplaced[place] {
			unplaced[place] = true
			d.problems = append(d.problems, Problem{Address: moveAddress(after),
				Text: "the image of its nodes is renamed, and the configuration does not have " + place + ", so the renamed nodes would later be replaced",
				Hint: "if that was renamed too, move it in the same command: npctl state mv FROM TO FROM TO"})
		}
		d.add(moveStep(before, after))
	}
	d.orderSharedMoves()
	switch {
	case waiting > 0 && w.opt.Moves: // nothing would move them later
		d.problems = append(d.problems, Problem{Text: text.Count(waiting, "record with an earlier name is", "records with earlier names are") + " in use by another process, and cannot be moved now",
			Hint: "add a moved block to the configuration: it moves each record when the process releases it"})
	case waiting > 0:
		d.note(Info, "move-waits", "", resources.Source{}, "%s while another process uses or manages them; npctl already treats them as moved",
			text.Count(waiting, "record keeps its earlier name", "records keep their earlier names"))
	}
}

// imageMove is the decision about the builds and uploads of one image in a shared store.
type imageMove int

const (
	moveNow     imageMove = iota
	moveWaits             // another process works on one of them
	moveRefused           // another program would not find them, or delete them
)

// imageOf returns the image of a build or an upload, or "".
func imageOf(record resources.Record) string {
	switch r := record.(type) {
	case *resources.Build:
		return r.Image
	case *resources.Upload:
		return r.Image
	default:
		return ""
	}
}

// sharedImageMoves decides for each image whether its builds and uploads can move in a shared store, where their paths
// contain the names of the image and of the provider. Other programs find them by path, and delete those with names that
// their configuration does not have.
func (d *draft) sharedImageMoves() map[string]imageMove {
	w, decisions := d.world, map[string]imageMove{}
	if !w.seen.Shared {
		return decisions
	}
	for _, key := range slices.SortedFunc(maps.Keys(w.moved), compareKeys) {
		before := w.moved[key]
		after, _ := MovedRecord(w.declared, before)
		image := imageOf(after)
		if image == "" {
			continue
		}
		text, hint := w.moveConflict(before, after)
		switch {
		case text != "":
			decisions[image] = moveRefused
			if p := (Problem{Address: moveAddress(after), Text: text, Hint: hint}); !slices.Contains(d.problems, p) {
				d.problems = append(d.problems, p)
			}
		case w.seen.ForeignClaims[key] || w.busy(key) || w.managedElsewhere(before, image):
			decisions[image] = max(decisions[image], moveWaits)
		}
	}
	return decisions
}

// managedElsewhere reports whether another npctl process moves the record: the builder that manages the image, or one
// that still serves the provider under its earlier name.
func (w *world) managedElsewhere(before resources.Record, image string) bool {
	u, ok := before.(*resources.Upload)
	return OtherBuilder(w.seen, image) != nil || ok && slices.ContainsFunc(w.seen.RegisteredPools, func(p resources.RegisteredPool) bool {
		return !p.Own && p.IsNpctl() && p.Provider == u.Provider && w.declared.Moves.Provider(u.Provider) != u.Provider
	})
}

// moveConflict returns why a build or upload cannot move in a shared store, and the next step, or "".
func (w *world) moveConflict(before, after resources.Record) (reason, hint string) {
	const stop = ", apply the move, write the present names into nodepool.yaml, and start it again"
	if len(w.seen.NodepoolBuilders) > 0 {
		host := w.seen.NodepoolBuilders[0]
		return "nodepool-builder runs on " + host + ": it finds builds and uploads by the names of their image and provider, and deletes those that its configuration does not have",
			"stop nodepool-builder on " + host + stop
	}
	switch before := before.(type) {
	case *resources.Build:
		if strings.Contains(before.ID, "/") && before.Image != after.(*resources.Build).Image {
			return "build " + before.ID + " has a number instead of an ID, as Nodepool before version 9 wrote it, and the number belongs to the earlier name",
				"rename the image when newer builds have replaced this one"
		}
	case *resources.Upload:
		to := after.(*resources.Upload)
		moves := func(provider string) bool { return provider == before.Provider || provider == to.Provider }
		if p := resources.OtherLauncher(w.seen.RegisteredPools, moves); p != nil {
			return "nodepool-launcher on " + p.Host + " serves provider " + p.Provider + ", and finds uploads by the names of their image and provider",
				"stop nodepool-launcher on " + p.Host + stop
		}
	}
	return "", ""
}

// orderSharedMoves makes moves wait for each other in a shared store: a build for the record of its image, which carries
// the pause; an upload for its build, which takes its uploads along; a node for the upload that it refers to.
func (d *draft) orderSharedMoves() {
	if !d.world.seen.Shared {
		return
	}
	moves := map[resources.Key]string{}
	for i := range d.steps {
		if s := &d.steps[i]; s.Action == ActionMove {
			moves[s.Record] = s.ID
		}
	}
	for i := range d.steps {
		s := &d.steps[i]
		if s.Action != ActionMove {
			continue
		}
		var first resources.Key
		switch before := d.world.moved[s.Record].(type) {
		case *resources.Build:
			first = resources.Key{Kind: resources.KindImage, ID: before.Image}
		case *resources.Upload:
			first = resources.Key{Kind: resources.KindBuild, ID: before.Build}
		case *resources.Node:
			first = resources.Key{Kind: resources.KindUpload, ID: before.Upload}
		}
		if id := moves[first]; id != "" {
			s.Needs = append(s.Needs, id)
		}
	}
}

// placeOfLostHash returns the pool and labels of a node with a renamed image and without a configured offer, or "".
// The hash of such a node keeps the earlier name, and only a move that is still there later can replace it.
func placeOfLostHash(want resources.Desired, before, after resources.Record) string {
	from, ok := before.(*resources.Node)
	if !ok || from.Hash == "" {
		return ""
	}
	n := after.(*resources.Node)
	if now, _ := hashesOfNode(want, n); n.Image == from.Image || len(now) > 0 {
		return ""
	}
	return "label " + strings.Join(n.Labels, ",") + " in pool " + n.Pool + " of provider " + n.Provider
}

func compareKeys(a, b resources.Key) int {
	if a.Kind != b.Kind {
		return slices.Index(resources.Kinds(), a.Kind) - slices.Index(resources.Kinds(), b.Kind)
	}
	return strings.Compare(a.ID, b.ID)
}

// moveStep returns the step that gives a record its present names.
func moveStep(before, after resources.Record) Step {
	key := before.Key()
	s := Step{ID: "move " + key.String(), Reason: ReasonMoved, Record: key, Address: moveAddress(after)}
	s.Preconditions = []Fingerprint{{Subject: "moved " + key.String(), Digest: AttributesOf(before).Digest()}}
	differ := func(name, from, to string) {
		if from != to {
			s.Changes = append(s.Changes, Change{Attribute: name, Before: jsonText(from), After: jsonText(to)})
		}
	}
	switch to := after.(type) {
	case *resources.Node:
		from := before.(*resources.Node)
		s.Kind, s.Provider, s.Pool, s.External = KindMoveNode, to.Provider, to.Pool, to.ExternalID
		differ("provider", from.Provider, to.Provider)
		differ("pool", from.Pool, to.Pool)
		if s.Label = strings.Join(to.Labels, ","); !slices.Equal(from.Labels, to.Labels) {
			s.Changes = append(s.Changes, Change{Attribute: "labels", Before: jsonText(from.Labels), After: jsonText(to.Labels)})
		}
		differ("image", from.Image, to.Image)
		if to.Static {
			s.Node, s.Slot = to.Hostname, to.Slot
			differ("node", from.Hostname, to.Hostname)
		}
	case *resources.Build:
		s.Kind, s.Image, s.Build = KindMoveBuild, to.Image, to.ID
		differ("image", before.(*resources.Build).Image, to.Image)
	case *resources.Upload:
		from := before.(*resources.Upload)
		s.Kind, s.Image, s.Provider, s.External = KindMoveUpload, to.Image, to.Provider, to.ExternalID
		differ("image", from.Image, to.Image)
		differ("provider", from.Provider, to.Provider)
	case *resources.Request:
		from := before.(*resources.Request)
		s.Kind, s.Request, s.Provider = KindMoveRequest, to.ID, to.Placement.Provider
		differ("provider", from.Placement.Provider, to.Placement.Provider)
		differ("pool", from.Placement.Pool, to.Placement.Pool)
	case *resources.ProviderRecord:
		s.Kind, s.Provider = KindMoveRecord, to.Name
		differ("name", before.(*resources.ProviderRecord).Name, to.Name)
	case *resources.ImageRecord:
		s.Kind, s.Image, s.ImageKind = KindMoveRecord, to.Name, to.Kind
		differ("name", before.(*resources.ImageRecord).Name, to.Name)
	}
	return s
}

func moveAddress(after resources.Record) Address {
	switch r := after.(type) {
	case *resources.Node:
		return nodeAddress(r.ID)
	case *resources.Build:
		return imageAddress(r.Kind, r.Image)
	case *resources.Upload:
		return uploadAddress(r.Provider, r.Image)
	case *resources.Request:
		return requestAddress(r.ID)
	case *resources.ImageRecord:
		return imageAddress(r.Kind, r.Name)
	default:
		return ProviderAddress(after.Key().ID)
	}
}

// awaitMoves makes each other step wait for the moves of the records that it may use: its own record and nodes, and the
// builds, uploads and the record of its image and provider.
func (d *draft) awaitMoves() {
	byRecord, byImage, byProvider := map[resources.Key]string{}, map[string][]string{}, map[string][]string{}
	for i := range d.steps {
		s := &d.steps[i]
		switch {
		case s.Action != ActionMove:
		case s.Thing == ThingNode || s.Thing == ThingRequest:
			byRecord[s.Record] = s.ID
		default:
			byRecord[s.Record] = s.ID
			byImage[s.Image] = append(byImage[s.Image], s.ID)
			byProvider[s.Provider] = append(byProvider[s.Provider], s.ID)
		}
	}
	if len(byRecord) == 0 {
		return
	}
	for i := range d.steps {
		s := &d.steps[i]
		if s.Action == ActionMove {
			continue
		}
		needs := slices.Clone(s.Needs)
		for _, key := range append([]resources.Key{s.Record, {Kind: resources.KindRequest, ID: s.Request}}, nodeKeys(s.Nodes)...) {
			if id := byRecord[key]; id != "" {
				needs = append(needs, id)
			}
		}
		if s.Image != "" {
			needs = append(needs, byImage[s.Image]...)
		}
		if s.Provider != "" {
			needs = append(needs, byProvider[s.Provider]...)
		}
		slices.Sort(needs[len(s.Needs):])
		s.Needs = slices.Compact(needs)
	}
}

func nodeKeys(ids []string) (keys []resources.Key) {
	for _, id := range ids {
		keys = append(keys, resources.Key{Kind: resources.KindNode, ID: id})
	}
	return keys
}
