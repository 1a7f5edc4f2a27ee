package migrate

import (
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
)

// importPlan is what a migration to ZooKeeper writes.
type importPlan struct {
	records  []resources.Record // in their form for ZooKeeper and in the order of writing
	private  []resources.Record // remain in the private file
	requests int                // number of requests, which do not move
	paused   []string           // images that are paused in the file
	frozen   []string           // providers that are frozen in the file
}

// planImport decides what moves from a file. It returns an error if a request is open, unless the records have moved
// already.
func planImport(entries []state.Entry, role bolt.Role) (importPlan, error) {
	var p importPlan
	for _, e := range entries {
		switch r := e.Record.(type) {
		case *resources.Build, *resources.Upload, *resources.Trial, *resources.Node:
			p.records = append(p.records, forZooKeeper(r))
			continue
		case *resources.Request:
			p.requests++
			continue
		case *resources.ImageRecord:
			if r.Paused {
				p.paused = append(p.paused, r.Name)
			}
		case *resources.ProviderRecord:
			if r.Frozen {
				p.frozen = append(p.frozen, r.Name)
			}
		}
		p.private = append(p.private, e.Record)
	}
	sortCargo(p.records)
	if role == bolt.RolePrivate || role == bolt.RoleMigrated {
		return p, nil
	}
	return p, openRequests(entries, func(*resources.Request) bool { return true })
}

// exportInput is the state in ZooKeeper with the private records of this process.
type exportInput struct {
	entries   []state.Entry
	claimed   map[resources.Key]bool // by other processes
	frozen    []string               // providers
	providers map[string]bool        // whose records move
	desired   resources.Desired
	sequences map[resources.Kind]uint64 // highest IDs that ZooKeeper and the private file have assigned
}

// exportPlan is what a migration to a file writes, and what it removes from ZooKeeper.
type exportPlan struct {
	records    []resources.Record // in their form for the file and in the order of writing
	private    []resources.Record
	sequences  map[resources.Kind]uint64
	unrecorded []*resources.Provider // frozen providers without a private record
	left       int                   // number of records of other configurations

	remove   [][]state.Op // commits that remove the records: nodes first, so that no record refers to a removed one
	unpause  []string     // images of the file that have no builds left in ZooKeeper
	unfreeze []string     // providers
}

// removeAtOnce is the number of records that one commit removes, with all znodes below them.
const removeAtOnce = 50

// planExport decides what moves to a file. It returns an error if a request of npctl is open, or if another process uses
// one of the records.
func planExport(in exportInput) (exportPlan, error) {
	own := func(r *resources.Request) bool { return strings.HasPrefix(r.Requestor, plan.OwnRequestor) }
	if err := openRequests(in.entries, own); err != nil {
		return exportPlan{}, err
	}
	p := exportPlan{sequences: maps.Clone(in.sequences)}
	needed, shared := in.buildsOfUploads()
	uploads := in.movingUploads()
	var chosen []resources.Record
	var paused []string
	buildsLeft := map[string]bool{} // by image
	removed := map[resources.Kind][]state.Op{}
	for _, e := range in.entries {
		key, moves := e.Record.Key(), false
		switch r := e.Record.(type) {
		case *resources.Request:
			continue
		case *resources.Node:
			moves = in.providers[r.Provider]
		case *resources.Upload:
			moves = in.providers[r.Provider]
		case *resources.Trial:
			moves = uploads[r.Upload]
		case *resources.Build:
			moves = needed[r.ID] || slices.ContainsFunc(in.desired.Images, func(i resources.Image) bool { return i.Name == r.Image })
			buildsLeft[r.Image] = buildsLeft[r.Image] || !moves || shared[r.ID]
		case *resources.ImageRecord:
			if e.Revision == 0 { // other processes paused it, and this one has no record of it
				continue
			}
			if p.private = append(p.private, r); r.Paused {
				paused = append(paused, r.Name)
			}
			continue
		default:
			p.private = append(p.private, e.Record)
			continue
		}
		if !moves {
			p.left++
			continue
		}
		chosen = append(chosen, e.Record)
		if key.Kind != resources.KindBuild || !shared[key.ID] {
			removed[key.Kind] = append(removed[key.Kind], state.Op{Key: key, Force: true})
		}
	}
	if err := inUseByOthers(chosen, in.claimed); err != nil {
		return exportPlan{}, err
	}
	ids, highest := numberUploads(chosen, p.sequences[resources.KindUpload])
	p.sequences[resources.KindUpload] = highest
	for _, r := range chosen {
		p.records = append(p.records, forFile(r, ids))
	}
	sortCargo(p.records)
	for _, kind := range slices.Backward(migratedKinds) {
		p.remove = slices.AppendSeq(p.remove, slices.Chunk(removed[kind], removeAtOnce))
	}
	p.unpause = slices.DeleteFunc(paused, func(image string) bool { return buildsLeft[image] })
	p.unfreeze = slices.DeleteFunc(slices.Clone(in.frozen), func(provider string) bool { return !in.providers[provider] })
	p.unrecorded = in.frozenWithoutRecord(p.private)
	return p, nil
}

// buildsOfUploads returns the builds with uploads in the providers that move, and those with uploads in other providers:
// they are copied and stay in ZooKeeper.
func (in *exportInput) buildsOfUploads() (needed, shared map[string]bool) {
	needed, shared = map[string]bool{}, map[string]bool{}
	for _, e := range in.entries {
		if u, ok := e.Record.(*resources.Upload); ok && in.providers[u.Provider] {
			needed[u.Build] = true
		} else if ok {
			shared[u.Build] = true
		}
	}
	return needed, shared
}

// movingUploads returns the uploads in the providers that move, by their present and former IDs.
func (in *exportInput) movingUploads() map[string]bool {
	moving := map[string]bool{}
	for _, e := range in.entries {
		if u, ok := e.Record.(*resources.Upload); ok && in.providers[u.Provider] {
			for _, id := range append([]string{u.ID}, u.Former...) {
				moving[id] = true
			}
		}
	}
	return moving
}

// frozenWithoutRecord returns the configured providers that are frozen and have no private record.
func (in *exportInput) frozenWithoutRecord(private []resources.Record) (providers []*resources.Provider) {
	for i := range in.desired.Providers {
		p := &in.desired.Providers[i]
		key := resources.Key{Kind: resources.KindProvider, ID: p.Name}
		if slices.Contains(in.frozen, p.Name) && !slices.ContainsFunc(private, func(r resources.Record) bool { return r.Key() == key }) {
			providers = append(providers, p)
		}
	}
	return providers
}

// providersKnown returns the providers of the configuration and of the records of this process.
func providersKnown(desired resources.Desired, records []state.Entry) map[string]bool {
	providers := map[string]bool{}
	for i := range desired.Providers {
		providers[desired.Providers[i].Name] = true
	}
	for _, e := range records {
		providers[e.Record.Key().ID] = true
	}
	return providers
}

// providersIn returns the providers of the records.
func providersIn(records []resources.Record) map[string]bool {
	providers := map[string]bool{}
	for _, r := range records {
		switch r := r.(type) {
		case *resources.Node:
			providers[r.Provider] = true
		case *resources.Upload:
			providers[r.Provider] = true
		}
	}
	return providers
}

// lockNames returns the locks that keep other processes from the records during a migration: of the leaked images, of
// the configured images and all images with builds or uploads, and of the providers.
func lockNames(entries []state.Entry, desired resources.Desired, providers map[string]bool) []string {
	images := map[string]bool{}
	for i := range desired.Images {
		images[desired.Images[i].Name] = true
	}
	for _, entry := range entries {
		switch r := entry.Record.(type) {
		case *resources.Build:
			images[r.Image] = true
		case *resources.Upload:
			images[r.Image] = true
		}
	}
	names := []string{state.ImagesLock}
	for _, image := range slices.Sorted(maps.Keys(images)) {
		names = append(names, state.ImageLock(image))
	}
	for _, provider := range slices.Sorted(maps.Keys(providers)) {
		names = append(names, state.ProviderLock(provider))
	}
	return names
}
