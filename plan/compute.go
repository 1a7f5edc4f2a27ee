package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// Compute returns the plan. It does no I/O and reads no clock: its arguments are its only input.
//
// It is a pipeline of parts. Each part reads the world, adds its steps to the draft, and returns the decisions that
// later parts depend on.
func Compute(want resources.Desired, seen Observed, opt Options) Plan {
	seen, moved := withMoves(want, seen)
	w := newWorld(want, markLockHolderBusy(withoutRelocated(seen)), opt)
	w.moved = moved
	d := newDraft(w)
	planMoves(d)
	if opt.Moves {
		return finish(w, d, nil)
	}
	d.noteSkipped()
	d.cloudProblems()
	planRemoved(d)
	use := &capacity{world: w, pools: map[poolKey]*poolUse{}, free: map[string]*resources.ResourceAmounts{}, readyCount: map[string]int{}}
	nodes := planNodes(w, d, use)
	planImports(w, d, use)
	planStaticNodes(w, d, use, nodes)
	images := planImages(w, d)
	use.setQuota(d.deletedBy)
	place := &placement{world: w, draft: d, capacity: use, plannedUploads: maps.Clone(images.plannedUploads), loginUpdates: images.loginUpdates,
		tests: map[imageAt][]string{}, rollouts: map[imageAt]*rolloutShare{}, blockers: map[*poolOffer]*blocker{}}
	planUnneeded(w, d)
	planValidation(w, d, use, place, images)
	waiting := planRequests(w, d, use, place, nodes)
	planIdle(w, d, nodes)
	planMinReady(w, d, use, place, nodes)
	nodes.disruption.note(d)
	leaks := planLeaks(w, d, nodes.lost)
	d.noteForeignResources()
	d.unknownFiles()
	planRecords(w, d, leaks)
	d.awaitMoves()
	return finish(w, d, waiting)
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// Digest returns a digest of the steps: 32 hexadecimal digits. A saved plan has the one of its execution.
func (p Plan) Digest() string {
	steps, err := json.Marshal(p.Steps)
	if err != nil {
		panic("plan: digest of the steps: " + err.Error())
	}
	sum := sha256.Sum256(steps)
	return hex.EncodeToString(sum[:16])
}

// withoutRelocated replaces the view of a provider by an error if its block leads to another location than that of
// its nodes and images, such as another project or region. In the new location all of them would look lost, while
// they continue to run unmanaged in the old one.
func withoutRelocated(seen Observed) Observed {
	made := map[string]int{}
	for _, n := range seen.Records.Nodes {
		made[n.Provider]++
	}
	for _, u := range seen.Records.Uploads {
		made[u.Provider]++
	}
	views := seen.Providers
	for _, r := range seen.Records.Providers {
		view, looked := views[r.Name]
		if !looked || view.Err != "" || view.Location == r.Location || view.Location == "" || r.Location == "" || made[r.Name] == 0 {
			continue
		}
		views = maps.Clone(views)
		views[r.Name] = ProviderView{Rejected: true, Location: r.Location, Err: fmt.Sprintf("it now connects to %s, and its %s are in %s; "+
			"add another provider block for the new location, and remove this block only with its earlier settings", view.Location, text.Count(made[r.Name], "object", "objects"), r.Location)}
	}
	seen.Providers = views
	return seen
}

// LockHolder is another process that holds the lock of the state, and may change it while the plan is computed.
type LockHolder struct {
	Operation string    `json:"operation"` // such as apply
	Who       string    `json:"who"`       // user@host
	Host      string    `json:"host"`
	PID       int       `json:"pid"`
	Since     time.Time `json:"since"`
}

// MayChange reports whether the lock holder, if there is one, may be changing a record in this state.
func (h *LockHolder) MayChange(s resources.State) bool {
	switch s {
	case resources.StateInit, resources.StateBuilding, resources.StateUploading, resources.StateDeleting:
		return h != nil
	default:
		return false
	}
}

// markLockHolderBusy marks the records as busy that the lock holder may be changing. The state does not contain which
// ones it works on.
func markLockHolderBusy(seen Observed) Observed {
	if seen.LockHolder == nil {
		return seen
	}
	seen.Busy = maps.Clone(seen.Busy)
	if seen.Busy == nil {
		seen.Busy = map[resources.Key]bool{}
	}
	mark := func(key resources.Key, in resources.State) {
		if seen.LockHolder.MayChange(in) {
			seen.Busy[key] = true
		}
	}
	for _, b := range seen.Records.Builds {
		mark(b.Key(), b.State)
	}
	for _, u := range seen.Records.Uploads {
		mark(u.Key(), u.State)
	}
	for _, n := range seen.Records.Nodes {
		mark(n.Key(), n.State)
	}
	return seen
}

// CodeInProgress is the code of the note about another process that works on the state.
const CodeInProgress = "in-progress"

// workedOn reports whether the lock holder may be building or uploading the image. The later steps of the image are
// unknown then.
func (w *world) workedOn(image string) bool {
	if w.seen.LockHolder == nil {
		return false
	}
	for _, b := range w.builds[image] {
		if b.State == resources.StateBuilding {
			return true
		}
	}
	for _, u := range w.uploads[image] {
		if u.State == resources.StateUploading {
			return true
		}
	}
	return false
}

// draft is a plan under construction: the steps, notes and problems so far.
type draft struct {
	world            *world
	steps            []Step
	index            map[string]int // step ID → index in steps
	notes            []Note
	problems         []Problem
	unremovable      []Problem // of Options.Remove
	deferred         []string
	kept             Unchanged                // including nodes that a later decision may delete
	replaceAddresses map[Address]bool         // -replace addresses, and whether an object matches
	deletedBy        map[resources.Key]string // record → ID of the step that removes it
	updatedRecords   map[resources.Key]bool   // records that a step updates
	relist           map[string]bool          // see Plan.Relist
}

func newDraft(w *world) *draft {
	d := &draft{world: w, index: map[string]int{}, replaceAddresses: map[Address]bool{}, updatedRecords: map[resources.Key]bool{}, relist: map[string]bool{}}
	for _, a := range w.opt.Replace {
		d.replaceAddresses[a] = false
	}
	return d
}

// add appends a step, unless the plan already contains it, and returns its ID.
func (d *draft) add(s Step) string {
	if s.ID == "" {
		s.ID = string(s.Action) + " " + string(s.Address)
	}
	if _, twice := d.index[s.ID]; twice {
		return s.ID
	}
	if d.world.busy(s.Record) {
		return s.ID // a step that needs it waits for the running work on the record
	}
	if s.Image != "" {
		s.ImageKind = d.world.imageKind(s.Image)
	}
	if r := d.world.requests[s.Request]; r != nil {
		s.EventID = r.EventID
	}
	if s.Action == ActionUpdate {
		d.updatedRecords[s.Record] = true
	}
	if s.Record.Kind != "" && s.Action != ActionMove {
		s.Preconditions = append(s.Preconditions, d.world.fingerprint(s.Record))
	}
	d.index[s.ID] = len(d.steps)
	d.steps = append(d.steps, s)
	if s.Removes() || s.Action == ActionForget {
		if d.deletedBy == nil {
			d.deletedBy = map[resources.Key]string{}
		}
		if s.Record.Kind != "" {
			d.deletedBy[s.Record] = s.ID
		}
	}
	return s.ID
}

// cancel removes steps that no other step needs.
func (d *draft) cancel(ids map[string]bool) {
	if len(ids) == 0 {
		return
	}
	d.steps = slices.DeleteFunc(d.steps, func(s Step) bool {
		if ids[s.ID] {
			delete(d.deletedBy, s.Record)
			delete(d.index, s.ID)
		}
		return ids[s.ID]
	})
	for i := range d.steps {
		d.index[d.steps[i].ID] = i
	}
}

func (d *draft) step(id string) *Step { return &d.steps[d.index[id]] }

func (d *draft) note(severity Severity, code string, at Address, source resources.Source, format string, args ...any) {
	d.notes = append(d.notes, Note{Severity: severity, Code: code, Address: at, Source: source,
		Text: fmt.Sprintf(format, args...)})
}

// isReplaceTarget reports whether -replace names one of the addresses.
func (d *draft) isReplaceTarget(addresses ...Address) bool {
	found := false
	for _, a := range addresses {
		if _, ok := d.replaceAddresses[a]; ok {
			d.replaceAddresses[a] = true
			found = true
		}
	}
	return found
}

// noteSkipped notes what the plan leaves out: the records that another process may be changing, and the providers that are
// frozen or could not be listed.
func (d *draft) noteSkipped() {
	if w := d.world.seen.LockHolder; w != nil {
		d.note(Warning, CodeInProgress, "", resources.Source{},
			"%s (process %d on %s) has been working on the state for %s since %s; the plan skips the records that it may be changing",
			w.Who, w.PID, w.Host, w.Operation, clock(w.Since))
	}
	for _, name := range d.world.names {
		if d.world.seen.Frozen[name] {
			d.note(Info, "frozen", ProviderAddress(name), d.world.source(name), "provider %s is frozen, so nothing is planned for it", name)
		} else if view := d.world.seen.Providers[name]; view.Err != "" {
			d.deferred = append(d.deferred, name)
			if view.Rejected && d.world.providers[name] != nil {
				d.problems = append(d.problems, Problem{Address: ProviderAddress(name), Provider: name, Text: view.Err,
					Hint:   "fix it, or omit the provider with -exclude=" + string(ProviderAddress(name)),
					Source: d.world.source(name)})
				continue
			}
			d.note(Warning, "deferred", ProviderAddress(name), d.world.source(name),
				"provider %s could not be listed, so nothing is planned for it: %s", name, view.Err)
		}
	}
}

// Unchanged holds the objects that exist and match the desired state. It keeps nodes as pointers and builds their
// addresses in Addresses: the daemon computes a plan in each pass and rarely prints one.
type Unchanged struct {
	addresses []Address // of everything but nodes; distinct
	nodes     []*resources.Node
}

// Count returns the number of objects.
func (u Unchanged) Count() int { return len(u.addresses) + len(u.nodes) }

// Addresses returns the addresses of the objects, sorted.
func (u Unchanged) Addresses() []Address {
	all := append(make([]Address, 0, u.Count()), u.addresses...)
	for _, n := range u.nodes {
		all = append(all, nodeAddress(n.ID))
	}
	slices.Sort(all)
	return all
}

// Equal reports whether both hold the same addresses.
func (u Unchanged) Equal(other Unchanged) bool { return slices.Equal(u.Addresses(), other.Addresses()) }

// IsZero reports whether there are no objects; plan files then omit the field.
func (u Unchanged) IsZero() bool { return u.Count() == 0 }

// MarshalJSON implements json.Marshaler: a list of addresses.
func (u Unchanged) MarshalJSON() ([]byte, error) { return json.Marshal(u.Addresses()) }

// UnmarshalJSON implements json.Unmarshaler.
func (u *Unchanged) UnmarshalJSON(list []byte) error {
	*u = Unchanged{}
	return json.Unmarshal(list, &u.addresses)
}
