package reconcile

import (
	"context"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

type architectures struct{ image, flavor string }

func (a architectures) ResolveOffer(context.Context, cty.Value) (resources.ResolvedOffer, []resources.Problem, error) {
	return resources.ResolvedOffer{FlavorNames: []string{"t3.small"}, Architectures: map[string][]string{"t3.small": strings.Fields(a.flavor)}}, nil, nil
}

func (a architectures) ResolveImage(context.Context, resources.CloudImageSpec) (resources.RemoteImage, []resources.Problem, error) {
	return resources.RemoteImage{ID: "ami-1", Architecture: a.image}, nil, nil
}

// TestImageOfAnotherArchitectureIsAProblem: its instance would never boot.
func TestImageOfAnotherArchitectureIsAProblem(t *testing.T) {
	p := &resources.Provider{Name: "ec2", CloudImages: []resources.CloudImageSpec{{Name: "debian"}}, Pools: []resources.Pool{{Name: "main",
		Offers: []resources.Offer{{Label: "small", Image: resources.ImageRef{Kind: resources.CloudImage, Name: "debian"}}}}}}
	for test, want := range map[architectures]string{
		{"arm64", "x86_64"}:     "ami-1 is for arm64, and t3.small runs x86_64; choose an image and flavors of one architecture",
		{"i386", "i386 x86_64"}: "",
		{"x86_64", "x86_64"}:    "",
		{"", "x86_64"}:          "",
		{"arm64", ""}:           "",
	} {
		var view plan.ProviderView
		if err := (&Engine{}).resolve(t.Context(), p, test, &view); err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, problem := range view.Offers[plan.OfferKey{Pool: "main", Label: "small"}].Problems {
			got = problem.Detail
		}
		if got != want {
			t.Errorf("%+v: problem %q, want %q", test, got, want)
		}
	}
}
