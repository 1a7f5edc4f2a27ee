package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// planLaunch sets the planned values of a launch: the attributes of its offer, with their resolved names as far as
// known. uploads are the planned uploads.
func planLaunch(w *world, s *Step, at *poolOffer, uploads map[imageAt]string) {
	values := map[string]string{}
	maps.Copy(values, at.offer.Values)
	view, _ := w.view(s.Provider)
	maps.Copy(values, view.Offers[OfferKey{at.at.pool, at.offer.Label}].Values)
	values["image"] = jsonText(at.offer.Image.String())
	if s.Zone != "" {
		values["zone"] = jsonText(s.Zone)
	}
	image := knownImage(w, s, at, uploads)
	if image.ID != "" {
		values["image_id"] = jsonText(image.ID)
	}
	if image.Name != "" {
		values["image_name"] = jsonText(image.Name)
	}
	s.Values = plannedTexts(values)
}

// knownImage returns the cloud image that a launch boots from, unless it is not uploaded yet.
func knownImage(w *world, s *Step, at *poolOffer, uploads map[imageAt]string) resources.RemoteImage {
	ref := at.offer.Image
	if ref.Kind == resources.CloudImage {
		view, _ := w.view(s.Provider)
		return view.CloudImages[ref.Name].Image
	}
	upload := w.upload[s.Upload]
	if upload == nil || uploads[imageAt{ref.Name, s.Provider}] != "" {
		return resources.RemoteImage{}
	}
	return resources.RemoteImage{ID: upload.ExternalID, Name: upload.Name}
}

// planUploadValues sets the planned values of an upload. The time and the ID in the image's name are known only at
// its start.
func planUploadValues(s *Step, img *resources.Image, p *resources.Provider) {
	values := map[string]string{"format": jsonText(s.Format)}
	properties, tags := map[string]string{}, slices.Clone(img.Tags)
	maps.Copy(properties, img.Properties)
	if i := slices.IndexFunc(p.Images, func(own resources.ProviderImage) bool { return own.Image == img.Ref() }); i >= 0 {
		own := p.Images[i]
		maps.Copy(values, own.Values)
		maps.Copy(properties, own.Properties)
		tags = append(tags, own.Tags...)
	}
	if p.ImageNames != "" {
		values["name"] = jsonText(strings.ReplaceAll(p.ImageNames, "{image_name}", img.Name))
	}
	if len(properties) > 0 {
		values["properties"] = jsonText(properties)
	}
	if len(tags) > 0 {
		slices.Sort(tags)
		values["tags"] = jsonText(slices.Compact(tags))
	}
	s.Values = plannedTexts(values)
}

// plannedTexts encodes values that are not JSON, such as the placeholder of a masked value, as JSON strings.
func plannedTexts(values map[string]string) map[string]string {
	for name, text := range values {
		if !json.Valid([]byte(text)) {
			values[name] = jsonText(text)
		}
	}
	return values
}

func jsonText(v any) string {
	text, _ := json.Marshal(v) // cannot fail for strings, and maps and lists of strings
	return string(text)
}
