package qemu

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

type values = map[string]cty.Value

// with returns an empty block with these attributes.
func with(b schema.Block, v values) cty.Value {
	all := b.Null().AsValueMap()
	maps.Copy(all, v)
	return cty.ObjectVal(all)
}

func offerWith(v values) cty.Value { return with(New().Schema().Label, v) }

// place is a directory of the driver in a test.
type place struct {
	dir           string
	qemu, qemuImg string
	image         string // path
}

func (p place) open(t *testing.T, v values) *Cloud {
	t.Helper()
	all := values{"program": cty.StringVal(p.qemu), "qemu_img": cty.StringVal(p.qemuImg)}
	maps.Copy(all, v)
	c, err := New().Open(t.Context(), drivers.Env{Dir: p.dir, Provider: "lab", Installation: "test"}, with(New().Schema().Provider, all))
	testutil.Must(t, err)
	return c.(*Cloud)
}

// fakePlace is a directory with fake programs.
func fakePlace(t *testing.T) place {
	t.Helper()
	p := place{dir: t.TempDir(), image: filepath.Join(t.TempDir(), "tiny.raw")}
	p.qemu, p.qemuImg = fakePrograms(t)
	testutil.Must(t, os.WriteFile(p.image, make([]byte, 1<<20), 0o600))
	return p
}

// limits are enough for the machines of the suite on small hosts.
func limits() values {
	return values{"max_cores": cty.NumberIntVal(100), "max_ram": cty.NumberIntVal(1 << 20)}
}

// setup returns the suite's access to a place.
func (p place) setup(t *testing.T) drivertest.Setup {
	c := p.open(t, limits())
	offer := values{"ram": cty.NumberIntVal(256), "accel": cty.StringVal("tcg"), "user": cty.StringVal("zuul")}
	changed := func(name string, v cty.Value) cty.Value {
		all := maps.Clone(offer)
		all[name] = v
		return offerWith(all)
	}
	return drivertest.Setup{
		Cloud:   c,
		Reopen:  func(t *testing.T) drivers.Cloud { return p.open(t, limits()) },
		Config:  offerWith(offer),
		ImageID: p.image,
		Rejected: map[string]func(*drivers.Spec){
			"no such image":    func(s *drivers.Spec) { s.ImageID = "no-such-image" },
			"no such file":     func(s *drivers.Spec) { s.ImageID = p.image + "-missing" },
			"too large":        func(s *drivers.Spec) { s.Config = changed("cores", cty.NumberIntVal(1000)) },
			"unknown argument": func(s *drivers.Spec) { s.Config = changed("args", cty.ListVal([]cty.Value{cty.StringVal("-unknown")})) },
			"no such firmware": func(s *drivers.Spec) { s.Config = changed("firmware", cty.StringVal("/nonexistent")) },
		},
		BadOffers: map[string]drivertest.BadOffer{
			"cores":    {Config: changed("cores", cty.NumberIntVal(1000)), Attribute: "cores"},
			"ram":      {Config: changed("ram", cty.NumberIntVal(2<<20)), Attribute: "ram"},
			"firmware": {Config: changed("firmware", cty.StringVal("/nonexistent")), Attribute: "firmware"},
		},
		FillQuota:    func(t *testing.T) { p.addForeign(t, 100) },
		Foreign:      func(t *testing.T) string { return p.addForeign(t, 1) },
		ForeignImage: p.addForeignImage,
		Kill:         func(t *testing.T, k *testutil.Killer) drivers.Cloud { return mortal{p.open(t, limits()), k} },
		Objects:      p.objects,
		Files:        p.files,
		Neighbours:   p.neighbours,
		Spoil: map[string]func(*testing.T, resources.Instance){"killed": func(t *testing.T, i resources.Instance) {
			if killed, err := killHolder(c.file(i.ID, filePID)); err != nil || !killed {
				t.Errorf("kill the process of %s: %t, %v", i.ID, killed, err)
			}
		}, "stopped": func(t *testing.T, i resources.Instance) {
			pid, err := holderOf(c.file(i.ID, filePID))
			testutil.Must(t, err)
			testutil.Must(t, syscall.Kill(pid, syscall.SIGSTOP))
		}},
		Copies: p.copiesOf,
		Omits: map[string]string{
			"Attach":         "a machine has no objects but its files: TestFilesOfOthersInAMachineStay",
			"Exhaust":        "an offer has no list of types",
			"LoseNextAnswer": "groups Kills and ImageKills lose each response",
			"Calls":          "a list reads the directory once",
			"OpenWrong":      "the programs need no password",
			"Withdraw":       "the programs need no password",
		},
		Alone: true,
		Lacks: []string{"sweeper", "access", "snapshots", "adopter"},
		Many:  4,
	}
}

// addForeign adds a machine without ownership tags.
func (p place) addForeign(t *testing.T, cores int64) string {
	t.Helper()
	c := p.open(t, limits())
	m := machine{ID: "by-hand", Name: "by-hand", Created: time.Now(), Cores: cores, RAM: 64}
	testutil.Must(t, os.MkdirAll(c.directoryOf(m.ID), 0o700))
	testutil.Must(t, c.write(m))
	t.Cleanup(func() { _ = os.RemoveAll(c.directoryOf(m.ID)) })
	return m.ID
}

func (p place) addForeignImage(t *testing.T) drivertest.Foreign {
	t.Helper()
	c := p.open(t, nil)
	testutil.Must(t, os.MkdirAll(c.imageStore.dir, 0o700))
	path := c.path("by-hand.raw")
	testutil.Must(t, os.WriteFile(path, make([]byte, 512), 0o600))
	t.Cleanup(func() { _ = os.Remove(path) })
	return drivertest.Foreign{ID: "by-hand.raw", Stays: func() error { _, err := os.Stat(path); return err }}
}

// spec returns the Spec of a machine.
func (p place) spec(id string, offer values) drivers.Spec {
	return drivers.Spec{
		Marks:    resources.OwnerTags{Installation: "test", Kind: resources.KindNode, ID: id, Provider: "lab"},
		Hostname: "np" + id, ImageID: p.image, Config: offerWith(offer),
	}
}

// create creates a machine and deletes it after the test.
func create(t *testing.T, c *Cloud, spec drivers.Spec) resources.Instance {
	t.Helper()
	i, err := c.Create(t.Context(), spec)
	testutil.Must(t, err)
	t.Cleanup(func() { testutil.Must(t, c.Delete(contextOf(t), i.ID, spec.Marks)) })
	return i
}

// status returns the status of a listed machine, or an empty one.
func status(t *testing.T, c *Cloud, id string) resources.Status {
	t.Helper()
	list, err := c.List(t.Context())
	testutil.Must(t, err)
	i := slices.IndexFunc(list, func(i resources.Instance) bool { return i.ID == id })
	if i < 0 {
		return ""
	}
	return list[i].Status
}
