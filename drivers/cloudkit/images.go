package cloudkit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// FilterText formats the filters of a cloud_image block for a problem.
func FilterText(filters map[string]resources.AnyOf) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(filters)) {
		parts = append(parts, fmt.Sprintf("%s = %q", name, []string(filters[name])))
	}
	return strings.Join(parts, ", ")
}

// MatchesPattern reports whether a value matches a pattern of a filter, as in path.Match; a slash is an ordinary
// character.
func MatchesPattern(value, pattern string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "\x00"), strings.ReplaceAll(value, "/", "\x00"))
	return ok && err == nil
}

// MatchesFilters reports whether each filter has a pattern that matches a value of its name.
func MatchesFilters(filters map[string]resources.AnyOf, values func(name string) []string) bool {
	for name, patterns := range filters {
		own := values(name)
		if !slices.ContainsFunc(patterns, func(pattern string) bool {
			return slices.ContainsFunc(own, func(value string) bool { return MatchesPattern(value, pattern) })
		}) {
			return false
		}
	}
	return true
}

// FileSums computes the checksums of an image file that the caller knows from the bytes that are written to it.
type FileSums struct {
	size   int64
	sha256 hash.Hash
}

// NewFileSums returns the sums of an empty file.
func NewFileSums() *FileSums { return &FileSums{sha256: sha256.New()} }

// Write implements io.Writer. It returns no error.
func (s *FileSums) Write(p []byte) (int, error) {
	s.size += int64(len(p))
	return s.sha256.Write(p)
}

// Check compares the content with the ImageSpec.
func (s *FileSums) Check(spec drivers.ImageSpec) error {
	sum := hex.EncodeToString(s.sha256.Sum(nil))
	switch {
	case spec.Size > 0 && spec.Size != s.size:
		return Changed("its size", fmt.Sprint(spec.Size), fmt.Sprint(s.size))
	case spec.SHA256 != "" && !strings.EqualFold(spec.SHA256, sum):
		return Changed("its SHA-256", spec.SHA256, sum)
	}
	return nil
}

// Changed returns the error for an image file that is not the one of the build.
func Changed(what, want, got string) error {
	return fmt.Errorf("%w: the image file changed after its build: %s is %s, expected %s; build it again", drivers.ErrRejected, what, got, want)
}
