package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
)

// secondUpload is the settled fleet with a second build that has been uploaded and is not validated. The first one has launched.
func secondUpload() (resources.Desired, Observed) {
	d, o := fleet(), settled()
	d.Images[0].Validate = &resources.Validation{Nodes: 1, Attempts: 3}
	o.Records.Builds = append(o.Records.Builds, &resources.Build{ID: buildID(2), Image: "debian", Kind: resources.DiskImage, State: resources.StateReady,
		StateTime: now.Add(-time.Minute), Hash: "v1:image", Files: []resources.ImageFile{{Format: "qcow2", Name: "debian-" + buildID(2) + ".qcow2"}}})
	o.Records.Uploads[0].Hash = "v1:image"
	o.Records.Uploads = append(o.Records.Uploads, &resources.Upload{ID: "2", Image: "debian", Build: buildID(2), Provider: "cloud", State: resources.StateReady,
		StateTime: now.Add(-time.Minute), Format: "qcow2", ExternalID: "image-2", Hash: "v1:image"})
	o.Records.Trials = []*resources.Trial{{Upload: "1", Build: buildID(1), Launched: now.Add(-time.Hour)}}
	o.Files = append(o.Files, ImageFile{Name: "debian-" + buildID(2) + ".qcow2"})
	view := o.Providers["cloud"]
	view.Images = append(view.Images, resources.RemoteImage{ID: "image-2", Status: resources.StatusReady,
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: "2"}})
	o.Providers["cloud"] = view
	return d, o
}

func testNode() *resources.Node {
	n := readyNode("0000000004")
	n.State, n.Upload, n.Validates = resources.StateBuilding, "2", "2"
	return n
}

func TestValidationIsPlanned(t *testing.T) {
	const (
		test  = "validate provider.cloud.image.debian: not-validated\n"
		older = "note older-build provider.cloud.image.debian\n"
	)
	for name, c := range map[string]struct {
		change func(*resources.Desired, *Observed)
		want   string
		boot   string // upload of the launches
	}{
		"a new upload is tested": {
			change: func(*resources.Desired, *Observed) {},
			want:   test,
		},
		"meanwhile nodes boot from the older build": {
			change: func(d *resources.Desired, o *Observed) { d.Labels[0].MinReady = 3 },
			want:   test + "launch provider.cloud.pool.main.label.small: below-min-ready\n", boot: "1",
		},
		"without a validated build launches wait": {
			change: func(d *resources.Desired, o *Observed) {
				d.Labels[0].MinReady, o.Records.Trials = 3, nil
			},
			want: test + "launch provider.cloud.pool.main.label.small: below-min-ready needs(validate provider.cloud.image.debian #1)\n", boot: "2",
		},
		"a validated one is not tested": {
			change: func(d *resources.Desired, o *Observed) {
				d.Labels[0].MinReady = 3
				o.Records.Trials = append(o.Records.Trials, &resources.Trial{Upload: "2", Build: buildID(2), Passed: 1, Validated: now})
			},
			want: "launch provider.cloud.pool.main.label.small: below-min-ready\n" + older, boot: "2",
		},
		"several nodes": {
			change: func(d *resources.Desired, o *Observed) {
				d.Images[0].Validate.Nodes = 3
				o.Records.Trials = append(o.Records.Trials, &resources.Trial{Upload: "2", Build: buildID(2), Passed: 1})
			},
			want: test + test,
		},
		"a full pool": {
			change: func(d *resources.Desired, o *Observed) { d.Providers[0].Pools[0].MaxServers = ptr(2) },
			want:   "note validation-waits provider.cloud.image.debian\n",
		},
		"a node under test is not ready": {
			change: func(d *resources.Desired, o *Observed) {
				d.Labels[0].MinReady = 3
				o.Records.Nodes = append(o.Records.Nodes, testNode())
				o.Busy = map[resources.Key]bool{testNode().Key(): true}
			},
			want: "launch provider.cloud.pool.main.label.small: below-min-ready\nnote validating provider.cloud.image.debian\n", boot: "1",
		},
		"an interrupted test is repeated": {
			change: func(d *resources.Desired, o *Observed) { o.Records.Nodes = append(o.Records.Nodes, testNode()) },
			want:   test + "delete node.0000000004: unfinished [node/0000000004]\n",
		},
		"a pinned build is used": {
			change: func(d *resources.Desired, o *Observed) {
				o.Records.Trials[0].Pinned = &resources.Decision{Time: now, Actor: "anna@host"}
			},
			want: "note pinned provider.cloud.image.debian\n",
		},
		"rejected builds go, but not the newest and not the validated one": {
			change: func(d *resources.Desired, o *Observed) {
				d.Images[0].Keep = 1
				no := &resources.Decision{Time: now, Actor: resources.ValidationActor}
				o.Records.Trials = append(o.Records.Trials, &resources.Trial{Upload: "2", Build: buildID(2), Rejected: no}, &resources.Trial{Upload: "3", Build: buildID(3), Rejected: no})
				third, fourth := *o.Records.Builds[1], *o.Records.Uploads[1]
				third.ID, third.StateTime = buildID(3), now
				third.Files = []resources.ImageFile{{Format: "qcow2", Name: "debian-" + buildID(3) + ".qcow2"}}
				fourth.ID, fourth.Build, fourth.StateTime, fourth.ExternalID = "3", buildID(3), now, "image-3"
				o.Records.Builds, o.Records.Uploads = append(o.Records.Builds, &third), append(o.Records.Uploads, &fourth)
				o.Files = append(o.Files, ImageFile{Name: third.Files[0].Name})
				view := o.Providers["cloud"]
				view.Images = append(view.Images, resources.RemoteImage{ID: "image-3", Status: resources.StatusReady,
					Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: "3"}})
				o.Providers["cloud"] = view
			},
			want: "delete provider.cloud.image.debian: rejected [upload/2]\n" +
				"delete diskimage.debian: superseded [build/" + buildID(2) + "] needs(delete upload 2)\n" +
				"note returned provider.cloud.image.debian\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := secondUpload()
			c.change(&d, &o)
			p := Compute(d, o, Options{})
			if diff := cmp.Diff(c.want, lines(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, s := range p.Steps {
				if s.Kind == KindLaunch && s.Upload != c.boot {
					t.Errorf("the launch boots from upload %q, want %q", s.Upload, c.boot)
				}
			}
		})
	}
}

func TestValidationOfTheFirstBuild(t *testing.T) {
	d := fleet()
	d.Images[0].Validate = &resources.Validation{Nodes: 2, Attempts: 3}
	o := empty()
	d.Providers = d.Providers[:1]
	want := "build diskimage.debian: no-build\n" +
		"upload provider.cloud.image.debian: not-uploaded needs(build diskimage.debian)\n" +
		"validate provider.cloud.image.debian: not-validated needs(upload provider.cloud.image.debian)\n" +
		"validate provider.cloud.image.debian: not-validated needs(upload provider.cloud.image.debian)\n" +
		"launch provider.cloud.pool.main.label.small: below-min-ready needs(validate provider.cloud.image.debian #1) needs(validate provider.cloud.image.debian #2)\n" +
		"launch provider.cloud.pool.main.label.small: below-min-ready needs(validate provider.cloud.image.debian #1) needs(validate provider.cloud.image.debian #2)\n"
	if diff := cmp.Diff(want, lines(Compute(d, o, Options{}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
