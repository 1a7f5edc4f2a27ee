package resources

import "cmp"

// CompareBuilds orders builds by age, the newest first. It defines the newest build of an image.
func CompareBuilds(a, b *Build) int {
	return cmp.Or(b.StateTime.Compare(a.StateTime), cmp.Compare(a.ID, b.ID))
}

// CompareUploads orders the uploads of an image by the age of their builds, the newest first. Nodes boot from the first
// ready one in their provider. The age of the upload itself counts only if a build is unknown: a late retry of an old
// build is still old.
func CompareUploads(a, b *Upload, build func(id string) *Build) int {
	if x, y := build(a.Build), build(b.Build); x != nil && y != nil && x != y {
		return CompareBuilds(x, y)
	}
	return cmp.Or(b.StateTime.Compare(a.StateTime), cmp.Compare(b.ID, a.ID))
}
