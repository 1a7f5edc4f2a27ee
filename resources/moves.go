package resources

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// BlockRef names a block. It is comparable.
type BlockRef struct {
	// label, provider, pool, node, diskimage or zuul_image; in removed blocks also offer (a label of a pool) or image (of a
	// provider). Moved and removed blocks cannot name the other blocks of a configuration: cloud_image (of a provider), import,
	// moved, removed and npctl.
	Type           string
	Provider, Pool string // of a pool, node, offer, image or cloud_image
	Name           string
}

// blockRef matches the addresses of such blocks. Names may contain dots.
var blockRef = regexp.MustCompile(`^(?:(label|diskimage|zuul_image)\.(.+)|provider\.(.+?)(?:\.pool\.(.+?)(?:\.node\.(.+?))?)?)$`)

// nestedLabel matches the address of a label inside a pool.
var nestedLabel = regexp.MustCompile(`^provider\..+\.pool\..+\.label\.(.+)$`)

// ParseBlockRef returns the block of an address, such as provider.one.pool.main.
func ParseBlockRef(address string) (BlockRef, error) {
	if m := nestedLabel.FindStringSubmatch(address); m != nil {
		return BlockRef{}, fmt.Errorf("a label has one name in all pools: label.%s", m[1])
	}
	m := blockRef.FindStringSubmatch(address)
	switch {
	case m == nil:
		return BlockRef{}, fmt.Errorf("%q is no address of a block; use provider.NAME, provider.NAME.pool.NAME, "+
			"provider.NAME.pool.NAME.node.NAME, label.NAME, diskimage.NAME or zuul_image.NAME", address)
	case m[1] != "":
		return BlockRef{Type: m[1], Name: m[2]}, nil
	case m[5] != "":
		return BlockRef{Type: "node", Provider: m[3], Pool: m[4], Name: m[5]}, nil
	case m[4] != "":
		return BlockRef{Type: "pool", Provider: m[3], Name: m[4]}, nil
	default:
		return BlockRef{Type: "provider", Name: m[3]}, nil
	}
}

// String returns the address of the block.
func (b BlockRef) String() string {
	switch b.Type {
	case "pool":
		return "provider." + b.Provider + ".pool." + b.Name
	case "node":
		return "provider." + b.Provider + ".pool." + b.Pool + ".node." + b.Name
	case "offer":
		return "provider." + b.Provider + ".pool." + b.Pool + ".label." + b.Name
	case "image", "cloud_image":
		return "provider." + b.Provider + "." + b.Type + "." + b.Name
	case "npctl":
		return strings.TrimSuffix(b.Type+"."+b.Name, ".") // npctl or npctl.state
	default:
		return b.Type + "." + b.Name
	}
}

// Move is the new name of a block: a moved block.
type Move struct {
	From, To BlockRef
	Source   Source
}

// Moves are the moves of a configuration. They have no cycles, and no name is moved twice.
type Moves []Move

// Provider returns the present name of a provider.
func (ms Moves) Provider(name string) string {
	return ms.name(func(m Move) bool { return m.From.Type == "provider" }, name)
}

// Image returns the present name of an image.
func (ms Moves) Image(name string) string {
	return ms.name(func(m Move) bool { return m.From.isImage() }, name)
}

// FormerImages returns the earlier names of an image.
func (ms Moves) FormerImages(name string) (names []string) {
	for _, m := range ms {
		if m.From.isImage() && m.From.Name != name && ms.Image(m.From.Name) == name {
			names = append(names, m.From.Name)
		}
	}
	return names
}

// FormerProviders returns the earlier names of a provider.
func (ms Moves) FormerProviders(name string) (names []string) {
	for _, m := range ms {
		if m.From.Type == "provider" && m.From.Name != name && ms.Provider(m.From.Name) == name {
			names = append(names, m.From.Name)
		}
	}
	return names
}

// FormerLabels returns the names of a label before each of its moves, the newest first.
func (ms Moves) FormerLabels(name string) (names []string) {
	for range ms { // a chain is at most as long as the list
		i := slices.IndexFunc(ms, func(m Move) bool { return m.To == BlockRef{Type: "label", Name: name} })
		if i < 0 {
			break
		}
		name = ms[i].From.Name
		names = append(names, name)
	}
	return names
}

func (ms Moves) name(of func(Move) bool, name string) string {
	for range ms { // a chain is at most as long as the list
		i := slices.IndexFunc(ms, func(m Move) bool { return of(m) && m.From.Name == name })
		if i < 0 {
			break
		}
		name = ms[i].To.Name
	}
	return name
}

// RenamesNode reports whether a static node moves from a name to another.
func (ms Moves) RenamesNode(provider, pool, from, to string) bool {
	last, _ := ms.Last(BlockRef{Type: "node", Provider: provider, Pool: pool, Name: from})
	return from != to && last == BlockRef{Type: "node", Provider: provider, Pool: pool, Name: to}
}

// Last returns the end of the chain of moves from a block. It returns false if the chain has no end.
func (ms Moves) Last(b BlockRef) (BlockRef, bool) {
	for range len(ms) + 1 {
		i := slices.IndexFunc(ms, func(m Move) bool { return m.From == b })
		if i < 0 {
			return b, true
		}
		b = ms[i].To
	}
	return b, false
}

// Present returns a block of the configuration before the moves under its name after them.
func (ms Moves) Present(b BlockRef) BlockRef {
	for range ms { // a chain is at most as long as the list
		before := b
		for _, m := range ms {
			b = m.present(b)
		}
		if b == before {
			break
		}
	}
	return b
}

// present returns a block, or a block inside of the moved one, with the name after the move.
func (m Move) present(b BlockRef) BlockRef {
	switch {
	case b == m.From:
		return m.To
	case m.From.Type == "provider" && b.Provider == m.From.Name:
		b.Provider = m.To.Name
	case m.From.Type == "pool" && b.Provider == m.From.Provider && b.Pool == m.From.Name:
		b.Pool = m.To.Name
	case m.From.Type == "label" && b.Type == "offer" && b.Name == m.From.Name, m.From.isImage() && b.Type == "image" && b.Name == m.From.Name:
		b.Name = m.To.Name
	}
	return b
}

func (b BlockRef) isImage() bool { return b.Type == string(DiskImage) || b.Type == string(ZuulImage) }

// Apply returns the record with the new names, and whether they differ. It does not change its argument. It does not
// change hashes.
func (ms Moves) Apply(record Record) (renamed Record, moved bool) {
	if len(ms) == 0 {
		return record, false
	}
	renamed = copyForMove(record)
	if renamed == nil {
		return record, false
	}
	for range ms { // a chain is at most as long as the list
		changed := false
		for _, m := range ms {
			changed = m.rename(renamed) || changed
		}
		if !changed {
			break
		}
		moved = true
	}
	if !moved {
		return record, false
	}
	return renamed, true
}

// copyForMove returns a copy of a record that contains names of blocks, and nil for any other one.
func copyForMove(record Record) Record {
	switch r := record.(type) {
	case *Node:
		c := *r
		c.Labels = slices.Clone(r.Labels)
		return &c
	case *Build:
		c := *r
		return &c
	case *Upload:
		c := *r
		return &c
	case *ProviderRecord:
		c := *r
		return &c
	case *ImageRecord:
		c := *r
		c.Uploads = maps.Clone(r.Uploads)
		return &c
	case *Request:
		c := *r
		c.Labels, c.Declined = slices.Clone(r.Labels), slices.Clone(r.Declined)
		return &c
	default:
		return nil
	}
}

// rename changes the names of one move in a copy of a record, and reports whether it contained them.
func (m Move) rename(record Record) (changed bool) {
	set := func(name *string, same bool) {
		if same && *name == m.From.Name {
			*name, changed = m.To.Name, true
		}
	}
	place := func(provider, pool *string) {
		set(pool, m.From.Type == "pool" && *provider == m.From.Provider)
		set(provider, m.From.Type == "provider")
	}
	requestor := func(name *string) {
		if driver, provider, ok := SourceOf(*name); ok && m.From.Type == "provider" && provider == m.From.Name {
			*name, changed = SourceRequestor(driver, m.To.Name), true
		}
	}
	switch r := record.(type) {
	case *Node:
		requestor(&r.Requestor)
		set(&r.Hostname, m.From.Type == "node" && r.Static && r.Provider == m.From.Provider && r.Pool == m.From.Pool)
		place(&r.Provider, &r.Pool)
		for i := range r.Labels {
			set(&r.Labels[i], m.From.Type == "label")
		}
		if m.From.isImage() && r.Image == m.From.String() {
			r.Image, changed = m.To.String(), true
		}
	case *Build:
		set(&r.Image, m.From.isImage())
	case *Upload:
		set(&r.Image, m.From.isImage())
		set(&r.Provider, m.From.Type == "provider")
	case *ProviderRecord:
		set(&r.Name, m.From.Type == "provider")
	case *ImageRecord:
		set(&r.Name, m.From.isImage())
		if f, ok := r.Uploads[m.From.Name]; ok && m.From.Type == "provider" {
			delete(r.Uploads, m.From.Name)
			r.Uploads[m.To.Name], changed = f, true
		}
	case *Request:
		requestor(&r.Requestor)
		set(&r.Provider, m.From.Type == "provider")
		place(&r.Placement.Provider, &r.Placement.Pool)
		for i := range r.Declined {
			place(&r.Declined[i].Provider, &r.Declined[i].Pool)
		}
		for i := range r.Labels {
			set(&r.Labels[i], m.From.Type == "label")
		}
	}
	return changed
}
