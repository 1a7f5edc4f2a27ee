//go:build integration

package watch

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// rolling is a cloud with a label that the test changes under load.
const rolling = `
npctl { images_dir = "images" }

diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "printf old >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
  keep = 1
}

label "small" {
  min_ready     = 2
  max_ready_age = "3s"
}

provider "openstack" "one" {
  cloud        = "one"
  image_format = "raw"
  rate         = 0
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    max_servers       = 8
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}
`

// second is another provider with the label, and with a label that no other provider has.
const second = `
label "spare" { min_ready = 12 }

provider "openstack" "two" {
  cloud        = "two"
  image_format = "raw"
  rate         = 0
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
    label "spare" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}
`

// rollingCloud serves a cloud of rolling or second.
func rollingCloud(t *testing.T, provider string) *project {
	t.Helper()
	o := emulator.Options{BuildTime: 200 * time.Millisecond, DeleteTime: 100 * time.Millisecond}
	if provider == "two" {
		o.Range = 1
	}
	return newProject(t, provider, o)
}

// edited returns the text with replacements.
func edited(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("there is no %s in\n%s", pairs[i], text)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// with returns the nodes that match a filter.
func (s *site) with(f wire.NodeFilter) []wire.Node {
	s.t.Helper()
	nodes, err := s.Nodes(s.t.Context(), f)
	testutil.Must(s.t, err)
	return nodes
}

func TestLabelIsRenamedUnderLoad(t *testing.T) {
	t.Parallel()
	p := rollingCloud(t, "one")
	s := newSite(t, rolling, p)
	d := s.start()
	f := s.traffic("small", p)
	f.awaitProgress()
	for _, change := range []struct {
		from, to string
		reload   func()
	}{
		{"small", "tiny", func() {
			d.Signal(syscall.SIGHUP)
			testutil.Await(s.t, "the configuration was reloaded", func() bool { return d.Logged("configuration reloaded") > 0 })
		}},
		{"tiny", "little", func() { s.reload(0, "Configuration reloaded.") }},
	} {
		f.permitFailures(change.from)
		s.write(edited(t, rolling, `label "small"`, `label "`+change.to+`"`))
		change.reload()
		f.setLabel(change.to)
		f.awaitProgress()
		testutil.Await(s.t, "nodes with the old label are gone", func() bool { return len(s.with(wire.NodeFilter{Label: change.from})) == 0 })
		testutil.Await(s.t, "nodes with the new label are ready", func() bool {
			return len(s.with(wire.NodeFilter{Label: change.to, States: []string{"ready"}})) >= 2
		})
	}
	f.end()
	for _, why := range f.failed {
		if !strings.Contains(why, "small") && !strings.Contains(why, "tiny") {
			t.Errorf("a request for a renamed label failed with: %s", why)
		}
	}
	t.Logf("errors of requests for the old labels: %q", f.failed)
	d.Stop()
}

// image returns the record of an image.
func (s *site) image(name string) (img wire.Image) {
	s.t.Helper()
	images, err := s.Images(s.t.Context())
	testutil.Must(s.t, err)
	if i := slices.IndexFunc(images, func(i wire.Image) bool { return i.Name == name }); i >= 0 {
		return images[i]
	}
	return img
}

// uploads returns the IDs of the ready uploads in a cloud.
func uploads(img wire.Image) (ids []string) {
	for _, u := range img.Uploads {
		if u.State == resources.StateReady {
			ids = append(ids, u.ID)
		}
	}
	return ids
}

func TestImageIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	p := rollingCloud(t, "one")
	s := newSite(t, rolling, p)
	d := s.start()
	f := s.traffic("small", p)
	f.awaitProgress()
	old := uploads(s.image("debian"))
	if len(old) != 1 {
		t.Fatalf("uploads are %v", old)
	}

	s.write(edited(t, rolling, "printf old", "printf new"))
	s.reload(0, "build")
	testutil.Await(s.t, "the new build is in the cloud", func() bool {
		return slices.ContainsFunc(uploads(s.image("debian")), func(id string) bool { return id != old[0] })
	})
	f.awaitProgress()
	testutil.Await(s.t, "no node is from the old build", func() bool {
		nodes := s.with(wire.NodeFilter{})
		return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n wire.Node) bool { return n.Upload == old[0] })
	})
	testutil.Await(s.t, "the old build is gone", func() bool { return len(s.image("debian").Builds) == 1 && s.imagesIn(p) == 1 })

	other := edited(t, rolling, `diskimage "debian"`, `diskimage "noble"`, "diskimage.debian", "diskimage.noble")
	s.write(other)
	s.reload(0, "build")
	testutil.Await(s.t, "every node is from the other image", func() bool {
		nodes := s.with(wire.NodeFilter{})
		return len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n wire.Node) bool { return n.Image != "diskimage.noble" })
	})
	f.awaitProgress()
	testutil.Await(s.t, "the old image is gone", func() bool { return len(s.image("debian").Builds) == 0 && s.imagesIn(p) == 1 })
	f.end()
	d.Stop()
}

// imagesIn counts the uploaded images in a cloud.
func (s *site) imagesIn(p *project) (n int) {
	for _, thing := range p.things() {
		if thing.Type == "image" {
			n++
		}
	}
	return n
}

func TestProviderIsRemovedUnderLoad(t *testing.T) {
	t.Parallel()
	one, two := rollingCloud(t, "one"), rollingCloud(t, "two")
	s := newSite(t, rolling+second, one, two)
	d := s.start()
	f := s.traffic("small", one, two)
	testutil.Await(s.t, "both providers are full of nodes", func() bool { return len(s.with(wire.NodeFilter{Label: "spare", States: []string{"ready"}})) == 12 })
	used := s.nodes("spare")[0]
	f.awaitProgress()

	s.write(rolling) // one edit
	s.reload(1, "would remove node.", "-allow-destroy")
	d.Signal(syscall.SIGHUP)
	testutil.Await(s.t, "the rejection of the new configuration is logged", func() bool { return d.Logged("new configuration refused") > 0 })
	f.awaitProgress()
	testutil.Await(s.t, "the old configuration stays active", func() bool { return len(s.with(wire.NodeFilter{Label: "spare", States: []string{"ready"}})) == 12 })

	s.reloadWith([]string{"-allow-destroy"}, 0, "Configuration reloaded.")
	testutil.Await(s.t, "only the node in use is left in the provider", func() bool {
		nodes := s.with(wire.NodeFilter{Provider: "two", Label: "spare"})
		return len(nodes) == 1 && nodes[0].ID == used.ID && nodes[0].State == resources.StateInUse
	})
	f.awaitProgress()
	if gone := f.unexpectedChange(used); gone != "" {
		t.Error(gone)
	}
	if _, err := s.ReturnNode(t.Context(), used.ID); err != nil {
		t.Fatal(err)
	}
	testutil.Await(s.t, "no record of the provider is left", func() bool {
		providers, err := s.Providers(t.Context())
		return err == nil && len(providers) == 1 && providers[0].Name == "one"
	})
	if left := two.things(); len(left) > 0 {
		t.Errorf("in its cloud there is still %+v", left)
	}
	f.awaitProgress()
	f.end()
	d.Stop()
}

func TestPoolIsShrunkUnderLoad(t *testing.T) {
	t.Parallel()
	p := rollingCloud(t, "one")
	s := newSite(t, rolling, p)
	d := s.start()
	f := s.traffic("small", p)
	testutil.Await(s.t, "the pool is in use", func() bool { return len(s.with(wire.NodeFilter{})) > 4 })
	s.write(edited(t, rolling, "max_servers       = 8", "max_servers       = 2"))
	s.reload(0)
	testutil.Await(s.t, "the pool has its maximum number of nodes", func() bool { return len(s.with(wire.NodeFilter{})) <= 2 })
	most := 0
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		most = max(most, len(s.with(wire.NodeFilter{})))
	}
	if most > 2 {
		t.Errorf("there were %d nodes in a pool of 2", most)
	}
	f.awaitProgress()
	s.write(rolling)
	s.reload(0)
	testutil.Await(s.t, "the pool grows again", func() bool { return len(s.with(wire.NodeFilter{})) > 2 })
	f.end()
	d.Stop()
}

func TestInvalidConfigurationIsRejectedUnderLoad(t *testing.T) {
	t.Parallel()
	p := rollingCloud(t, "one")
	s := newSite(t, rolling, p)
	d := s.start()
	f := s.traffic("small", p)
	f.awaitProgress()
	s.write(edited(t, rolling, "max_servers", "max_serfers"))
	s.reload(1, "npctl.hcl line 24", `"max_servers"`)
	f.awaitProgress()
	s.write(edited(t, rolling, `flavor = "small"`, `flavor = "smal"`))
	s.reload(1, "provider.one.pool.main.label.small", `"smal"`, "small")
	f.awaitProgress()
	s.write(edited(t, rolling, "min_ready     = 2", "min_ready     = 3"))
	s.reload(0, "Configuration reloaded.")
	f.end()
	testutil.Await(s.t, "the next valid configuration is used", func() bool { return s.census() == "map[ready:3]" })
	d.Stop()
}
