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

// offer is a file that a build has of the image.
type offer struct {
	format      string
	artifact    artifact
	address     *url.URL
	packing     fetch.Packing
	sha256, md5 string // of the unpacked file; empty when not told
}

// endings are those that tell a format. Others, such as img, tell nothing.
var endings = []string{"raw", "qcow2", "qcow", "vhd", "vpc", "vhdx", "vmdk", "ova", "tar", "tgz", "squashfs"}

// formatOf is the format an artifact's file has after decompression, or "" when nothing tells it.
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

// fitting finds, for each format that is configured, the artifacts that may be its file.
func (s *source) fitting(b *build) map[string][]artifact {
	found := map[string][]artifact{}
	for format, want := range s.artifacts {
		for _, a := range b.Artifacts {
			is := formatOf(a)
			if a.Metadata.text("type") == want.kind && (want.name == "" || a.Name == want.name) && (is == "" || is == format) &&
				(s.imageName == "" || a.Metadata.text("image_name") == s.imageName) {
				found[format] = append(found[format], a)
			}
		}
	}
	return found
}

// offers turns artifacts into offers. Two that fit one format are a mistake to be told: one of them is another image.
func (s *source) offers(b *build) (map[string]offer, error) {
	found := map[string]offer{}
	for format, list := range s.fitting(b) {
		if len(list) > 1 {
			return nil, fmt.Errorf("build %s has %d artifacts that fit artifact %q: %s; tell them apart with image_name, or with name in the artifact block",
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
		o.packing = fetch.Bare // the compression is part of the format
	}
	if o.sha256, err = sum(a, 64, "sha256", "sha256sum"); err != nil {
		return offer{}, err
	}
	o.md5, err = sum(a, 32, "md5sum", "md5")
	return o, err
}

var hexDigits = regexp.MustCompile(`^[0-9a-f]+$`)

// sum reads a checksum of the metadata. One that cannot be read is no reason to go without.
func sum(a artifact, digits int, keys ...string) (string, error) {
	text := strings.ToLower(a.Metadata.text(keys...))
	if text != "" && (len(text) != digits || !hexDigits.MatchString(text)) {
		return "", fmt.Errorf("artifact %.100q has the %s %.100q, which are not %d hex digits", a.Name, keys[0], text, digits)
	}
	return text, nil
}

// convertible are the formats that others can be made of, best first.
var convertible = []string{"raw", "qcow2", "vhdx", "vhd", "vmdk"}

// choose picks what to fetch: what is wanted, and when something else is wanted that has to be made, one that it can
// be made of.
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
	for _, format := range ordered { // what is converted from comes first
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
