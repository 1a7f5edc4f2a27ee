package sandbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/drivertest"
	"github.com/npctl/npctl/drivers/sandbox"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// with returns a value of a block with some attributes set.
func with(b schema.Block, attributes map[string]cty.Value) cty.Value {
	values := b.Null().AsValueMap()
	maps.Copy(values, attributes)
	return cty.ObjectVal(values)
}

func provider(attributes map[string]cty.Value) cty.Value {
	return with(sandbox.New().Schema().Provider, attributes)
}

// block returns a block of the provider.
func block(name string, attributes map[string]cty.Value) cty.Value {
	all := sandbox.New().Schema().Provider.Blocks
	i := slices.IndexFunc(all, func(b schema.NestedBlock) bool { return b.Name == name })
	return with(all[i].Schema, attributes)
}

func offer(attributes map[string]cty.Value) cty.Value {
	return with(sandbox.New().Schema().Label, attributes)
}

func texts(values ...string) cty.Value {
	var list []cty.Value
	for _, value := range values {
		list = append(list, cty.StringVal(value))
	}
	return cty.ListVal(list)
}

func open(t *testing.T, dir string, attributes map[string]cty.Value) drivers.Cloud {
	t.Helper()
	c, err := sandbox.New().Open(t.Context(), drivers.Env{Provider: "play", Dir: dir}, provider(attributes))
	testutil.Must(t, err)
	return c
}

// world is a cloud with faults that come and go.
type world struct {
	dir, faults string
	attributes  map[string]cty.Value
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir()}
	w.faults = filepath.Join(w.dir, "faults.json")
	w.attributes = map[string]cty.Value{"build_time": cty.StringVal("20ms"), "delete_time": cty.StringVal("10ms"), "fault_file": cty.StringVal(w.faults),
		"public_image": cty.MapVal(map[string]cty.Value{"debian-12": block("public_image", nil)})}
	return w
}

func (w *world) open(t *testing.T) drivers.Cloud { t.Helper(); return open(t, w.dir, w.attributes) }

// fail writes the faults until the test ends.
func (w *world) fail(t *testing.T, faults ...map[string]any) {
	t.Helper()
	text, err := json.Marshal(faults)
	testutil.Must(t, err)
	testutil.Must(t, os.WriteFile(w.faults, text, 0o600))
	t.Cleanup(func() { _ = os.Remove(w.faults) })
}

// others are objects of blocks, which other programs have created.
func (w *world) others(t *testing.T, blocks map[string]cty.Value) drivers.Cloud {
	t.Helper()
	all := maps.Clone(w.attributes)
	maps.Copy(all, blocks)
	return open(t, w.dir, all)
}

func (w *world) server(t *testing.T, name string, metadata map[string]cty.Value) drivertest.Foreign {
	t.Helper()
	attributes := map[string]cty.Value{}
	if metadata != nil {
		attributes["metadata"] = cty.MapVal(metadata)
	}
	c := w.others(t, map[string]cty.Value{"foreign_server": cty.MapVal(map[string]cty.Value{name: block("foreign_server", attributes)})})
	return w.stays(t, c, resources.KindNode, name)
}

func (w *world) image(t *testing.T, name string, properties map[string]cty.Value) drivertest.Foreign {
	t.Helper()
	attributes := map[string]cty.Value{"private": cty.True}
	if properties != nil {
		attributes["properties"] = cty.MapVal(properties)
	}
	c := w.others(t, map[string]cty.Value{"public_image": cty.MapVal(map[string]cty.Value{name: block("public_image", attributes)})})
	return w.stays(t, c, resources.KindUpload, name)
}

// stays returns the object with a name. It must keep its ownership tags.
func (w *world) stays(t *testing.T, c drivers.Cloud, kind resources.Kind, name string) drivertest.Foreign {
	t.Helper()
	a := c.(drivers.Adopter)
	id := ""
	servers, err := c.List(t.Context())
	testutil.Must(t, err)
	for _, s := range servers {
		if kind == resources.KindNode && s.Name == name {
			id = s.ID
		}
	}
	if kind == resources.KindUpload {
		image, _, err := c.(drivers.Resolver).ResolveImage(t.Context(), resources.CloudImageSpec{Image: name})
		testutil.Must(t, err)
		id = image.ID
	}
	before, found, err := a.LookUp(t.Context(), kind, id)
	if err != nil || !found {
		t.Fatalf("%s %s: found is %t, %v", kind, name, found, err)
	}
	return drivertest.Foreign{ID: id, Stays: func() error {
		now, found, err := a.LookUp(context.WithoutCancel(t.Context()), kind, id)
		switch {
		case err != nil:
			return err
		case !found || now.Instance.Status == resources.StatusDeleting || now.Facts().Marks != before.Facts().Marks:
			return errors.New(name + " was changed or deleted")
		}
		return nil
	}}
}

func (w *world) setup(t *testing.T) drivertest.Setup {
	t.Helper()
	c := w.open(t)
	debian, _, err := c.(drivers.Resolver).ResolveImage(t.Context(), resources.CloudImageSpec{Name: "debian-12"})
	testutil.Must(t, err)
	small := map[string]cty.Value{"flavor": cty.StringVal("small")}
	changed := func(name string, value cty.Value) cty.Value {
		all := maps.Clone(small)
		all[name] = value
		return offer(all)
	}
	return drivertest.Setup{
		Cloud: c, Reopen: w.open, Config: offer(small), ImageID: debian.ID, Zone: "az2", Alone: true, Settle: 10 * time.Second, ImageSize: 1 << 16,
		Lacks: []string{"access", "console", "snapshots", "sweeper"},
		Rejected: map[string]func(*drivers.Spec){
			"unknown image":  func(s *drivers.Spec) { s.ImageID = "none" },
			"unknown zone":   func(s *drivers.Spec) { s.Zone = "mars" },
			"unknown flavor": func(s *drivers.Spec) { s.Config = changed("flavor", cty.StringVal("smal")) },
		},
		BadOffers: map[string]drivertest.BadOffer{
			"flavor":  {Config: changed("flavor", cty.StringVal("smal")), Attribute: "flavor", Near: "small"},
			"network": {Config: changed("networks", texts("privat")), Attribute: "networks", Near: "private"},
			"zone":    {Config: changed("availability_zones", texts("az3")), Attribute: "availability_zones", Near: "az1"},
		},
		FromCatalogue: func(names resources.Catalogue) (drivers.Resolver, error) {
			return sandbox.New().ResolverOf(provider(w.attributes), names)
		},
		FillQuota: func(t *testing.T) { w.fail(t, map[string]any{"operation": "server.create", "action": "quota"}) },
		LoseNextAnswer: func(t *testing.T) {
			w.fail(t, map[string]any{"operation": "server.create", "action": "lost", "times": 1})
		},
		Foreign: func(t *testing.T) string { return w.server(t, "somebody-elses", nil).ID },
		Spoil: map[string]func(*testing.T, resources.Instance){
			"deleted": func(t *testing.T, i resources.Instance) {
				testutil.Must(t, w.open(t).Delete(t.Context(), i.ID, i.Marks))
			},
		},
		Copies: w.copiesOf,
		Omits: map[string]string{
			"Attach":    "a server has no objects but itself",
			"Exhaust":   "an offer has one flavor",
			"Calls":     "each call reads the file once",
			"OpenWrong": "the file has no password",
			"Withdraw":  "the file has no password",
		},
		ForeignImage: func(t *testing.T) drivertest.Foreign { return w.image(t, "somebody-elses", nil) },
		Kill:         w.kill,
		Objects:      w.objects,
		Files:        func(t *testing.T) []string { return drivertest.FilesIn(t, w.dir) },
		Neighbours: func(t *testing.T, node drivers.Spec, upload drivers.ImageSpec) []drivertest.Foreign {
			tags := map[string]cty.Value{}
			for key, value := range drivers.EncodeTags(node.Marks) {
				tags[key] = cty.StringVal(value)
			}
			tags[drivers.TagInstallation] = cty.StringVal("another")
			return []drivertest.Foreign{w.server(t, node.Hostname, nil), w.server(t, node.Hostname+"-other", tags), w.image(t, upload.Name, nil)}
		},
	}
}

// copiesOf makes an object of the other type with the tags of an original. Those of its own type are not distinguished, as in OpenStack
// nothing copies metadata to another server.
func (w *world) copiesOf(t *testing.T, kind resources.Kind, original string) []drivertest.Foreign {
	t.Helper()
	object, found, err := w.open(t).(drivers.Adopter).LookUp(t.Context(), kind, original)
	if err != nil || !found {
		t.Fatalf("%s %s: found is %t, %v", kind, original, found, err)
	}
	tags := map[string]cty.Value{}
	for key, value := range drivers.EncodeTags(object.Facts().Marks) {
		tags[key] = cty.StringVal(value)
	}
	if kind == resources.KindUpload {
		return []drivertest.Foreign{w.server(t, "server-of-"+original, tags)}
	}
	return []drivertest.Foreign{w.image(t, "backup-of-"+original, tags)}
}

func (w *world) objects(t *testing.T) (all []string) {
	c := w.open(t)
	servers, err := c.List(t.Context())
	testutil.Must(t, err)
	for _, s := range servers {
		if s.Status != resources.StatusDeleting {
			all = append(all, "server "+s.ID)
		}
	}
	images, err := c.(drivers.ImageStore).ListImages(t.Context())
	testutil.Must(t, err)
	for _, i := range images {
		all = append(all, "image "+i.ID)
	}
	return slices.Sorted(slices.Values(all))
}

// mortal is a client of the cloud that is killed at its calls.
type mortal struct {
	drivers.Cloud
	drivers.ImageStore
	drivers.Adopter
	kill *testutil.Killer
}

func (w *world) kill(t *testing.T, k *testutil.Killer) drivers.Cloud {
	c := w.open(t)
	return mortal{c, c.(drivers.ImageStore), c.(drivers.Adopter), k}
}

func (m mortal) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	return testutil.Around(m.kill, "Create", func() (resources.Instance, error) { return m.Cloud.Create(ctx, spec) })
}

func (m mortal) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	_, err := testutil.Around(m.kill, "Delete", func() (any, error) { return nil, m.Cloud.Delete(ctx, id, expected) })
	return err
}

func (m mortal) UploadImage(ctx context.Context, spec drivers.ImageSpec, content io.ReadSeeker) (resources.RemoteImage, error) {
	return testutil.Around(m.kill, "UploadImage", func() (resources.RemoteImage, error) { return m.ImageStore.UploadImage(ctx, spec, content) })
}

func (m mortal) DeleteImage(ctx context.Context, id string, expected resources.OwnerTags) error {
	_, err := testutil.Around(m.kill, "DeleteImage", func() (any, error) { return nil, m.ImageStore.DeleteImage(ctx, id, expected) })
	return err
}

func (m mortal) Adopt(ctx context.Context, id string, marks, replaced resources.OwnerTags) error {
	_, err := testutil.Around(m.kill, "Adopt", func() (any, error) { return nil, m.Adopter.Adopt(ctx, id, marks, replaced) })
	return err
}

func (m mortal) Release(ctx context.Context, id string, marks resources.OwnerTags) error {
	_, err := testutil.Around(m.kill, "Release", func() (any, error) { return nil, m.Adopter.Release(ctx, id, marks) })
	return err
}

func TestContract(t *testing.T) {
	t.Parallel()
	drivertest.RunInBubble(t, func(t *testing.T) drivertest.Setup { return newWorld(t).setup(t) })
}

func TestSchemaFulfilsTheContract(t *testing.T) {
	drivertest.Schema(t, sandbox.New().Schema())
}

func create(t *testing.T, c drivers.Cloud, id, flavor string) (resources.Instance, error) {
	t.Helper()
	debian, _, err := c.(drivers.Resolver).ResolveImage(t.Context(), resources.CloudImageSpec{Name: "debian-12"})
	testutil.Must(t, err)
	return c.Create(t.Context(), drivers.Spec{Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: id}, Hostname: "np" + id,
		ImageID: debian.ID, Config: offer(map[string]cty.Value{"flavor": cty.StringVal(flavor)})})
}

func TestQuotaOfTheConfigurationLimitsServers(t *testing.T) {
	w := newWorld(t)
	w.attributes["quota"] = block("quota", map[string]cty.Value{"cores": cty.NumberIntVal(3)})
	c := w.open(t)
	for n, flavor := range []string{"medium", "small"} {
		_, err := create(t, c, string(rune('1'+n)), flavor)
		testutil.Must(t, err)
	}
	if _, err := create(t, c, "3", "small"); !errors.Is(err, drivers.ErrQuota) || !drivers.IsNothingDone(err) {
		t.Errorf("the fourth core: %v, want ErrQuota", err)
	}
	q, err := c.Quota(t.Context())
	if err != nil || q.Limit.Cores != 3 || q.Used.Cores != 3 || q.Used.Instances != 2 || q.Limit.Instances != 100 {
		t.Errorf("quota %+v, %v", q, err)
	}
}

func TestServerOfFlavorWithoutHostFails(t *testing.T) {
	w := newWorld(t)
	w.attributes["build_time"] = cty.StringVal("0s")
	w.attributes["flavor"] = cty.MapVal(map[string]cty.Value{"huge": block("flavor", map[string]cty.Value{"vcpus": cty.NumberIntVal(64), "ram": cty.NumberIntVal(1024)})})
	c := w.open(t)
	for flavor, want := range map[string]resources.FaultKind{"toobig": resources.FaultCapacity, "huge": ""} {
		made, err := create(t, c, flavor, flavor)
		if err != nil || made.FaultKind != want || (made.Status == resources.StatusFailed) != (want != "") {
			t.Errorf("%s: %+v, %v", flavor, made, err)
		}
	}
}

func TestFaultsStrikeAsConfigured(t *testing.T) {
	const ok, bad = ".", "x"
	for name, test := range map[string]struct {
		fault map[string]cty.Value
		want  string
	}{
		"always":                 {nil, "xxxxxx"},
		"after two":              {map[string]cty.Value{"after": cty.NumberIntVal(2)}, "..xxxx"},
		"every third":            {map[string]cty.Value{"every": cty.NumberIntVal(3)}, "..x..x"},
		"twice":                  {map[string]cty.Value{"times": cty.NumberIntVal(2)}, "xx...."},
		"once after one":         {map[string]cty.Value{"after": cty.NumberIntVal(1), "times": cty.NumberIntVal(1)}, ".x...."},
		"of a name":              {map[string]cty.Value{"name": cty.StringVal("np2*")}, ".x...."},
		"of all servers' names":  {map[string]cty.Value{"operation": cty.StringVal("server.*"), "name": cty.StringVal("np?")}, "xxxxxx"},
		"of another operation":   {map[string]cty.Value{"operation": cty.StringVal("image.delete")}, "......"},
		"of the name of nothing": {map[string]cty.Value{"name": cty.StringVal("debian-12")}, "......"},
	} {
		t.Run(name, func(t *testing.T) {
			attributes := map[string]cty.Value{"operation": cty.StringVal("server.create"), "action": cty.StringVal("rejected")}
			maps.Copy(attributes, test.fault)
			w := newWorld(t)
			w.attributes["fault"] = cty.ListVal([]cty.Value{block("fault", attributes)})
			got := ""
			for n := range 6 {
				_, err := create(t, w.open(t), string(rune('1'+n)), "small") // the file has the counts
				switch {
				case err == nil:
					got += ok
				case errors.Is(err, drivers.ErrRejected):
					got += bad
				default:
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("failed calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestActionsOfFaults(t *testing.T) {
	for action, test := range map[string]struct {
		err    error
		exists bool
	}{
		"quota": {drivers.ErrQuota, false}, "capacity": {drivers.ErrCapacity, false}, "rejected": {drivers.ErrRejected, false},
		"throttled": {drivers.ErrThrottled, false}, "unavailable": {drivers.ErrUnavailable, false}, "lost": {drivers.ErrUnavailable, true},
		"failed": {nil, true}, "slow": {nil, true},
	} {
		w := newWorld(t)
		w.attributes["build_time"] = cty.StringVal("0s")
		c := w.open(t)
		w.fail(t, map[string]any{"operation": "server.create", "action": action, "message": "for a test", "delay": "1ms"})
		if _, err := create(t, c, "1", "small"); !errors.Is(err, test.err) {
			t.Errorf("%s: %v", action, err)
		}
		list, err := c.List(t.Context())
		if err != nil || (len(list) == 1) != test.exists {
			t.Errorf("%s: servers are %v, %v", action, list, err)
		}
		if action == "failed" && (list[0].Status != resources.StatusFailed || list[0].Fault != "for a test") {
			t.Errorf("failed: %+v", list[0])
		}
	}
}

func TestWrongConfigurationIsRejected(t *testing.T) {
	faults := func(attributes map[string]cty.Value) map[string]cty.Value {
		return map[string]cty.Value{"fault": cty.ListVal([]cty.Value{block("fault", attributes)})}
	}
	for name, attributes := range map[string]map[string]cty.Value{
		"unknown action":    faults(map[string]cty.Value{"action": cty.StringVal("explode")}),
		"slow, no delay":    faults(map[string]cty.Value{"action": cty.StringVal("slow")}),
		"failed list":       faults(map[string]cty.Value{"action": cty.StringVal("failed"), "operation": cty.StringVal("server.list")}),
		"unknown operation": faults(map[string]cty.Value{"action": cty.StringVal("lost"), "operation": cty.StringVal("server.boot")}),
		"bad duration":      {"build_time": cty.StringVal("soon")},
		"foreign flavor": {"foreign_server": cty.MapVal(map[string]cty.Value{
			"x": block("foreign_server", map[string]cty.Value{"flavor": cty.StringVal("none")})})},
	} {
		_, err := sandbox.New().Open(t.Context(), drivers.Env{Provider: "x", Dir: t.TempDir()}, provider(attributes))
		if !errors.Is(err, drivers.ErrRejected) {
			t.Errorf("%s: %v, want ErrRejected", name, err)
		}
	}
	if _, err := sandbox.New().Open(t.Context(), drivers.Env{Provider: "x"}, provider(nil)); !errors.Is(err, drivers.ErrRejected) {
		t.Errorf("without a directory: %v, want ErrRejected", err)
	}
}

func TestBadFilesAreReported(t *testing.T) {
	w := newWorld(t)
	c := w.open(t)
	for _, text := range []string{`{`, `[{"action": "explode"}]`, `[{"acton": "lost"}]`, `[{"action": "slow", "delay": "soon"}]`} {
		testutil.Must(t, os.WriteFile(w.faults, []byte(text), 0o600))
		if _, err := c.List(t.Context()); err == nil || !drivers.IsNothingDone(err) {
			t.Errorf("faults %s: %v", text, err)
		}
	}
	testutil.Must(t, os.Remove(w.faults))
	for _, text := range []string{`{"version": 1}`, `{`, ``} {
		testutil.Must(t, os.WriteFile(filepath.Join(w.dir, "sandbox.json"), []byte(text), 0o600))
		if _, err := c.List(t.Context()); err == nil {
			t.Errorf("a file %q is accepted", text)
		}
	}
}

// Objects of blocks are created once, and deleted for good.
func TestConfiguredObjectsAreCreatedOnce(t *testing.T) {
	w := newWorld(t)
	theirs := w.server(t, "theirs", nil)
	again := w.others(t, map[string]cty.Value{"foreign_server": cty.MapVal(map[string]cty.Value{"theirs": block("foreign_server", nil)})})
	list, err := again.List(t.Context())
	if err != nil || len(list) != 1 || list[0].ID != theirs.ID {
		t.Fatalf("servers are %v, %v", list, err)
	}
	testutil.Must(t, again.Delete(t.Context(), theirs.ID, resources.OwnerTags{}))
	time.Sleep(20 * time.Millisecond)
	again = w.others(t, map[string]cty.Value{"foreign_server": cty.MapVal(map[string]cty.Value{"theirs": block("foreign_server", nil)})})
	if list, err := again.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("servers are %v, %v", list, err)
	}
}

// A plan of a cloud without objects writes nothing.
func TestOpeningAndListingWritesNoFile(t *testing.T) {
	dir := t.TempDir()
	before := drivertest.FilesIn(t, dir)
	c := open(t, dir, nil)
	_, err := c.List(t.Context())
	testutil.Must(t, err)
	_, err = c.Quota(t.Context())
	testutil.Must(t, err)
	if diff := cmp.Diff(before, drivertest.FilesIn(t, dir)); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
}

func TestImageIsFoundByItsAttributes(t *testing.T) {
	w := newWorld(t)
	c := w.open(t).(interface {
		drivers.ImageStore
		drivers.Resolver
	})
	made, err := c.UploadImage(t.Context(), drivers.ImageSpec{Marks: resources.OwnerTags{Installation: "i", Kind: resources.KindUpload, ID: "1"}, Name: "ci-1",
		Format: "raw", Tags: []string{"new"}, Properties: map[string]string{"os_distro": "debian"}}, bytes.NewReader([]byte("x")))
	testutil.Must(t, err)
	for name, filters := range map[string]map[string]resources.AnyOf{
		"name": {"name": {"ci-*"}}, "tag": {"tag": {"old", "new"}}, "property": {"os_distro": {"deb*"}}, "format": {"format": {"raw"}}, "id": {"id": {made.ID}},
	} {
		found, problems, err := c.ResolveImage(t.Context(), resources.CloudImageSpec{Name: "x", Filters: filters})
		if err != nil || len(problems) > 0 || found.ID != made.ID {
			t.Errorf("%s: %+v, %v, %v", name, found, problems, err)
		}
	}
	for name, spec := range map[string]resources.CloudImageSpec{
		"filters":    {Name: "x", Filters: map[string]resources.AnyOf{"name": {"none-*"}}},
		"image_id":   {Name: "x", ImageID: "none"},
		"image_name": {Name: "debian-21"},
	} {
		if _, problems, err := c.ResolveImage(t.Context(), spec); err != nil || len(problems) != 1 || problems[0].Attribute != name {
			t.Errorf("%s: %v, %v", name, problems, err)
		}
	}
}

func TestImageIsPendingDuringItsUpload(t *testing.T) {
	w := newWorld(t)
	store := w.open(t).(drivers.ImageStore)
	w.fail(t, map[string]any{"operation": "image.upload", "action": "slow", "delay": "1h"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := store.UploadImage(ctx, drivers.ImageSpec{Marks: resources.OwnerTags{Installation: "i", Kind: resources.KindUpload, ID: "1"}, Name: "ci"}, bytes.NewReader(nil))
		ended <- err
	}()
	testutil.Await(t, "the pending image is listed", func() bool {
		list, err := store.ListImages(t.Context())
		return err == nil && len(list) == 1 && list[0].Status == resources.StatusPending
	})
	if _, problems, err := w.open(t).(drivers.Resolver).ResolveImage(t.Context(), resources.CloudImageSpec{Image: "ci"}); err != nil || len(problems) != 1 {
		t.Errorf("the pending image is found: %v, %v", problems, err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the interrupted upload ends with %v", err)
	}
	if list, err := store.ListImages(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("after the interrupted upload there is %v, %v", list, err)
	}
}
