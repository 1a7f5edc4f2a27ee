package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
)

// fetched makes the fleet's image a zuul image; the newest build is version "b", created two hours ago.
func fetched(d *resources.Desired, o *Observed, versions ...resources.Version) {
	d.Images[0].Kind, d.Images[0].Builder, d.Images[0].RebuildAge = resources.ZuulImage, "zuul", 0
	d.Providers[0].Pools[0].Offers[0].Image.Kind = resources.ZuulImage
	b := o.Records.Builds[0]
	b.Kind, b.Version, b.VersionTime = resources.ZuulImage, "b", now.Add(-2*time.Hour)
	o.Versions = map[string]SourceView{"debian": {Versions: versions}}
}

func version(id string, age time.Duration) resources.Version {
	return resources.Version{ID: id, Time: now.Add(-age)}
}

// hosted makes the fleet's image one of a remote build host, which keeps the files if held is set.
func hosted(d *resources.Desired, o *Observed, held bool) *resources.Build {
	d.Images[0].Builder = "gearman"
	b := o.Records.Builds[0]
	b.Builder, b.Remote, b.Files, b.Host = "gearman", true, nil, "builder1"
	o.Files = nil
	o.Hosts = map[string]HostsView{"gearman": {Builds: map[string]bool{b.ID: held}}}
	return b
}

func withoutUpload(o *Observed) {
	o.Records.Uploads = nil
	v := o.Providers["cloud"]
	v.Images = nil
	o.Providers["cloud"] = v
}

// uploadFails makes the upload a failure of three minutes ago, which is in backoff for an hour.
func uploadFails(o *Observed, opt *Options) {
	withoutUpload(o)
	noInstances(o)
	o.Records.Nodes, opt.HonorBackoff, opt.Images = nil, true, []string{"debian"}
	o.Records.Images = []*resources.ImageRecord{{Name: "debian", Uploads: map[string]*resources.Failure{
		"cloud": {Count: 1, Kind: resources.FaultRejected, Time: now.Add(-3 * time.Minute)}}}}
}

const fetchOfC = `build zuul_image.debian: new-version
upload provider.cloud.image.debian: not-uploaded needs(build zuul_image.debian)
`

func TestImagesFromExternalSources(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*resources.Desired, *Observed, *Options)
		want    string
		version string // of the build step
	}{
		"the newest version is there": {
			change: func(d *resources.Desired, o *Observed, _ *Options) { fetched(d, o, version("b", 2*time.Hour)) },
		},
		"a newer version is fetched": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				fetched(d, o, version("c", time.Hour), version("b", 2*time.Hour))
			},
			want: fetchOfC, version: "c",
		},
		"an older version is no news": {
			change: func(d *resources.Desired, o *Observed, _ *Options) { fetched(d, o, version("a", 3*time.Hour)) },
		},
		"a version that is gone is passed over": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				fetched(d, o, version("d", time.Minute), version("c", time.Hour), version("b", 2*time.Hour))
				o.Records.Images = []*resources.ImageRecord{{Name: "debian", MissingVersions: []string{"d"}}}
			},
			want: fetchOfC, version: "c",
		},
		"a source that does not answer changes nothing": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				fetched(d, o)
				o.Versions["debian"] = SourceView{Err: "connection refused"}
			},
			want: "note source zuul_image.debian\n",
		},
		"source not queried": {
			change: func(d *resources.Desired, o *Observed, _ *Options) { fetched(d, o); o.Versions = nil },
		},
		"a build on a host that is up is uploaded from there": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				hosted(d, o, true)
				withoutUpload(o)
				d.Labels[0].MinReady = 0
				o.Records.Nodes = o.Records.Nodes[2:]
				noInstances(o)
			},
			want: "upload provider.cloud.image.debian: not-uploaded\n",
		},
		"a build on a host that is away waits for it": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				hosted(d, o, false)
				withoutUpload(o)
				d.Labels[0].MinReady = 0
				o.Records.Nodes = o.Records.Nodes[2:]
				noInstances(o)
			},
			want: "note host-unavailable provider.cloud.image.debian\n",
		},
		"a build host reports a newer version": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				b := hosted(d, o, true)
				b.Version, b.VersionTime = "b", now.Add(-2*time.Hour)
				o.Versions = map[string]SourceView{"debian": {Versions: []resources.Version{version("c", time.Hour)}}}
			},
			want: "build diskimage.debian: new-version\nupload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)\n", version: "c",
		},
		"an old version from a build host is used while it is the newest": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				b := hosted(d, o, true)
				b.StateTime, b.Version, b.VersionTime = now.Add(-48*time.Hour), "b", now.Add(-48*time.Hour)
				d.Images[0].RebuildAge = 24 * time.Hour
				o.Versions = map[string]SourceView{"debian": {Versions: []resources.Version{version("b", 48*time.Hour)}}}
			},
		},
		"a build without a version has the newest one of its start": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				b := hosted(d, o, true)
				o.Versions = map[string]SourceView{"debian": {Versions: []resources.Version{{ID: "a", Time: b.Created.Add(-time.Minute)}}}}
			},
		},
		"a build host that reports no versions leaves an old version alone": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				b := hosted(d, o, true)
				b.StateTime, b.Version, b.VersionTime = now.Add(-48*time.Hour), "b", now.Add(-48*time.Hour)
				d.Images[0].RebuildAge = 24 * time.Hour
			},
		},
		"a changed image is built though its build host reports no versions": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				hosted(d, o, true).Version = "b"
				d.Images[0].Hashes = resources.Hashes{"v1:changed"}
			},
			want: "build diskimage.debian: inputs-changed\nupload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)\n",
		},
		"a build host with a source that does not answer changes nothing": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				hosted(d, o, true).Version = "b"
				o.Versions = map[string]SourceView{"debian": {Err: "connection refused"}}
			},
			want: "note source diskimage.debian\n",
		},
		"a build host without a response is no reason against a first build": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				hosted(d, o, true)
				d.Images[0].RebuildAge = time.Minute
				o.Records.Builds[0].StateTime = now.Add(-time.Hour)
				o.Versions = map[string]SourceView{"debian": {Err: "no gearman server answers"}}
			},
			want: "build diskimage.debian: rebuild-age\nupload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)\n",
		},
		"an interrupted build on another host is gone on with": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				b := *hosted(d, o, true)
				b.ID, b.State = buildID(2), resources.StateBuilding
				o.Records.Builds = append(o.Records.Builds, &b)
			},
			want: `build diskimage.debian: unfinished [build/00000000000000000000000000000002]
upload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)
`},
		"an interrupted build of something else is dropped": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				b := *hosted(d, o, true)
				b.ID, b.State, b.Hash = buildID(2), resources.StateBuilding, "v1:other"
				o.Records.Builds = append(o.Records.Builds, &b)
			},
			want: "delete diskimage.debian: unfinished [build/00000000000000000000000000000002]\n",
		},
		"who is patient leaves a failing build alone": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				d.Images[0].Hashes = resources.Hashes{"v1:changed"}
				opt.HonorBackoff = true
				o.Records.Images = []*resources.ImageRecord{{Name: "debian", Failure: &resources.Failure{Count: 3, Time: now.Add(-3 * time.Minute)}}}
			},
			want: "note failing diskimage.debian\n",
		},
		"also where it is of what has failed": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				d.Images[0].Hashes = resources.Hashes{"v1:changed"}
				opt.HonorBackoff = true
				o.Records.Images = []*resources.ImageRecord{{Name: "debian", Failure: &resources.Failure{Count: 3, Time: now, Hash: "v1:changed"}}}
			},
			want: "note failing diskimage.debian\n",
		},
		"but not one of something else than has failed": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				d.Images[0].Hashes = resources.Hashes{"v1:mended"}
				opt.HonorBackoff = true
				o.Records.Images = []*resources.ImageRecord{{Name: "debian", Failure: &resources.Failure{Count: 3, Time: now, Hash: "v1:changed"}}}
			},
			want: `build diskimage.debian: inputs-changed
upload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)
`},
		"and tries again after a while": {
			change: func(d *resources.Desired, o *Observed, opt *Options) {
				d.Images[0].Hashes = resources.Hashes{"v1:changed"}
				opt.HonorBackoff = true
				o.Records.Images = []*resources.ImageRecord{{Name: "debian", Failure: &resources.Failure{Count: 3, Time: now.Add(-4 * time.Minute)}}}
			},
			want: `build diskimage.debian: inputs-changed
upload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)
`},
		"who is patient leaves a failing upload alone": {
			change: func(_ *resources.Desired, o *Observed, opt *Options) {
				uploadFails(o, opt)
				o.Reloaded = now.Add(-4 * time.Minute)
			},
			want: "note failing provider.cloud.image.debian\n",
		},
		"but not one that failed under another configuration": {
			change: func(_ *resources.Desired, o *Observed, opt *Options) {
				uploadFails(o, opt)
				o.Reloaded = now.Add(-2 * time.Minute)
			},
			want: "upload provider.cloud.image.debian: not-uploaded\n",
		},
		"a provider without the image gets what there is while builds fail": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				withoutUpload(o)
				d.Labels[0].MinReady, o.Records.Nodes = 0, o.Records.Nodes[2:]
				noInstances(o)
				d.Images[0].Hashes = resources.Hashes{"v1:changed"}
				o.Records.Images = []*resources.ImageRecord{{Name: "debian", Failure: &resources.Failure{Count: 1, Time: now}}}
			},
			want: `build diskimage.debian: inputs-changed
upload provider.cloud.image.debian: not-uploaded
upload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian) after(upload provider.cloud.image.debian)
`},
		"machines and snapshots of a dead build go": {
			change: func(_ *resources.Desired, o *Observed, _ *Options) {
				marks := resources.OwnerTags{Installation: "here", Kind: resources.KindBuild, ID: buildID(1)}
				v := o.Providers["cloud"]
				v.Instances = append(v.Instances, resources.Instance{ID: "server-b", Marks: marks})
				v.Images = append(v.Images, resources.RemoteImage{ID: "image-b", Marks: marks})
				o.Providers["cloud"] = v
			},
			want: `delete provider.cloud.image.image-b: unfinished
delete provider.cloud.server.server-b: unfinished
`},
		"a build on a borrowed machine waits for the image of the machine": {
			change: func(d *resources.Desired, o *Observed, _ *Options) {
				*o = empty()
				d.Labels[0].MinReady = 0
				golden := d.Images[0]
				golden.Name = "golden"
				d.Images = append(d.Images, golden)
				d.Providers[0].Pools[0].Offers = append(d.Providers[0].Pools[0].Offers, resources.Offer{Label: "gold", Image: golden.Ref()})
				o.InstanceOffers = map[string]OfferRef{"golden": {Provider: "cloud", Label: "small"}}
			},
			want: `register provider.lab.pool.main.node.metal: new-static-node
build diskimage.debian: no-build
upload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)
build diskimage.golden: no-build needs(upload provider.cloud.image.debian)
upload provider.cloud.image.golden: not-uploaded needs(build diskimage.golden)
`},
		"builds are removed by name, with their uploads": {
			change: func(_ *resources.Desired, o *Observed, opt *Options) {
				o.Records.Nodes = o.Records.Nodes[2:]
				noInstances(o)
				opt.Remove = []resources.Key{o.Records.Builds[0].Key()}
			},
			want: `delete provider.cloud.image.debian: requested [upload/1]
delete diskimage.debian: requested [build/00000000000000000000000000000001] needs(delete upload 1)
`},
		"what nodes run from is not removed": {
			change: func(_ *resources.Desired, o *Observed, opt *Options) {
				opt.Remove = []resources.Key{o.Records.Builds[0].Key()}
			},
			want: `problem provider.cloud.image.debian: nodes use image 
problem diskimage.debian: build 00000000000000000000000000000001 stays because one of its uploads stays
`},
		"what does not exist is not removed": {
			change: func(_ *resources.Desired, _ *Observed, opt *Options) {
				opt.Remove = []resources.Key{{Kind: resources.KindUpload, ID: "77"}}
			},
			want: "problem upload/77: there is no such upload\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, o, opt := fleet(), settled(), Options{}
			test.change(&d, &o, &opt)
			p := Compute(d, o, opt)
			if diff := cmp.Diff(test.want, lines(p)); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			for _, s := range p.Steps {
				if s.Kind == KindBuild && s.Version != test.version {
					t.Errorf("version to fetch is %q, want %q", s.Version, test.version)
				}
			}
		})
	}
}

func noInstances(o *Observed) {
	v := o.Providers["cloud"]
	v.Instances = nil
	o.Providers["cloud"] = v
}

// The machine that was idle longest has two labels. It used to be assigned to the label that other machines have too,
// and a request for both labels waited forever.
func TestMatchKeepsOnlyNodeOfALabelForThatLabel(t *testing.T) {
	both, one := &resources.Node{ID: "both", Labels: []string{"metal", "big"}}, &resources.Node{ID: "one", Labels: []string{"metal"}}
	s := &idleNodes{nodes: []*resources.Node{both, one}}
	nodes, n := s.match([]string{"metal", "big"}, nil, "", true)
	if want := []string{"one", "both"}; n != 2 || !slices.Equal(nodes, want) {
		t.Errorf("got %q, want %q", nodes, want)
	}
}

func TestMatchServesMaximumNumberOfLabels(t *testing.T) {
	label := rapid.SampledFrom([]string{"a", "b", "c"})
	rapid.Check(t, func(t *rapid.T) {
		s := &idleNodes{}
		for i := range rapid.IntRange(0, 5).Draw(t, "nodes") {
			s.nodes = append(s.nodes, &resources.Node{ID: fmt.Sprint(i), Labels: rapid.SliceOfNDistinct(label, 1, 3, rapid.ID[string]).Draw(t, "labels")})
		}
		wanted := rapid.SliceOfN(label, 1, 4).Draw(t, "wanted")
		nodes, n := s.match(wanted, nil, "", true)
		given := map[string]bool{}
		for k, id := range nodes {
			if id == "" {
				continue
			}
			i := slices.IndexFunc(s.nodes, func(node *resources.Node) bool { return node.ID == id })
			if given[id] || !slices.Contains(s.nodes[i].Labels, wanted[k]) {
				t.Fatalf("%q are given for %q", nodes, wanted)
			}
			given[id] = true
		}
		if most := mostOf(s.nodes, wanted); n != len(given) || n != most {
			t.Fatalf("%d of %q are matched, by %q; it could be %d", n, wanted, nodes, most)
		}
	})
}

// mostOf tries all assignments and returns the size of the largest.
func mostOf(nodes []*resources.Node, wanted []string) (most int) {
	if len(wanted) == 0 {
		return 0
	}
	most = mostOf(nodes, wanted[1:])
	for i, n := range nodes {
		if slices.Contains(n.Labels, wanted[0]) {
			most = max(most, 1+mostOf(slices.Delete(slices.Clone(nodes), i, i+1), wanted[1:]))
		}
	}
	return most
}
