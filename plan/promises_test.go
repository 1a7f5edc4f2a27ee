package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/npctl/npctl/resources"
)

func has(t *testing.T, p Plan, id string) *Step {
	t.Helper()
	for i := range p.Steps {
		if p.Steps[i].ID == id {
			return &p.Steps[i]
		}
	}
	return nil
}

// Two providers lead to one project.
func TestAnotherProvidersServerIsNoLeak(t *testing.T) {
	d, o := fleet(), settled()
	d.Providers = append(d.Providers, resources.Provider{Name: "cloud2", Driver: "openstack"})
	view := o.Providers["cloud"]
	for i := range view.Instances {
		view.Instances[i].Marks.Provider = "cloud"
	}
	view.Images[0].Marks.Provider = "cloud"
	o.Providers["cloud"], o.Providers["cloud2"] = view, view // one project, two provider blocks
	o.Records.Nodes[0].State = resources.StateInUse
	o.Records.Sightings = []*resources.Sighting{
		{Provider: "cloud2", Type: "server", External: "server-0000000001", First: now.Add(-time.Hour)},
		{Provider: "cloud2", Type: "image", External: "image-1", First: now.Add(-time.Hour)}}
	d.Labels[0].MinReady = 1
	if p := Compute(d, o, Options{}); len(p.Steps) > 0 {
		t.Errorf("what belongs to the provider cloud is deleted as leaked:\n%s", lines(p))
	}
}

// destroy honors prevent_destroy of the configuration.
func TestDestroyHonorsPreventDestroy(t *testing.T) {
	d, o := fleet(), settled()
	d.Images[0].PreventDestroy, d.Providers[0].PreventDestroy = true, true
	if p := Compute(d, o, Options{Destroy: true}); len(p.Problems) == 0 {
		t.Errorf("everything goes although the configuration says prevent_destroy:\n%s", lines(p))
	}
}

func TestDestroyAfterPreventDestroyIsRemoved(t *testing.T) {
	d, o := fleet(), settled()
	o.Records.Images = []*resources.ImageRecord{{Name: "debian", PreventDestroy: true}}
	if p := Compute(d, o, Options{Destroy: true}); len(p.Problems) > 0 {
		t.Errorf("refused although the configuration says prevent_destroy = false:\n%s", lines(p))
	}
}

// -replace names an upload.
func TestReplacedUploadStaysUntilSuccessorIsReady(t *testing.T) {
	d, o := fleet(), settled()
	for _, n := range o.Records.Nodes {
		n.Upload = ""
	}
	p := Compute(d, o, Options{Replace: []Address{"provider.cloud.image.debian"}})
	s := has(t, p, "delete upload 1")
	if s == nil || len(s.Needs) == 0 {
		t.Errorf("the only upload goes before the new one is there:\n%s", lines(p))
	}
}

// Files of another installation have names like ours.
func TestFileOfAnotherInstallationIsIgnored(t *testing.T) {
	d, o := fleet(), settled()
	for i := range 20 {
		o.Files = append(o.Files, ImageFile{Name: "backup-" + buildID(1000+i) + ".tar"})
	}
	if p := Compute(d, o, Options{}); len(p.Steps) > 0 {
		t.Errorf("%d files without record are deleted at first sight, leak_limit is %d\n%s", len(p.Steps), d.Settings.LeakLimit, lines(p)[:200])
	}
}

// max_cores holds while a node is being deleted.
func TestMaxCoresHoldsWhileANodeLeaves(t *testing.T) {
	d, o := fleet(), settled()
	d.Providers[0].Pools[0].MaxCores = ptr(8)
	d.Labels[0].MinReady = 1
	o.Records.Nodes[0].State, o.Records.Nodes[0].Resources = resources.StateInUse, resources.ResourceAmounts{Instances: 1, Cores: 4}
	o.Records.Nodes[1].State, o.Records.Nodes[1].Resources = resources.StateUsed, resources.ResourceAmounts{Instances: 1, Cores: 1}
	v := o.Providers["cloud"]
	v.Offers = map[OfferKey]OfferView{{"main", "small"}: {ResolvedOffer: resources.ResolvedOffer{Resources: resources.ResourceAmounts{Cores: 5}}}}
	o.Providers["cloud"] = v
	p := Compute(d, o, Options{})
	for _, s := range p.Steps {
		if s.Kind == KindLaunch {
			t.Errorf("4 cores in use and 5 to launch with max_cores = 8:\n%s", lines(p))
		}
	}
}

func TestMaxVolumesHoldsWhileANodeIsReplaced(t *testing.T) {
	d, o := fleet(), settled()
	d.Providers[0].Pools[0].MaxServers, d.Providers[0].Pools[0].MaxVolumes = nil, ptr(2)
	d.Providers[0].Pools[0].Offers[0].Hashes = resources.Hashes{"v1:other"}
	for _, n := range o.Records.Nodes[:2] {
		n.Resources.Volumes = 1
	}
	v := o.Providers["cloud"]
	v.Offers = map[OfferKey]OfferView{{"main", "small"}: {ResolvedOffer: resources.ResolvedOffer{Resources: resources.ResourceAmounts{Volumes: 1}}}}
	o.Providers["cloud"] = v
	p := Compute(d, o, Options{})
	for _, s := range p.Steps {
		if s.Kind == KindLaunch && len(s.Needs) == 0 {
			t.Fatalf("launched before the old one is gone, with max_volumes = 2 and 2 taken:\n%s", lines(p))
		}
	}
}

// The quota counts nodes with an unfinished launch.
func TestQuotaCountsUnfinishedNodes(t *testing.T) {
	d, o := fleet(), settled()
	o.Records.Nodes = o.Records.Nodes[1:]
	o.Records.Nodes[0].State, o.Records.Nodes[0].ExternalID = resources.StateBuilding, ""
	v := o.Providers["cloud"]
	v.Instances = nil
	v.Quota.Limit.Instances = 1
	o.Providers["cloud"] = v
	p := Compute(d, o, Options{})
	launches := 0
	for _, s := range p.Steps {
		if s.Kind == KindLaunch {
			launches++
		}
	}
	if launches > 1 {
		t.Errorf("%d launches with a quota of 1:\n%s", launches, lines(p))
	}
}

// Nodes in state deleting or failed of an unreachable provider do not count towards min_ready.
func TestUsedNodesOfUnreachableProviderDoNotCount(t *testing.T) {
	d, o := fleet(), settled()
	second := d.Providers[0]
	second.Name = "cloud2"
	d.Providers = append(d.Providers, second)
	o.Providers["cloud2"] = ProviderView{ListedAt: now, Quota: unlimited()}
	o.Formats["cloud2"] = "qcow2"
	o.Records.Uploads = append(o.Records.Uploads, &resources.Upload{ID: "2", Image: "debian", Build: buildID(1), Provider: "cloud2",
		State: resources.StateReady, StateTime: now.Add(time.Hour), Format: "qcow2", ExternalID: "image-2"})
	o.Providers["cloud"] = ProviderView{Err: "timeout"}
	o.Records.Nodes[0].State, o.Records.Nodes[1].State = resources.StateDeleting, resources.StateFailed
	p := Compute(d, o, Options{})
	if len(p.Steps) != 2 {
		t.Errorf("two nodes are missing, the two on record are no use:\n%s", lines(p))
	}
}

func TestUnreachableProviderGetsNoStepForUploadOfDeletedBuild(t *testing.T) {
	d, o := fleet(), settled()
	o.Providers["cloud"] = ProviderView{Err: "timeout"}
	o.Records.Builds[0].State = resources.StateDeleting
	o.Records.Nodes = o.Records.Nodes[2:]
	p := Compute(d, o, Options{})
	for _, s := range p.Steps {
		if s.Provider == "cloud" {
			t.Errorf("step %s for a provider that does not answer:\n%s", s.ID, lines(p))
		}
	}
}

// A lost node leaves an associated resource in a provider that is no longer configured.
func TestLeftoverOfLostNodeKeepsProviderRecord(t *testing.T) {
	d, o := fleet(), settled()
	d.Providers, d.Images, d.Labels[0].MinReady = d.Providers[1:], nil, 0
	o.Records.Providers = []*resources.ProviderRecord{{Name: "cloud", Driver: "openstack"}}
	o.Records.Nodes = []*resources.Node{o.Records.Nodes[0], o.Records.Nodes[2]}
	v := o.Providers["cloud"]
	v.Instances = nil
	v.Leftovers = []resources.Leftover{{Type: "floating_ip", ID: "f", Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindNode, ID: "0000000001"}}}
	o.Providers["cloud"] = v
	p := Compute(d, o, Options{})
	if has(t, p, "forget provider cloud") != nil && !strings.Contains(lines(p), "floating_ip") {
		t.Errorf("the provider is forgotten with a floating IP of ours in it:\n%s", lines(p))
	}
	p = Compute(fleet(), o, Options{Destroy: true})
	if !strings.Contains(lines(p), "floating_ip") {
		t.Errorf("destroy leaves the floating IP:\n%s", lines(p))
	}
}

// -exclude names a provider that does not respond.
func TestExcludedProviderIsNotDeferred(t *testing.T) {
	d, o := fleet(), settled()
	o.Providers["cloud"] = ProviderView{Err: "timeout"}
	if p := Compute(d, o, Options{Excludes: []Address{"provider.cloud"}}); len(p.Deferred) > 0 {
		t.Errorf("deferred is %v", p.Deferred)
	}
	if p := Compute(d, o, Options{Targets: []Address{"provider.lab"}}); len(p.Deferred) > 0 {
		t.Errorf("deferred is %v", p.Deferred)
	}
}

// A provider without records has a leak.
func TestLeakInProviderWithoutRecordsIsSighted(t *testing.T) {
	o := empty()
	v := o.Providers["cloud"]
	v.Instances = []resources.Instance{instance("0000000077")}
	o.Providers["cloud"] = v
	if sighted, _ := Sightings(o, time.Minute); len(sighted) != 1 {
		t.Errorf("sighted %v", sighted)
	}
}

// Two pools offer the label.
func TestNodeStaysUntilSuccessorInAnotherPoolIsReady(t *testing.T) {
	d, o := fleet(), settled()
	d.Providers[0].Pools[0].Offers[0].Hashes = resources.Hashes{"v1:other"}
	d.Providers[0].Pools[0].Priority = 100
	second := d.Providers[0].Pools[0]
	second.Name, second.Priority = "second", 1
	d.Providers[0].Pools = append(d.Providers[0].Pools, second)
	p := Compute(d, o, Options{})
	for _, s := range p.Steps {
		if s.Action == ActionDelete && len(s.Needs) == 0 {
			t.Fatalf("all ready nodes of the label go before any successor is ready:\n%s", lines(p))
		}
	}
}

// prevent_destroy covers static nodes.
func TestPreventDestroyCoversStaticNodes(t *testing.T) {
	d, o := fleet(), settled()
	d.Providers = d.Providers[:1]
	o.Records.Providers = []*resources.ProviderRecord{{Name: "lab", Driver: "static", PreventDestroy: true}}
	p := Compute(d, o, Options{})
	if len(p.Problems) == 0 {
		t.Errorf("\n%s", lines(p))
	}
}

// A static node in use does not count as ready.
func TestStaticNodeInUseIsNotReady(t *testing.T) {
	d, o := fleet(), settled()
	d.Labels = []resources.Label{{Name: "metal", MinReady: 1}, {Name: "small", MinReady: 2}}
	d.Providers[0].Pools[0].Offers = append([]resources.Offer{{Label: "metal", Image: d.Providers[0].Pools[0].Offers[0].Image, Hashes: resources.Hashes{"v1:m"}}},
		d.Providers[0].Pools[0].Offers...)
	o.Records.Nodes[2].State = resources.StateInUse
	p := Compute(d, o, Options{})
	if len(p.Steps) != 1 {
		t.Errorf("metal is in use, min_ready is 1, and the cloud offers the label:\n%s", lines(p))
	}
	o.Records.Nodes[2].State = resources.StateReady
	o.Providers["lab"] = ProviderView{Err: "timeout"}
	if p := Compute(d, o, Options{}); len(p.Steps) != 0 {
		t.Errorf("metal is ready though its provider does not answer:\n%s", lines(p))
	}
}

// A provider with an instance in state deleting keeps its record.
func TestProviderIsNotForgottenWhileAServerIsBeingDeleted(t *testing.T) {
	d, o := fleet(), settled()
	d.Providers, d.Images, d.Labels[0].MinReady = d.Providers[1:], nil, 0
	o.Records.Providers = []*resources.ProviderRecord{{Name: "cloud", Driver: "openstack"}}
	v := o.Providers["cloud"]
	v.Instances[0].Status = resources.StatusDeleting
	o.Providers["cloud"] = v
	p := Compute(d, o, Options{})
	if has(t, p, "forget provider cloud") != nil && has(t, p, "forget node 0000000001") != nil {
		t.Errorf("the server is still there:\n%s", lines(p))
	}
}

// Names may contain dots.
func TestTargetIsNotAPrefixOfAName(t *testing.T) {
	d, o := fleet(), settled()
	d.Providers[0].Name = "cloud.west"
	o.Providers["cloud.west"], o.Formats["cloud.west"] = o.Providers["cloud"], "qcow2"
	delete(o.Providers, "cloud")
	for _, n := range o.Records.Nodes[:2] {
		n.Provider = "cloud.west"
	}
	o.Records.Uploads[0].Provider = "cloud.west"
	if p := Compute(d, o, Options{Destroy: true, Targets: []Address{"provider.cloud"}}); len(p.Steps) > 0 {
		t.Errorf("provider.cloud.west is none of provider.cloud:\n%s", lines(p))
	}
}
