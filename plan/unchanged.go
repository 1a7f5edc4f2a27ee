package plan

import (
	"encoding/json"
	"slices"

	"github.com/npctl/npctl/resources"
)

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
