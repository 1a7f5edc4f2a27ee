//go:build integration

package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const images = "/nodepool/images"

// builds returns the builds of an image that have data, by ID.
func (s *site) builds(image string) map[string]*znode {
	s.t.Helper()
	found := map[string]*znode{}
	for _, id := range s.children(images + "/" + image + "/builds") {
		if z := s.get(images + "/" + image + "/builds/" + id); z != nil && id != "lock" && z.text != "" {
			found[id] = z
		}
	}
	return found
}

// ready counts the ready builds of an image.
func (s *site) ready(image string) (n int) {
	s.t.Helper()
	for _, z := range s.builds(image) {
		if z.is("state", "ready") {
			n++
		}
	}
	return n
}

func TestBuildersAreRegisteredLikeNodepools(t *testing.T) {
	t.Parallel()
	s := newSite(t, cloud{}.String())
	d := s.start()
	s.awaitImage()
	id, err := os.ReadFile(filepath.Join(s.dir, "images", "builder_id.txt"))
	s.must(err, "builder_id.txt")
	for _, z := range s.builds("debian") {
		if !z.is("builder_id", string(id)) || z.doc["builder"] == nil {
			t.Errorf("builder_id is not %s: %s", id, z.text)
		}
	}
	const builders = "/nodepool/components/builder"
	names := s.children(builders)
	if len(names) != 1 {
		t.Fatalf("builders are %q", names)
	}
	z := s.get(builders + "/" + names[0])
	if !z.is("kind", "builder") || !z.is("state", "running") || !z.is("id", string(id)) || !strings.HasPrefix(names[0], z.doc["hostname"].(string)) {
		t.Errorf("it is %s", z.text)
	}
	d.Stop()
	if names := s.children(builders); len(names) > 0 {
		t.Errorf("after its end: %q", names)
	}
}

// Nodepool's commands set and delete these znodes.
func TestRequestedBuildsOfPausedImagesWait(t *testing.T) {
	t.Parallel()
	s := newSite(t, cloud{}.String())
	s.start()
	s.awaitImage()
	const pause, wish = images + "/debian/pause", images + "/debian/request-build"
	s.create(pause, "", 0)
	s.create(wish, "", 0)
	s.stays("the build waits", 7*time.Second, func() bool { return len(s.builds("debian")) == 1 && s.get(wish) != nil && s.get(pause) != nil })
	s.remove(pause)
	s.await("it is built", func() bool { return s.get(wish) == nil && s.ready("debian") == 2 })
}
