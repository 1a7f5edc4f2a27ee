package inspect

import (
	"cmp"
	"slices"
	"time"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// Owner is the kind of owner of an unmanaged object, as far as its tags tell.
type Owner string

// The kinds of owners.
const (
	OwnerThis    Owner = "leak"     // this installation, which has no record of the object
	OwnerInUse   Owner = "in-use"   // this installation, but the object is attached to another one, so npctl keeps it
	OwnerOther   Owner = "npctl"    // another installation of npctl
	OwnerProgram Owner = "nodepool" // Nodepool
	OwnerNone    Owner = "none"     // no tags of a known program
)

// UnmanagedObject is an object in a provider that no record has.
type UnmanagedObject struct {
	Provider string     `json:"provider"`
	Type     string     `json:"type"` // server, image, port, floating_ip or volume
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Owner    Owner      `json:"owner"`
	Tags     string     `json:"tags,omitempty"`    // the installation of another npctl, or a description of Nodepool's tags
	Created  *time.Time `json:"created,omitempty"` // of servers and images

	inUse bool
}

// Unmanaged lists the objects that no record has, sorted by provider, type and ID.
func Unmanaged(seen plan.Observed) []UnmanagedObject {
	u := unmanaged{seen: seen, known: map[string]bool{}, listed: map[string]bool{}}
	for _, n := range seen.Records.Nodes {
		u.known["server "+n.ExternalID] = n.ExternalID != "" && !n.Static
	}
	for _, p := range seen.Records.Uploads {
		u.known["image "+p.ExternalID] = p.ExternalID != ""
	}
	for provider, view := range seen.Providers {
		for _, o := range view.Others {
			what := "server"
			if o.Image.ID != "" {
				what = "image"
			}
			f := o.Facts()
			u.add(UnmanagedObject{Provider: provider, Type: what, ID: f.ID, Name: f.Name, Tags: o.Program}, f.Marks, f.Created)
		}
		for i := range view.Instances {
			o := &view.Instances[i]
			u.add(UnmanagedObject{Provider: provider, Type: "server", ID: o.ID, Name: o.Name}, o.Marks, o.Created)
		}
		for i := range view.Images {
			o := &view.Images[i]
			u.add(UnmanagedObject{Provider: provider, Type: "image", ID: o.ID, Name: o.Name}, o.Marks, o.Created)
		}
		for _, o := range view.Leftovers {
			u.add(UnmanagedObject{Provider: provider, Type: o.Type, ID: o.ID, Name: o.Name, inUse: o.InUse}, o.Marks, time.Time{})
		}
	}
	slices.SortFunc(u.found, func(a, b UnmanagedObject) int {
		return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Type, b.Type), cmp.Compare(a.ID, b.ID))
	})
	return u.found
}

type unmanaged struct {
	seen   plan.Observed
	known  map[string]bool // cloud IDs of records, with the type
	listed map[string]bool
	found  []UnmanagedObject
}

// add adds an object unless a record has it or it is listed already.
func (u *unmanaged) add(o UnmanagedObject, marks resources.OwnerTags, created time.Time) {
	at := o.Provider + " " + o.Type + " " + o.ID
	if u.listed[at] || u.known[o.Type+" "+o.ID] || u.recorded(o, marks) {
		return
	}
	u.listed[at] = true
	switch {
	case marks.Installation == "" && o.Tags == "":
		o.Owner = OwnerNone
	case marks.Installation == "":
		o.Owner = OwnerProgram
	case marks.Installation == u.seen.Installation && o.inUse:
		o.Owner = OwnerInUse
	case marks.Installation == u.seen.Installation:
		o.Owner = OwnerThis
	default:
		o.Owner, o.Tags = OwnerOther, marks.Installation
	}
	if !created.IsZero() {
		o.Created = &created
	}
	u.found = append(u.found, o)
}

// recorded reports whether the ownership tags name a record of this installation that has the object or may have it: a
// launch or upload whose record does not name its object yet, a build, or the node of an associated resource.
func (u *unmanaged) recorded(o UnmanagedObject, marks resources.OwnerTags) bool {
	if marks.Installation == "" || marks.Installation != u.seen.Installation {
		return false
	}
	switch r := u.seen.Records.Get(resources.Key{Kind: marks.Kind, ID: marks.ID}).(type) {
	case nil:
		return false
	case *resources.Node:
		return o.Type != "server" || r.ExternalID == ""
	case *resources.Upload:
		return o.Type != "image" || r.ExternalID == ""
	default:
		return true
	}
}
