package drivertest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func catalogueTests() []test {
	reads := []string{"catalogue"}
	return []test{
		{"AbilityMatchesSetup", nil, func(t *testing.T, s *suite) {
			if _, ok := drivers.CataloguerOf(s.Cloud); ok && s.FromCatalogue == nil {
				t.Error("the Cloud has a catalogue, and the setup does not say what reads it")
			}
		}},
		{"CatalogueResolvesAsTheCloud", reads, catalogueResolves},
		{"IncompleteCatalogueIsAnError", reads, catalogueIncomplete},
	}
}

// catalogue returns the names of the cloud as a snapshot stores them.
func (s *suite) catalogue(t *testing.T) (names resources.Catalogue) {
	t.Helper()
	lister, ok := drivers.CataloguerOf(s.Cloud)
	if !ok {
		return nil
	}
	listed, err := lister.Catalogue(t.Context())
	testutil.Must(t, err)
	text, err := json.Marshal(listed)
	testutil.Must(t, err)
	testutil.Must(t, json.Unmarshal(text, &names))
	return names
}

// catalogueResolves compares the answers by a catalogue with those of the cloud.
func catalogueResolves(t *testing.T, s *suite) {
	online := s.resolver(t)
	offline, err := s.FromCatalogue(s.catalogue(t))
	testutil.Must(t, err)
	configs := map[string]BadOffer{"a valid offer": {Config: s.Config}}
	for name, bad := range s.BadOffers {
		configs[name] = bad
	}
	type answer struct {
		Offer    resources.ResolvedOffer
		Image    resources.RemoteImage
		Problems []resources.Problem
	}
	for name, offer := range configs {
		var want, got answer
		want.Offer, want.Problems, err = online.ResolveOffer(t.Context(), offer.Config)
		testutil.Must(t, err)
		if got.Offer, got.Problems, err = offline.ResolveOffer(t.Context(), offer.Config); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-cloud +catalogue):\n%s", name, diff)
		}
	}
	if s.lacks("cloud images") {
		return
	}
	for name, spec := range map[string]resources.CloudImageSpec{
		"an image by ID": {Name: "x", ImageID: s.ImageID}, "an unknown ID": {Name: "x", ImageID: "00000000-0000-0000-0000-000000000000"},
		"an unknown name": {Name: "x", Image: "no-such-image"}, "a filter": {Name: "x", Filters: map[string]resources.AnyOf{"name": {"*"}}},
	} {
		var want, got answer
		want.Image, want.Problems, err = online.ResolveImage(t.Context(), spec)
		testutil.Must(t, err)
		if got.Image, got.Problems, err = offline.ResolveImage(t.Context(), spec); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-cloud +catalogue):\n%s", name, diff)
		}
	}
}

// catalogueIncomplete removes one list after the other, and all of them: a name is then not checked, which is no problem of the
// configuration.
func catalogueIncomplete(t *testing.T, s *suite) {
	whole := s.catalogue(t)
	check := func(name string, names resources.Catalogue) {
		resolver, err := s.FromCatalogue(names)
		if err != nil {
			return
		}
		if _, problems, err := resolver.ResolveOffer(t.Context(), s.Config); err == nil && len(problems) > 0 {
			t.Errorf("%s: a valid offer has the problems %+v", name, problems)
		}
		if s.lacks("cloud images") {
			return
		}
		if _, problems, err := resolver.ResolveImage(t.Context(), resources.CloudImageSpec{ImageID: s.ImageID}); err == nil && len(problems) > 0 {
			t.Errorf("%s: an image has the problems %+v", name, problems)
		}
	}
	check("no catalogue", nil)
	for removed := range whole {
		rest := resources.Catalogue{}
		for kind, list := range whole {
			if kind != removed {
				rest[kind] = list
			}
		}
		check("without "+removed, rest)
		rest[removed] = json.RawMessage(`"another type"`)
		check("with another type of "+removed, rest)
	}
}
