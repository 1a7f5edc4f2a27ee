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
	p, ok := want.Provider(n.Provider)
	if !ok {
		return nil, nil
	}
	i := slices.IndexFunc(p.Pools, func(pool resources.Pool) bool { return pool.Name == n.Pool })
	if i < 0 {
		return nil, nil
	}
	pool := &p.Pools[i]
	if n.Static {
		for j := range pool.Nodes {
			if pool.Nodes[j].Name == n.Hostname {
				return pool.Nodes[j].Hashes, pool.Nodes[j].Former
			}
		}
		return nil, nil
	}
	for _, label := range n.Labels {
		if offer := pool.Offer(label); offer != nil {
			return offer.Hashes, offer.Former
		}
	}
	return nil, nil
}

// withMoves returns the observed state with the present names, and the records with earlier names by their keys.
func withMoves(want resources.Desired, seen Observed) (Observed, map[resources.Key]resources.Record) {
	if len(want.Moves) == 0 {
		return seen, nil
	}
	moved := map[resources.Key]resources.Record{}
	records := seen.Records.Clone()
	for _, record := range seen.Records.movable() {
		renamed, changed := MovedRecord(want, record)
		if !changed {
			continue
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
		case w.seen.Shared && (key.Kind == resources.KindBuild || key.Kind == resources.KindUpload):
			d.problems = append(d.problems, Problem{Address: moveAddress(after),
				Text: "in ZooKeeper, builds and uploads have the name of their image and provider in their path, and npctl cannot rename them there",
				Hint: "keep the name, or add the new image or provider beside the old one and remove the old one later"})
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
	switch {
	case waiting > 0 && w.opt.Moves: // nothing would move them later
		d.problems = append(d.problems, Problem{Text: text.Count(waiting, "record with an earlier name is", "records with earlier names are") + " in use by another process, and cannot be moved now",
			Hint: "add a moved block to the configuration: it moves each record when the process releases it"})
	case waiting > 0:
		d.note(Info, "move-waits", "", resources.Source{}, "%s until the process that uses them releases them; npctl already treats them as moved",
			text.Count(waiting, "record keeps its earlier name", "records keep their earlier names"))
	}
}

// placeOfLostHash returns the pool and labels of a node whose image is renamed and whose offer is not configured, or "".
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
	s := Step{ID: "move " + key.String(), Action: ActionMove, Reason: ReasonMoved, Record: key, Address: moveAddress(after)}
	s.Preconditions = []Fingerprint{{Subject: "moved " + key.String(), Digest: AttributesOf(before).Digest()}}
	differ := func(name, from, to string) {
		if from != to {
			s.Changes = append(s.Changes, Change{Attribute: name, Before: jsonText(from), After: jsonText(to)})
		}
	}
	switch to := after.(type) {
	case *resources.Node:
		from := before.(*resources.Node)
		s.Thing, s.Provider, s.Pool, s.External = ThingNode, to.Provider, to.Pool, to.ExternalID
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
		s.Thing, s.Image, s.Build = ThingBuild, to.Image, to.ID
		differ("image", before.(*resources.Build).Image, to.Image)
	case *resources.Upload:
		from := before.(*resources.Upload)
		s.Thing, s.Image, s.Provider, s.External = ThingUpload, to.Image, to.Provider, to.ExternalID
		differ("image", from.Image, to.Image)
		differ("provider", from.Provider, to.Provider)
	case *resources.Request:
		from := before.(*resources.Request)
		s.Thing, s.Request, s.Provider = ThingRequest, to.ID, to.Placement.Provider
		differ("provider", from.Placement.Provider, to.Placement.Provider)
		differ("pool", from.Placement.Pool, to.Placement.Pool)
	case *resources.ProviderRecord:
		s.Thing, s.Provider = ThingRecord, to.Name
		differ("name", before.(*resources.ProviderRecord).Name, to.Name)
	case *resources.ImageRecord:
		s.Thing, s.Image, s.ImageKind = ThingRecord, to.Name, to.Kind
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
