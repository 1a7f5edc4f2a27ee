package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/resources"
)

// leaks adds n servers with our ownership tags and without records, with a first sighting an hour ago.
func leaks(o *Observed, n int, change func(*resources.Sighting)) {
	view := o.Providers["cloud"]
	for i := range n {
		server := instance(fmt.Sprintf("%010d", 100+i))
		view.Instances = append(view.Instances, server)
		s := &resources.Sighting{Provider: "cloud", Type: "server", External: server.ID, First: o.Now.Add(-time.Hour), Last: o.Now,
			Record: resources.Key{Kind: resources.KindNode, ID: server.Marks.ID}}
		if change != nil {
			change(s)
		}
		o.Records.Sightings = append(o.Records.Sightings, s)
	}
	o.Providers["cloud"] = view
}

// A daemon plans again within seconds: its recent deletions count.
func TestLeakLimitAppliesOverTime(t *testing.T) {
	d, o := fleet(), settled()
	d.Settings.LeakLimit, d.Settings.LeakSightings = 3, 10*time.Minute
	leaks(&o, 12, nil)
	began := o.Now
	deleted := map[string]time.Duration{}
	for o.Now.Sub(began) < 45*time.Minute {
		for _, s := range Compute(d, o, Options{HonorBackoff: true}).Steps {
			if s.Thing != ThingLeftover {
				continue
			}
			if _, again := deleted[s.External]; !again {
				deleted[s.External] = o.Now.Sub(began)
			}
			for _, r := range o.Records.Sightings {
				if r.External == s.External {
					r.Deleted = o.Now
				}
			}
			if o.Now.Sub(began)%(20*time.Second) != 0 { // every other deletion fails at first and counts only once
				continue
			}
			view := o.Providers["cloud"]
			view.Instances = slices.DeleteFunc(slices.Clone(view.Instances), func(i resources.Instance) bool { return i.ID == s.External })
			o.Providers["cloud"] = view
		}
		now, gone := Sightings(o, d.Settings.LeakSightings)
		o.Records.Sightings = slices.DeleteFunc(o.Records.Sightings, func(r *resources.Sighting) bool { return slices.Contains(gone, r.Key()) })
		for _, s := range now {
			i := slices.IndexFunc(o.Records.Sightings, func(r *resources.Sighting) bool { return r.Key() == s.Key() })
			if i < 0 {
				o.Records.Sightings = append(o.Records.Sightings, s)
			} else {
				o.Records.Sightings[i] = s
			}
		}
		o.Now = o.Now.Add(10 * time.Second)
		view := o.Providers["cloud"]
		view.ListedAt = o.Now
		o.Providers["cloud"] = view
	}
	in := map[time.Duration]int{}
	for _, at := range deleted {
		in[at.Truncate(10*time.Minute)]++
	}
	for from, n := range in {
		if n > 3 {
			t.Errorf("%d leaks were deleted within ten minutes of %s, leak_limit is 3", n, from)
		}
	}
	if len(deleted) != 12 {
		t.Errorf("%d of 12 leaks were deleted in 45 minutes: %v", len(deleted), deleted)
	}
}

func TestOldStateDeletesNoLeaks(t *testing.T) {
	for name, test := range map[string]struct {
		ahead bool
		opt   Options
		want  int
		noted bool
	}{
		"a state that gave the ids":           {false, Options{HonorBackoff: true}, 4, false},
		"a state older than the cloud":        {true, Options{HonorBackoff: true}, 0, true},
		"a state older than the cloud, apply": {true, Options{}, 0, true},
		"with consent":                        {true, Options{AllowDestroy: AllowAll}, 4, true},
		"consent to images only":              {true, Options{AllowDestroy: AllowImages}, 0, true},
		"-destroy":                            {true, Options{Destroy: true}, 4, false},
	} {
		t.Run(name, func(t *testing.T) {
			d, o := fleet(), settled()
			leaks(&o, 4, func(s *resources.Sighting) { s.NewerThanState = test.ahead && s.External != "server-0000000100" })
			p := Compute(d, o, test.opt)
			n := 0
			for _, s := range p.Steps {
				if s.Thing == ThingLeftover {
					n++
				}
			}
			if noted := strings.Contains(lines(p), "note "+NoteOldState); n != test.want || noted != test.noted {
				t.Errorf("%d leaks are deleted, noted: %t\n%s", n, noted, lines(p))
			}
		})
	}
}

func TestInstanceOfRunningBuildIsNoLeak(t *testing.T) {
	d, o := fleet(), settled()
	b := &resources.Build{ID: buildID(7), Image: "debian", Kind: resources.DiskImage, State: resources.StateBuilding, StateTime: o.Now}
	o.Records.Builds = append(o.Records.Builds, b)
	view := o.Providers["cloud"]
	view.Instances = append(view.Instances, resources.Instance{ID: "machine", Status: resources.StatusReady,
		Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindBuild, ID: b.ID}})
	o.Providers["cloud"] = view
	o.Busy = map[resources.Key]bool{b.Key(): true}
	if text := lines(Compute(d, o, Options{HonorBackoff: true})); strings.Contains(text, "machine") {
		t.Errorf("the machine of a build that runs is deleted:\n%s", text)
	}
	o.Busy = nil
	if text := lines(Compute(d, o, Options{HonorBackoff: true})); !strings.Contains(text, "delete provider.cloud.server.machine: unfinished") {
		t.Errorf("the machine of an interrupted build stays:\n%s", text)
	}
}

func TestUnknownImageFilesAreNoted(t *testing.T) {
	files := func(installation string, builds ...int) (files []ImageFile) {
		for _, n := range builds {
			files = append(files, ImageFile{Name: "debian-" + buildID(n) + ".raw", Size: 1 << 30, Installation: installation})
		}
		return files
	}
	readme := []ImageFile{{Name: "readme.txt"}}
	for name, test := range map[string]struct {
		files                []ImageFile
		installation         string
		noted, named, hidden string
	}{
		"another state's":              {files("elsewhere", 71, 72, 73, 74), "here", "4 image files", buildID(73), buildID(74)},
		"before the first run":         {files("elsewhere", 71), "", "1 image file in images_dir", "npctl does not delete it", ""},
		"without a mark":               {append(readme, files("", 71)...), "here", "1 image file", buildID(71), "readme"},
		"without a mark, beside ours":  {append(files("here", 72), files("", 71)...), "here", "1 image file", buildID(71), buildID(72)},
		"without a mark, no first run": {files("", 71), "", "1 image file", buildID(71), ""},
		"our own":                      {files("here", 71, 72), "here", "", "", ""},
		"others":                       {readme, "here", "", "", ""},
	} {
		want, seen := fleet(), settled()
		seen.Files, seen.Installation = append(seen.Files, test.files...), test.installation
		p := Compute(want, seen, Options{})
		notes := slices.DeleteFunc(slices.Clone(p.Notes), func(n Note) bool { return n.Code != "unknown-files" })
		if test.noted == "" {
			if len(notes) > 0 {
				t.Errorf("%s: %v", name, notes)
			}
			continue
		}
		if len(notes) != 1 || !strings.HasPrefix(notes[0].Text, test.noted) || !strings.Contains(notes[0].Text, test.named) ||
			test.hidden != "" && strings.Contains(notes[0].Text, test.hidden) {
			t.Errorf("%s: the notes are %v", name, notes)
			continue
		}
		for _, s := range p.Steps {
			if s.Action == ActionDelete && strings.Contains(string(s.Address), "file") {
				t.Errorf("%s: %s is planned", name, s.Address)
			}
		}
	}
}

func TestChangedInputFilesAreNamed(t *testing.T) {
	before := map[string]string{"build.sh": "1", "files/a": "1", "files/b": "1"}
	for name, test := range map[string]struct {
		recorded, now map[string]string
		want          []FileChange
	}{
		"changes":         {before, map[string]string{"build.sh": "1", "files/b": "2", "files/c": "1"}, []FileChange{{"files/a", FileRemoved}, {"files/b", FileChanged}, {"files/c", FileAdded}}},
		"an older record": {nil, before, nil},
		"too many now":    {before, nil, nil},
	} {
		c := &world{seen: Observed{Records: Records{Templates: []*resources.Template{{Hash: "v1:00", Files: test.recorded}}}}}
		if diff := cmp.Diff(test.want, c.changedFiles("v1:00", test.now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestImageHashesStayTheSame guards against hashes that would rebuild every image at an upgrade.
func TestImageHashesStayTheSame(t *testing.T) {
	got := ImageHashes(resources.Hashes{"v1:0123456789abcdef0123456789abcdef"}, "v1:fedcba9876543210fedcba9876543210")
	if diff := cmp.Diff(resources.Hashes{"v1:3607a71e7928d3d3ca3211ab801825e8"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestObjectsOfAnUploadAreLeakedWithoutItsRecord(t *testing.T) {
	for _, id := range []string{"0000000001", "0000000077"} { // a node has the first ID too
		d, o := fleet(), settled()
		upload := &resources.Upload{ID: id, Image: "debian", Build: buildID(1), Provider: "cloud", State: resources.StateUploading, StateTime: o.Now}
		o.Records.Uploads = append(o.Records.Uploads, upload)
		view := o.Providers["cloud"]
		view.Leftovers = []resources.Leftover{{Type: "snapshot", ID: "written", Marks: resources.OwnerTags{Installation: "here", Kind: resources.KindUpload, ID: id}}}
		o.Providers["cloud"] = view
		o.Records.Sightings = []*resources.Sighting{{Provider: "cloud", Type: "snapshot", External: "written", First: o.Now.Add(-24 * time.Hour), Last: o.Now}}
		if text := lines(Compute(d, o, Options{HonorBackoff: true})); strings.Contains(text, "written") {
			t.Errorf("the snapshot of a running upload is deleted:\n%s", text)
		}
		o.Records.Uploads = o.Records.Uploads[:len(o.Records.Uploads)-1]
		if text := lines(Compute(d, o, Options{HonorBackoff: true})); !strings.Contains(text, "delete provider.cloud.snapshot.written: leaked") {
			t.Errorf("the snapshot of a removed upload is not deleted:\n%s", text)
		}
	}
}

// The IDs of nodes and uploads are equal numbers: an image of a node, and a server with the tags of an upload, are copies.
func TestObjectsOfAnotherKindAreForeign(t *testing.T) {
	for _, record := range []string{"known", "unknown"} {
		d, o := fleet(), settled()
		view := o.Providers["cloud"]
		node, upload := o.Records.Nodes[0].ID, o.Records.Uploads[0].ID
		if record == "unknown" {
			node, upload = "0000000071", "0000000072"
		}
		sighted := func(kind, id string, marks resources.OwnerTags) {
			o.Records.Sightings = append(o.Records.Sightings, &resources.Sighting{Provider: "cloud", Type: kind, External: id, First: o.Now.Add(-time.Hour), Last: o.Now,
				Record: resources.Key{Kind: marks.Kind, ID: marks.ID}})
		}
		for _, id := range []string{node, upload} {
			ofNode := resources.OwnerTags{Installation: o.Installation, Kind: resources.KindNode, ID: id}
			view.Images = append(view.Images, resources.RemoteImage{ID: "backup-" + id, Status: resources.StatusReady, Marks: ofNode})
			sighted("image", "backup-"+id, ofNode)
			ofUpload := resources.OwnerTags{Installation: o.Installation, Kind: resources.KindUpload, ID: id}
			view.Instances = append(view.Instances, resources.Instance{ID: "copy-" + id, Status: resources.StatusReady, Marks: ofUpload})
			sighted("server", "copy-"+id, ofUpload)
		}
		o.Providers["cloud"] = view
		for _, s := range Compute(d, o, Options{}).Steps {
			if s.Removes() && s.Thing != ThingRecord {
				t.Errorf("%s record: %s %s %s (%s)", record, s.Action, s.Thing, s.External, s.Reason)
			}
		}
	}
}
