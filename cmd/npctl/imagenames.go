package main

import (
	"fmt"
	"strings"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// findImage returns the image with the given name or address, or an error that suggests a similar name.
func findImage(refs []resources.ImageRef, meant string) (resources.ImageRef, error) {
	var known []string
	for _, ref := range refs {
		if meant == ref.Name || meant == ref.String() {
			return ref, nil
		}
		known = append(known, ref.Name)
	}
	err := fmt.Errorf("there is no image %q, neither configured nor recorded", meant)
	return resources.ImageRef{}, didYouMean(err, meant, known, "npctl image list shows the images; npctl does not build a cloud_image, it finds it in its provider")
}

// newestWord selects the newest build in place of an ID.
const newestWord = "newest"

// leastPrefix is the minimum length of an abbreviated build ID.
const leastPrefix = 4

// findBuild returns a build of an image by its ID, by the start of its ID, or by "newest".
func findBuild(r plan.Records, image, meant string) (*resources.Build, error) {
	builds := inspect.BuildsOf(r, image)
	if meant == newestWord {
		if newest := inspect.NewestReadyBuild(builds); newest != nil {
			return newest, nil
		}
		return nil, hint(fmt.Errorf("image %s has no build that is ready", image), "npctl image show "+image+" shows its builds")
	}
	var found []*resources.Build
	var known []string
	for _, b := range builds {
		known = append(known, fmt.Sprintf("%s (%s)", short(b.ID), b.State))
		if b.ID == meant || len(meant) >= leastPrefix && strings.HasPrefix(b.ID, meant) {
			found = append(found, b)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, hint(fmt.Errorf("several builds of %s begin with %q", image, meant), "use more characters of the id; npctl image show "+image+" shows them whole")
	case len(known) == 0:
		return nil, hint(fmt.Errorf("image %s has no builds", image), "npctl image build "+image+" makes one")
	default:
		return nil, hint(fmt.Errorf("image %s has no build %q", image, meant), "its builds are "+text.And(known)+"; at least "+fmt.Sprint(leastPrefix)+" characters are enough, and so is "+newestWord)
	}
}
