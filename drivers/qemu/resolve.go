package qemu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
)

// ResolveOffer implements drivers.Resolver.
func (c *Cloud) ResolveOffer(ctx context.Context, config cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	o, err := offerOf(config)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return resources.ResolvedOffer{}, nil, err
	}
	if p := c.offerProblem(o); p != nil {
		return resources.ResolvedOffer{}, []resources.Problem{*p}, nil
	}
	amounts := machine{Cores: o.Cores, RAM: o.RAM}.amounts()
	return resources.ResolvedOffer{Flavor: flavorOf(amounts), Resources: amounts}, nil, nil
}

// offerProblem returns why no machine of the offer can ever start on this host, nil if there is no reason.
func (c *Cloud) offerProblem(o poolSettings) *resources.Problem {
	limit := func(attribute string, value, limit int64, unit string) *resources.Problem {
		if limit < 0 || value <= limit {
			return nil
		}
		return &resources.Problem{Attribute: attribute, Value: fmt.Sprint(value),
			Detail: fmt.Sprintf("all machines together may have %d %s; raise max_%s of the provider, or lower %s", limit, unit, attribute, attribute)}
	}
	if p := limit("cores", o.Cores, c.limits.Cores, "cores"); p != nil {
		return p
	}
	if p := limit("ram", o.RAM, c.limits.RAM, "MiB"); p != nil {
		return p
	}
	if o.Firmware != "" {
		if _, err := os.Stat(o.Firmware); err != nil {
			return &resources.Problem{Attribute: "firmware", Value: o.Firmware, Detail: err.Error()}
		}
	}
	if o.Accel == accelKVM {
		if err := c.kvm(); err != nil {
			return &resources.Problem{Attribute: "accel", Value: o.Accel, Detail: fmt.Sprintf("%v; set accel to %q or %q to run without it", err, accelAuto, accelTCG)}
		}
	}
	return nil
}

// ResolveImage implements drivers.Resolver. An image is an upload by ID or name, or a file by path or by name in the
// image_dir; a file's path is its ID. Filters match by pattern: name, id, format, tag, and any property.
func (s *imageStore) ResolveImage(ctx context.Context, spec resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	all, err := s.candidates(ctx)
	if err != nil {
		return resources.RemoteImage{}, nil, err
	}
	attribute, value := "image_name", spec.Name
	matches := func(i image) bool { return i.Name == value }
	switch {
	case spec.ImageID != "":
		attribute, value = "image_id", spec.ImageID
		matches = func(i image) bool { return i.ID == value }
	case spec.Image != "":
		value = spec.Image
	case len(spec.Filters) > 0:
		attribute, value = "filters", fmt.Sprint(spec.Filters)
		matches = func(i image) bool { return isMatch(i, spec.Filters) }
	}
	if filepath.IsAbs(value) {
		i, err := imageAt(value)
		if err != nil {
			return resources.RemoteImage{}, []resources.Problem{{Attribute: attribute, Value: value, Detail: err.Error()}}, nil //nolint:nilerr // a problem of the configuration
		}
		return i.remote(), nil, nil
	}
	found := slices.DeleteFunc(slices.Clone(all), func(i image) bool { return !matches(i) })
	if len(found) == 0 {
		return resources.RemoteImage{}, []resources.Problem{s.missing(attribute, value, all)}, nil
	}
	return slices.MinFunc(found, func(a, b image) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	}).remote(), nil, nil
}

func (s *imageStore) missing(attribute, value string, all []image) resources.Problem {
	var names []string
	for _, i := range all {
		names = append(names, i.Name)
	}
	return resources.Problem{Attribute: attribute, Value: value, Suggestions: text.Near(value, names),
		Detail: fmt.Sprintf("no such image: neither an upload of this provider nor a file in %s", s.files)}
}

// candidates returns the uploads that are complete, and the files.
func (s *imageStore) candidates(ctx context.Context) ([]image, error) {
	uploads, err := s.uploaded(ctx)
	if err != nil {
		return nil, err
	}
	list := slices.DeleteFunc(uploads, func(i image) bool { return !i.Ready })
	entries, err := os.ReadDir(s.files)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list images: %w", err)
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		i, err := imageAt(filepath.Join(s.files, entry.Name()))
		if err != nil {
			continue // not an image
		}
		list = append(list, i)
	}
	return list, nil
}

// imageAt returns the image in a file that npctl did not upload.
func imageAt(path string) (image, error) {
	f, err := readImageFile(path)
	if err != nil {
		return image{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return image{}, err
	}
	return image{ID: path, Name: filepath.Base(path), Ready: true, Format: f.Format, Size: info.Size(), Created: info.ModTime()}, nil
}

// isMatch reports whether an image matches a pattern of each filter.
func isMatch(i image, filters map[string]resources.AnyOf) bool {
	return cloudkit.MatchesFilters(filters, func(name string) []string {
		if values, known := map[string][]string{"name": {i.Name}, "id": {i.ID}, "format": {i.Format}, "tag": i.ImageTags}[name]; known {
			return values
		}
		return []string{i.Properties[name]}
	})
}
