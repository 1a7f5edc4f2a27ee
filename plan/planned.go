package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// planLaunch notes what the instance of a launch is to be made with: what its offer says, as far as known with what the
// names in it mean in the cloud today.
func (c *computation) planLaunch(s *Step, at *place) {
	values := map[string]string{}
	maps.Copy(values, at.offer.Values)
	view, _ := c.view(s.Provider)
	maps.Copy(values, view.Offers[OfferKey{at.at.pool, at.offer.Label}].Values)
	values["image"] = jsonText(at.offer.Image.String())
	if s.Zone != "" {
		values["zone"] = jsonText(s.Zone)
	}
	image := c.knownImage(s, at)
	if image.ID != "" {
		values["image_id"] = jsonText(image.ID)
	}
	if image.Name != "" {
		values["image_name"] = jsonText(image.Name)
	}
	s.Values = plannedTexts(values)
}

// knownImage is the image in the cloud that a launch boots from, unless it is yet to be uploaded.
func (c *computation) knownImage(s *Step, at *place) resources.RemoteImage {
	ref := at.offer.Image
	if ref.Kind == resources.CloudImage {
		view, _ := c.view(s.Provider)
		return view.CloudImages[ref.Name].Image
	}
	upload := c.world.upload[s.Upload]
	if upload == nil || c.coming[imageAt{ref.Name, s.Provider}] != "" {
		return resources.RemoteImage{}
	}
	return resources.RemoteImage{ID: upload.ExternalID, Name: upload.Name}
}

// planUploadValues notes what an image is to be uploaded with. The time and the id in its name are known only then.
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

// plannedTexts makes JSON of what is none, such as what stands for a masked value.
func plannedTexts(values map[string]string) map[string]string {
	for name, text := range values {
		if !json.Valid([]byte(text)) {
			values[name] = jsonText(text)
		}
	}
	return values
}

func jsonText(v any) string {
	text, _ := json.Marshal(v) // a text, or texts by name or in a list
	return string(text)
}
