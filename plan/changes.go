package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/npctl/npctl/resources"
)

// changes returns the differences between replacing attributes and those behind a recorded hash.
func (w *world) changes(recorded resources.Hash, now map[string]string) []Change {
	template := w.template(recorded)
	if template == nil {
		return nil
	}
	before := template.Static
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range now {
		names[name] = true
	}
	var changes []Change
	for name := range names {
		if before[name] != now[name] {
			changes = append(changes, Change{Attribute: name, Before: before[name], After: now[name], Forces: true})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Attribute, b.Attribute) })
	return changes
}

// template returns the template of a recorded hash, or nil.
func (w *world) template(recorded resources.Hash) *resources.Template {
	i := slices.IndexFunc(w.seen.Records.Templates, func(t *resources.Template) bool { return t.Hash == recorded })
	if i < 0 {
		return nil
	}
	return w.seen.Records.Templates[i]
}

// changedFiles lists the input files that differ from those behind a recorded hash, by path. It returns nil if one
// side has no list.
func (w *world) changedFiles(recorded resources.Hash, now map[string]string) (changes []FileChange) {
	template := w.template(recorded)
	if template == nil || template.Files == nil || now == nil {
		return nil
	}
	return fileChanges(template.Files, now)
}

// fileChanges lists the files that differ between two lists of digests, by path.
func fileChanges(earlier, now map[string]string) (changes []FileChange) {
	for path, digest := range now {
		switch before, known := earlier[path]; {
		case !known:
			changes = append(changes, FileChange{path, FileAdded})
		case before != digest:
			changes = append(changes, FileChange{path, FileChanged})
		}
	}
	for path := range earlier {
		if _, still := now[path]; !still {
			changes = append(changes, FileChange{path, FileRemoved})
		}
	}
	slices.SortFunc(changes, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return changes
}

// planLaunch sets the planned values of a launch: the attributes of its offer, with their resolved names as far as
// known. uploads are the planned uploads.
func planLaunch(w *world, s *Step, at *poolOffer, uploads map[imageAt]string) {
	values := map[string]string{}
	maps.Copy(values, at.offer.Values)
	view, _ := w.view(s.Provider)
	maps.Copy(values, view.Offers[OfferKey{at.at.pool, at.offer.Label}].Values)
	if ref := at.offer.Image; ref != (resources.ImageRef{}) {
		values["image"] = jsonText(ref.String())
	}
	if price, known := at.provider.Price(view.Offers[OfferKey{at.at.pool, at.offer.Label}].FlavorNames); known {
		values[priceValue] = jsonText(price)
	}
	if s.Zone != "" {
		values["zone"] = jsonText(s.Zone)
	}
	var image resources.RemoteImage // of the cloud, unless it is not uploaded yet
	if ref, upload := at.offer.Image, w.upload[s.Upload]; ref.Kind == resources.CloudImage {
		image = view.CloudImages[ref.Name].Image
	} else if upload != nil && uploads[imageAt{ref.Name, s.Provider}] == "" {
		image = resources.RemoteImage{ID: upload.ExternalID, Name: upload.Name}
	}
	if image.ID != "" {
		values["image_id"] = jsonText(image.ID)
	}
	if image.Name != "" {
		values["image_name"] = jsonText(image.Name)
	}
	s.Values = plannedTexts(values)
}

// priceValue is the planned value of a launch that is no attribute of its node.
const priceValue = "price_per_hour"

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

// Fingerprint is a digest of a record or file that a step relies on. A saved plan with a changed fingerprint is
// stale. The digest covers the content of records and files, not their revision or path, so a copy of the state has
// the same fingerprints.
type Fingerprint struct {
	Subject string `json:"subject"` // such as node/0000000001 or provider.vexxhost/server/4f1c…
	Digest  string `json:"digest"`
}

// noRecord is the digest of a record that does not exist.
const noRecord = "none"

// Attributes are the attributes of a record, as JSON by name.
type Attributes map[string]string

// volatile lists attributes that change without any effect on a step.
var volatile = map[resources.Kind][]string{
	resources.KindNode: {"checked", "lease"},
}

// AttributesOf returns the attributes of a record, or nil without one.
func AttributesOf(record resources.Record) Attributes {
	if record == nil {
		return nil
	}
	text, err := json.Marshal(record)
	if err != nil {
		panic("plan: attributes of " + record.Key().String() + ": " + err.Error())
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		panic("plan: attributes of " + record.Key().String() + ": " + err.Error())
	}
	for _, name := range volatile[record.Key().Kind] {
		delete(raw, name)
	}
	attributes := make(Attributes, len(raw))
	for name, value := range raw {
		attributes[name] = string(value)
	}
	return attributes
}

// Digest returns the digest of the attributes in a Fingerprint.
func (a Attributes) Digest() string {
	if a == nil {
		return noRecord
	}
	parts := make([]string, 0, 2*len(a))
	for _, name := range slices.Sorted(maps.Keys(a)) {
		parts = append(parts, name, a[name])
	}
	return digest(parts...)
}

func (w *world) fingerprint(key resources.Key) Fingerprint {
	return Fingerprint{Subject: key.String(), Digest: AttributesOf(w.seen.Records.Get(key)).Digest()}
}
