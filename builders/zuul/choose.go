package zuul

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/npctl/npctl/internal/fetch"
	"github.com/npctl/npctl/resources"
)

// offer is an image file that a build has.
type offer struct {
	format      string
	artifact    artifact
	address     *url.URL
	packing     fetch.Compression
	sha256, md5 string // of the decompressed file; empty if unknown
}

// endings lists the file extensions that imply a format. Others, such as img, do not.
var endings = []string{"raw", "qcow2", "qcow", "vhd", "vpc", "vhdx", "vmdk", "ova", "tar", "tgz", "squashfs"}

// formatOf returns the format of an artifact's file after decompression, or "" if it is unknown.
func formatOf(a artifact) string {
	format := strings.ToLower(a.Metadata.text("format"))
	if format == "" {
		address, err := url.Parse(a.URL)
		if err != nil {
			return ""
		}
		_, rest := fetch.PackingOf(address.Path)
		if ending := strings.ToLower(strings.TrimPrefix(path.Ext(rest), ".")); slices.Contains(endings, ending) {
			format = ending
		}
	}
	return resources.ImageFormat(format)
}

// matchingArtifacts returns, for each configured format, the artifacts that may be its file.
func (s *source) matchingArtifacts(b *build) map[string][]artifact {
	found := map[string][]artifact{}
	for format, want := range s.artifacts {
		for _, a := range b.Artifacts {
			is := formatOf(a)
			if a.Metadata.text("type") == want.Type && (want.Name == "" || a.Name == want.Name) && (is == "" || is == format) &&
				(s.ImageName == "" || a.Metadata.text("image_name") == s.ImageName) {
				found[format] = append(found[format], a)
			}
		}
	}
	return found
}

// offers turns artifacts into offers. Two artifacts for one format are an error, because one of them is another image.
func (s *source) offers(b *build) (map[string]offer, error) {
	found := map[string]offer{}
	for format, list := range s.matchingArtifacts(b) {
		if len(list) > 1 {
			return nil, fmt.Errorf("build %s has %d artifacts that match artifact %q: %s; distinguish them with image_name, or with name in the artifact block",
				b.UUID, len(list), format, names(list))
		}
		o, err := b.offer(format, list[0])
		if err != nil {
			return nil, fmt.Errorf("build %s: %w", b.UUID, err)
		}
		found[format] = o
	}
	return found, nil
}

func names(list []artifact) string {
	var all []string
	for _, a := range list[:min(len(list), 5)] {
		text := fmt.Sprintf("%.60q", a.Name)
		if image := a.Metadata.text("image_name"); image != "" {
			text += fmt.Sprintf(" (image_name %.60q)", image)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func (b *build) offer(format string, a artifact) (offer, error) {
	address, err := b.resolve(a)
	if err != nil {
		return offer{}, err
	}
	o := offer{format: format, artifact: a, address: address}
	if o.packing, _ = fetch.PackingOf(address.Path); format == "tgz" && o.packing == fetch.Gzip {
		o.packing = fetch.NoCompression // the compression is part of the format
	}
	if o.sha256, err = sum(a, 64, "sha256", "sha256sum"); err != nil {
		return offer{}, err
	}
	o.md5, err = sum(a, 32, "md5sum", "md5")
	return o, err
}

var hexDigits = regexp.MustCompile(`^[0-9a-f]+$`)

// sum reads a checksum from the metadata. An invalid checksum is an error and is not ignored.
func sum(a artifact, digits int, keys ...string) (string, error) {
	text := strings.ToLower(a.Metadata.text(keys...))
	if text != "" && (len(text) != digits || !hexDigits.MatchString(text)) {
		return "", fmt.Errorf("artifact %.100q has the %s %.100q, which are not %d hex digits", a.Name, keys[0], text, digits)
	}
	return text, nil
}

// convertible lists the formats that can be converted to others, best first.
var convertible = []string{"raw", "qcow2", "vhdx", "vhd", "vmdk"}

// choose picks the files to fetch: those of the wanted formats, and a convertible one if a wanted format is not
// offered.
func choose(wanted []string, offered map[string]offer) []offer {
	formats := map[string]bool{}
	missing, source := false, false
	for _, format := range wanted {
		_, ok := offered[format]
		missing = missing || !ok
		if ok {
			formats[format] = true
			source = source || slices.Contains(convertible, format)
		}
	}
	if missing && !source || len(formats) == 0 {
		if best := bestOf(offered); best != "" {
			formats[best] = true
		}
	}
	ordered := append(slices.Clone(convertible), slices.Sorted(maps.Keys(offered))...)
	var chosen []offer
	for _, format := range ordered { // the source of conversions comes first
		if formats[format] {
			chosen = append(chosen, offered[format])
			delete(formats, format)
		}
	}
	return chosen
}

func bestOf(offered map[string]offer) string {
	for _, format := range append(slices.Clone(convertible), slices.Sorted(maps.Keys(offered))...) {
		if _, ok := offered[format]; ok {
			return format
		}
	}
	return ""
}
