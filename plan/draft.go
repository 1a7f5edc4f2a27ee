package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/npctl/npctl/resources"
)

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
}

func newDraft(w *world) *draft {
	d := &draft{world: w, index: map[string]int{}, replaceAddresses: map[Address]bool{}, updatedRecords: map[resources.Key]bool{}}
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
	if s.Record.Kind != "" {
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

func (d *draft) unknownReplace() {
	for _, a := range d.world.opt.Replace {
		if !d.replaceAddresses[a] {
			d.problems = append(d.problems, Problem{Address: a, Text: "no object that can be replaced has this address",
				Hint: "images are diskimage.NAME or zuul_image.NAME, uploads provider.NAME.image.IMAGE, nodes node.ID; see npctl state list"})
		}
	}
}

func (d *draft) deferUnreachable() {
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
				"provider %s could not be queried, so nothing is planned for it: %s", name, view.Err)
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

// unchanged returns the objects that match the desired state, without nodes that a later decision deletes.
func (d *draft) unchanged() Unchanged {
	slices.Sort(d.kept.addresses)
	return Unchanged{
		addresses: slices.Compact(d.kept.addresses),
		nodes:     slices.DeleteFunc(d.kept.nodes, func(n *resources.Node) bool { return d.deletedBy[n.Key()] != "" }),
	}
}
