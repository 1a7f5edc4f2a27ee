package resources

import "slices"

// Removal is a removed block: the configuration no longer has a block, and npctl forgets its objects without deleting
// them.
type Removal struct {
	From   BlockRef
	Source Source
}

// Removals are the removed blocks of a configuration, which contains none of the blocks that they name.
type Removals []Removal

// ParseRemovedRef returns the block of an address in a removed block: a name of ParseBlockRef, or a place to which objects are
// imported.
func ParseRemovedRef(address string) (BlockRef, error) {
	to, err := ParseImport(address, "")
	switch {
	case err != nil:
		return ParseBlockRef(address)
	case to.Kind() == KindUpload:
		return BlockRef{Type: "image", Provider: to.Provider, Name: to.Image}, nil
	default:
		return BlockRef{Type: "offer", Provider: to.Provider, Pool: to.Pool, Name: to.Label}, nil
	}
}

// HasNode reports whether a removed block contained a node.
func (rs Removals) HasNode(n *Node) bool {
	return rs.has(func(b BlockRef) bool {
		switch b.Type {
		case "provider":
			return n.Provider == b.Name
		case "pool":
			return n.Provider == b.Provider && n.Pool == b.Name
		case "offer":
			return n.Provider == b.Provider && n.Pool == b.Pool && slices.Contains(n.Labels, b.Name)
		case "node":
			return n.Static && n.Provider == b.Provider && n.Pool == b.Pool && n.Hostname == b.Name
		default:
			return b.Type == "label" && slices.Contains(n.Labels, b.Name)
		}
	})
}

// HasUpload reports whether a removed block contained an upload.
func (rs Removals) HasUpload(u *Upload) bool {
	return rs.has(func(b BlockRef) bool {
		return b.Type == "provider" && u.Provider == b.Name || b.Type == "image" && u.Provider == b.Provider && u.Image == b.Name ||
			b.isImage() && u.Image == b.Name
	})
}

// HasBuild reports whether a removed block contained a build.
func (rs Removals) HasBuild(b *Build) bool {
	return rs.has(func(ref BlockRef) bool { return ref.Type == string(b.Kind) && b.Image == ref.Name })
}

func (rs Removals) has(match func(BlockRef) bool) bool {
	return slices.ContainsFunc(rs, func(r Removal) bool { return match(r.From) })
}
