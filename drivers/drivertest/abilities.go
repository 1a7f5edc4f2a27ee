package drivertest

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func resolverTests() []test {
	has := []string{"resolver"}
	return []test{
		{"AbilityMatchesSetup", nil, func(t *testing.T, s *suite) { _, ok := drivers.ResolverOf(s.Cloud); s.checkAbility(t, "resolver", ok) }},
		{"OfferMeansWhatItsInstancesUse", has, offerIsHonest},
		{"MistakesInOffersAreProblems", []string{"resolver", "BadOffers"}, badOffers},
		{"ImageIsFoundByIDNameAndFilters", []string{"resolver", "images"}, imageIsFound},
		{"ImageThatIsNotThereIsAProblem", []string{"resolver", "cloud images"}, imageIsMissing},
	}
}

func (s *suite) resolver(t *testing.T) drivers.Resolver {
	t.Helper()
	r, ok := drivers.ResolverOf(s.Cloud)
	if !ok {
		t.Fatal("the Cloud is not a Resolver")
	}
	return r
}

func offerIsHonest(t *testing.T, s *suite) {
	offer, problems, err := s.resolver(t).ResolveOffer(t.Context(), s.Config)
	if err != nil || len(problems) > 0 {
		t.Fatalf("ResolveOffer = %+v, %v", problems, err)
	}
	if offer.Flavor == "" {
		t.Error("the offer has no flavor")
	}
	spec := s.spec()
	s.create(t, spec)
	now := s.ready(t, s.Cloud, spec)
	if diff := cmp.Diff(offer.Resources, now.Resources); diff != "" {
		t.Errorf("an instance uses other resources (-offer +instance):\n%s", diff)
	}
}

func badOffers(t *testing.T, s *suite) {
	for name, bad := range s.BadOffers {
		_, problems, err := s.resolver(t).ResolveOffer(t.Context(), bad.Config)
		if err != nil {
			t.Errorf("%s: ResolveOffer: %v, want problems", name, err)
			continue
		}
		i := slices.IndexFunc(problems, func(p resources.Problem) bool { return p.Attribute == bad.Attribute })
		if i < 0 {
			t.Errorf("%s: problems are %+v, want one of %s", name, problems, bad.Attribute)
			continue
		}
		if p := problems[i]; p.Detail == "" || bad.Near != "" && !slices.Contains(p.Suggestions, bad.Near) {
			t.Errorf("%s: problem is %+v, want a detail and %q among the near matches", name, p, bad.Near)
		}
	}
}

func imageIsFound(t *testing.T, s *suite) {
	store, resolver := s.images(t), s.resolver(t)
	content := s.content()
	var made [2]resources.RemoteImage
	for i := range made {
		spec := s.imageSpec(content)
		spec.Properties["drivertest_run"] = s.installation
		var err error
		if made[i], err = store.UploadImage(t.Context(), spec, bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
	}
	newest := slices.MaxFunc(made[:], func(a, b resources.RemoteImage) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return bytes.Compare([]byte(b.ID), []byte(a.ID)) // the smaller ID wins ties
	})
	for name, want := range map[string]struct {
		spec resources.CloudImageSpec
		id   string
	}{
		"id":      {resources.CloudImageSpec{Name: "x", ImageID: made[0].ID}, made[0].ID},
		"name":    {resources.CloudImageSpec{Name: "x", Image: made[1].Name}, made[1].ID},
		"filters": {resources.CloudImageSpec{Name: "x", Filters: map[string]resources.AnyOf{"name": {"drivertest-*"}, "drivertest_run": {s.installation}, "tag": {"drivertest"}}}, newest.ID},
		"lists":   {resources.CloudImageSpec{Name: "x", Filters: map[string]resources.AnyOf{"name": {"none", "drivertest-*"}, "drivertest_run": {s.installation, "none"}}}, newest.ID},
	} {
		got, problems, err := resolver.ResolveImage(t.Context(), want.spec)
		if err != nil || len(problems) > 0 || got.ID != want.id {
			t.Errorf("by %s: %s, %+v, %v; want %s", name, got.ID, problems, err, want.id)
		}
	}
}

func imageIsMissing(t *testing.T, s *suite) {
	for name, spec := range map[string]resources.CloudImageSpec{
		"id":      {Name: "x", ImageID: "00000000-0000-4000-8000-00000000dead"},
		"name":    {Name: "x", Image: "no-image-is-called-this"},
		"filters": {Name: "x", Filters: map[string]resources.AnyOf{"name": {"no-image-is-called-*"}}},
	} {
		got, problems, err := s.resolver(t).ResolveImage(t.Context(), spec)
		if err != nil || len(problems) != 1 || problems[0].Detail == "" {
			t.Errorf("by %s: %s, %+v, %v; want one problem", name, got.ID, problems, err)
		}
	}
}

func consoleTests() []test {
	return []test{
		{"AbilityMatchesSetup", nil, func(t *testing.T, s *suite) { _, ok := drivers.ConsoleOf(s.Cloud); s.checkAbility(t, "console", ok) }},
		{"ConsoleOfAnInstanceCanBeRead", []string{"console"}, consoleIsRead},
	}
}

func consoleIsRead(t *testing.T, s *suite) {
	console, _ := drivers.ConsoleOf(s.Cloud)
	spec := s.spec()
	s.create(t, spec)
	now := s.ready(t, s.Cloud, spec)
	text, err := console.ConsoleLog(t.Context(), now.ID)
	testutil.Must(t, err)
	if len(text) > 64<<10 {
		t.Errorf("console has %d bytes, want at most 64 KiB", len(text))
	}
	if _, err := console.ConsoleLog(t.Context(), "00000000-0000-4000-8000-00000000dead"); err == nil {
		t.Error("the console of an instance that does not exist could be read")
	}
}

func accessTests() []test {
	return []test{
		{"AbilityMatchesSetup", nil, func(t *testing.T, s *suite) { _, ok := drivers.AccessorOf(s.Cloud); s.checkAbility(t, "access", ok) }},
		{"AccessIsAnObjectForReadyInstances", []string{"access"}, accessIsIssued},
	}
}

func accessIsIssued(t *testing.T, s *suite) {
	accessor, _ := drivers.AccessorOf(s.Cloud)
	spec := s.spec()
	s.create(t, spec)
	now := s.ready(t, s.Cloud, spec)
	text, err := accessor.Access(t.Context(), now.ID)
	testutil.Must(t, err)
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil || len(object) == 0 {
		t.Errorf("the access is no JSON object: %v", err)
	}
	if now.Login.ConnectionType == "" {
		t.Error("an instance with access has no connection type")
	}
	if _, err := accessor.Access(t.Context(), "no-such-instance"); err == nil {
		t.Error("there is access to an instance that does not exist")
	}
}
