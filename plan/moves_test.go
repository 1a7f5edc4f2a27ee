package plan

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
)

// renamedFleet is the fleet with another name for its provider, pool, label, image and static node.
func renamedFleet() resources.Desired {
	d := fleet()
	d.Labels[0].Name = "little"
	d.Images[0].Name = "bookworm"
	p := &d.Providers[0]
	p.Name, p.Pools[0].Name = "sky", "fleet"
	offer := &p.Pools[0].Offers[0]
	offer.Label, offer.Image.Name, offer.Hashes, offer.Former = "little", "bookworm", resources.Hashes{"v1:renamed"}, resources.Hashes{"v1:offer"}
	machine := &d.Providers[1].Pools[0].Nodes[0]
	machine.Name, machine.Hashes, machine.Former = "rack1", resources.Hashes{"v1:addressed"}, resources.Hashes{"v1:metal"}
	for _, m := range [][2]string{{"provider.cloud", "provider.sky"}, {"provider.sky.pool.main", "provider.sky.pool.fleet"}, {"label.small", "label.mid"},
		{"label.mid", "label.little"}, {"diskimage.debian", "diskimage.bookworm"}, {"provider.lab.pool.main.node.metal", "provider.lab.pool.main.node.rack1"}} {
		from, _ := resources.ParseBlockRef(m[0])
		to, _ := resources.ParseBlockRef(m[1])
		d.Moves = append(d.Moves, resources.Move{From: from, To: to})
	}
	return d
}

// renamedView is settled as a process sees it after the provider was renamed, with a node in use.
func renamedView() Observed {
	o := settled()
	o.Records.Nodes[1].State = resources.StateInUse
	o.Records.Nodes[0].Image = "diskimage.debian"
	o.Records.Providers = []*resources.ProviderRecord{{Name: "cloud", Driver: "openstack"}}
	o.Records.Images = []*resources.ImageRecord{{Name: "debian", Kind: resources.DiskImage, Paused: true}}
	o.Providers["sky"] = o.Providers["cloud"]
	o.Formats = map[string]string{"sky": "qcow2"}
	return o
}

// applyMoves returns the records after the move steps of a plan.
func applyMoves(t *testing.T, want resources.Desired, seen Observed, p Plan) Observed {
	t.Helper()
	records := seen.Records.Clone()
	for _, s := range p.Steps {
		if s.Action != ActionMove {
			continue
		}
		renamed, moved := MovedRecord(want, records.Get(s.Record))
		if !moved {
			t.Errorf("%s moves nothing", s.ID)
		}
		records.Drop(s.Record)
		records.Put(renamed, 1)
	}
	seen.Records = records
	return seen
}

func TestMoveReplacesNothing(t *testing.T) {
	want, seen := renamedFleet(), renamedView()
	p := Compute(want, seen, Options{})
	others := slices.DeleteFunc(slices.Clone(p.Steps), func(s Step) bool { return s.Action == ActionMove })
	// the node in use counts as one below min_ready, as it does without a move
	unmoved := Compute(fleet(), renamedView(), Options{})
	if len(others) != len(unmoved.Steps) || len(p.Steps)-len(others) != 7 {
		t.Errorf("plan:\n%s\nwithout the moves:\n%s", lines(p), lines(unmoved))
	}
	for i := range others {
		if others[i].Action != unmoved.Steps[i].Action || others[i].Reason != unmoved.Steps[i].Reason {
			t.Errorf("step %d is %s, without the moves %s", i, others[i].ID, unmoved.Steps[i].ID)
		}
		if !slices.Contains(others[i].Needs, "move upload/1") || !slices.Contains(others[i].Needs, "move provider/cloud") {
			t.Errorf("%s does not wait for the moves: %v", others[i].ID, others[i].Needs)
		}
	}
	if seen.Records.Nodes[0].Provider != "cloud" {
		t.Error("the plan changed a record")
	}
	after := applyMoves(t, want, seen, p)
	delete(after.Providers, "cloud")
	withBlock := Compute(want, after, Options{})
	want.Moves = nil
	want.Providers[0].Pools[0].Offers[0].Former, want.Providers[1].Pools[0].Nodes[0].Former = nil, nil
	without := Compute(want, after, Options{})
	if lines(withBlock) != lines(without) || strings.Contains(lines(without), "move ") || len(without.Steps) != len(unmoved.Steps) {
		t.Errorf("after the moves:\n%s\nwithout the blocks:\n%s", lines(withBlock), lines(without))
	}
	if i := after.Records.Images[0]; i.Name != "bookworm" || !i.Paused {
		t.Errorf("the record of the image is %+v", i)
	}
}

func TestInterruptedMovesContinue(t *testing.T) {
	want, seen := renamedFleet(), renamedView()
	whole := Compute(want, seen, Options{})
	for n := range whole.Steps {
		part := whole
		part.Steps = whole.Steps[:n]
		rest := applyMoves(t, want, seen, part)
		all := applyMoves(t, want, rest, Compute(want, rest, Options{}))
		if diff := cmp.Diff(applyMoves(t, want, seen, whole).Records.Nodes, all.Records.Nodes); diff != "" {
			t.Errorf("interrupted after %d steps:\n%s", n, diff)
		}
	}
}

func TestNodeLockedByZuulIsMovedWhenItIsUnlocked(t *testing.T) {
	want, seen := renamedFleet(), renamedView()
	want.Moves = slices.DeleteFunc(want.Moves, func(m resources.Move) bool { return m.From.Type != "label" })
	want.Images, want.Providers[0].Name, want.Providers[0].Pools[0].Name = fleet().Images, "cloud", "main"
	want.Providers[1] = fleet().Providers[1]
	offer := &want.Providers[0].Pools[0].Offers[0]
	offer.Image.Name, offer.Hashes = "debian", resources.Hashes{"v1:offer"}
	delete(seen.Providers, "sky")
	seen.Formats = map[string]string{"cloud": "qcow2"}
	used := seen.Records.Nodes[1].Key()
	seen.Shared, seen.ForeignClaims = true, map[resources.Key]bool{used: true}
	p := Compute(want, seen, Options{})
	text := lines(p)
	if strings.Contains(text, "["+used.String()+"]") || !strings.Contains(text, "note move-waits") || strings.Contains(text, "delete") {
		t.Errorf("while it is locked:\n%s", text)
	}
	if text := lines(Compute(want, seen, Options{Moves: true})); !strings.Contains(text, "1 record with an earlier name is in use") {
		t.Errorf("npctl state mv, which leaves no block for later:\n%s", text)
	}
	seen.ForeignClaims = nil
	if text := lines(Compute(want, seen, Options{Moves: true})); !strings.Contains(text, "move node.0000000002: moved") || strings.Contains(text, "launch") {
		t.Errorf("npctl state mv after it is unlocked:\n%s", text)
	}
	if text := lines(Compute(want, seen, Options{})); !strings.Contains(text, "move node.0000000002: moved") {
		t.Errorf("after it is unlocked:\n%s", text)
	}
}

// In a shared store other programs find builds and uploads by names.
func TestSharedImagesMoveUnlessOthersUseThem(t *testing.T) {
	key := resources.Key{Kind: resources.KindUpload, ID: "1"}
	for name, c := range map[string]struct {
		with    func(*Observed)
		want    string
		missing string // in the plan
	}{
		"nobody": {func(*Observed) {}, "move provider.sky.image.bookworm: moved [upload/1] needs(move build/", "problem"},
		"nodepool-builder": {func(o *Observed) { o.NodepoolBuilders = []string{"nb01"} },
			"problem diskimage.bookworm: nodepool-builder runs on nb01", "move provider.sky.image"},
		"nodepool-launcher": {func(o *Observed) {
			o.RegisteredPools = []resources.RegisteredPool{{ID: "x", Host: "nl01", Program: "11.0.0", Provider: "cloud", Pool: "main"}}
		}, "problem provider.sky.image.bookworm: nodepool-launcher on nl01 serves provider cloud", "move diskimage.bookworm: moved [build"},
		"nodepool-launcher of another provider": {func(o *Observed) {
			o.RegisteredPools = []resources.RegisteredPool{{ID: "x", Host: "nl01", Program: "11.0.0", Provider: "elsewhere", Pool: "main"}}
		}, "move provider.sky.image.bookworm: moved", "problem"},
		"npctl with the earlier name": {func(o *Observed) {
			o.RegisteredPools = []resources.RegisteredPool{{ID: "x", Host: "np02", Program: "npctl 0.1.0", Provider: "cloud", Pool: "main"}}
		}, "note move-waits", "moved [upload"},
		"locked upload":      {func(o *Observed) { o.ForeignClaims = map[resources.Key]bool{key: true} }, "note move-waits", "moved [build"},
		"step on the upload": {func(o *Observed) { o.Busy = map[resources.Key]bool{key: true} }, "note move-waits", "moved [build"},
		"builder of the image": {func(o *Observed) {
			o.BuilderID, o.OtherBuilders = "mine", map[string]bool{"theirs": true}
			b := *o.Records.Builds[0]
			b.HostID, b.State = "theirs", resources.StateReady
			o.Records.Builds = []*resources.Build{&b}
		}, "note move-waits", "moved [build"},
		"build with a number": {func(o *Observed) {
			b := *o.Records.Builds[0]
			b.ID = "debian/0000000001"
			o.Records.Builds = []*resources.Build{&b}
		}, "problem diskimage.bookworm: build debian/0000000001 has a number", "moved [upload"},
	} {
		seen := renamedView()
		seen.Shared = true
		c.with(&seen)
		if text := lines(Compute(renamedFleet(), seen, Options{})); !strings.Contains(text, c.want) || strings.Contains(text, c.missing) {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
