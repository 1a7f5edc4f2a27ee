package zookeeper

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

var buildHex = strings.Repeat("7b0c", 8)

func TestParsePath(t *testing.T) {
	t.Parallel()
	builds := imagesDir + "/noble/builds"
	uploads := builds + "/" + buildHex + "/providers/cloud-a/images"
	contender := "/" + somePrefix + "__lock__0000000001"
	for _, c := range []struct {
		at   string
		role role
		kind resources.Kind
		id   string
	}{
		{"", roleOther, "", ""},
		{"/zuul", roleOther, "", ""},
		{"/nodepoolish/requests/200-0000000001", roleOther, "", ""},
		{rootDir, roleDir, "", ""},
		{rootDir + "/elections/stats", roleOther, "", ""},
		{requestsDir, roleDir, "", ""},
		{requestsDir + "/200-0000000001", roleRecord, resources.KindRequest, "200-0000000001"},
		{requestsDir + "/200-0000000001/more", roleOther, "", ""},
		{requestLocks, roleDir, "", ""},
		{requestLocks + "/200-0000000001", roleLock, "", ""},
		{requestLocks + "/200-0000000001" + contender, roleContender, "", ""},
		{nodesDir + "/0000000042", roleRecord, resources.KindNode, "0000000042"},
		{nodesDir + "/0000000042/lock", roleLock, "", ""},
		{nodesDir + "/0000000042/lock" + contender, roleContender, "", ""},
		{nodesDir + "/0000000042/other", roleOther, "", ""},
		{imagesDir + "/noble", roleDir, "", ""},
		{imagesDir + "/noble/pause", roleFlag, "", ""},
		{imagesDir + "/noble/request-build", roleFlag, "", ""},
		{builds, roleDir, "", ""},
		{builds + "/lock", roleLock, "", ""},
		{builds + "/lock" + contender, roleContender, "", ""},
		{builds + "/" + buildHex, roleRecord, resources.KindBuild, buildHex},
		{builds + "/0000000003", roleRecord, resources.KindBuild, "noble/0000000003"}, // before Nodepool 9
		{builds + "/" + buildHex + "/lock" + contender, roleContender, "", ""},
		{uploads, roleDir, "", ""},
		{uploads + "/lock", roleLock, "", ""},
		{uploads + "/0000000001", roleRecord, resources.KindUpload, "noble/" + buildHex + "/cloud-a/0000000001"},
		{uploads + "/0000000001/lock" + contender, roleContender, "", ""},
		{registryDir + "/pool/launch10000000001", roleComponent, "", ""},
		{registryDir + "/builder/nb10000000001", roleComponent, "", ""},
		{registryDir + "/pool", roleDir, "", ""},
		{namedDir + "/apply", roleLock, "", ""},
		{frozenDir, roleDir, "", ""},
		{trialsDir, roleDir, "", ""},
		{trialsDir + "/0000000001", roleRecord, resources.KindTrial, "0000000001"},
		{trialsDir + "/debian%2F0000000001%2Fcloud%2F0000000002", roleRecord, resources.KindTrial, "debian/0000000001/cloud/0000000002"},
		{trialsDir + "/%zz", roleOther, "", ""},
		{trialsDir + "/0000000001/lock", roleOther, "", ""},
		{frozenDir + "/cloud-a", roleFlag, "", ""},
		{frozenDir + "/cloud-a/other", roleOther, "", ""},
		{namedDir + "/apply" + contender, roleContender, "", ""},
	} {
		p := parsePath(c.at)
		if p.role != c.role || p.kind != c.kind || p.id != c.id {
			t.Errorf("%s: role %d, kind %q, id %q; want %d, %q, %q", c.at, p.role, p.kind, p.id, c.role, c.kind, c.id)
		}
	}
}

func TestUploadIDsIdentifyTheirZnodes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.StringMatching(`[a-z][a-z0-9._-]{0,20}`).Filter(func(s string) bool { return s != lockName })
		build := rapid.OneOf(rapid.StringMatching(`[0-9a-f]{32}`), rapid.StringMatching(`[0-9]{10}`)).Draw(r, "build")
		image, provider := name.Draw(r, "image"), name.Draw(r, "provider")
		at := uploadsDir(image, build, provider) + "/" + rapid.StringMatching(`[0-9]{10}`).Draw(r, "sequence")
		id, ok := uploadID(at)
		if back, there := uploadPath(id); !ok || !there || back != at {
			r.Fatalf("%s has the id %q (%t), which is at %q (%t)", at, id, ok, back, there)
		}
	})
}

func TestInvalidZnodeNamesAreRejected(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", ".", "..", "lock", "a/b", "a\x00", "a\nb", "\u0085", "\ue000", "\uffff"} {
		if checkNames("good", name) == nil {
			t.Errorf("%q was taken for a name", name)
		}
	}
	if err := checkNames("debian-12", "büro", "a.b", "locks"); err != nil {
		t.Error(err)
	}
}

func TestRecordsWithInvalidNamesAreRejected(t *testing.T) {
	t.Parallel()
	for _, r := range []resources.Record{
		&resources.Request{ID: "0000000001", State: "requested", Labels: []string{"a"}, Priority: 200},
		&resources.Request{State: "requested", Labels: []string{"a"}, Priority: 1000},
		&resources.Request{State: "requested", Labels: []string{"a"}, Priority: -1},
		&resources.Request{State: "requested", Labels: []string{"a"}, Data: []byte("{")},
		&resources.Node{ID: "1", State: "ready"},
		&resources.Node{ID: "../../zuul/x", State: "ready"},
		&resources.Build{ID: "1", Image: "a", State: "building"},
		&resources.Build{ID: buildHex, Image: "a/b", State: "building"},
		&resources.Upload{ID: "x", Image: "a", Build: buildHex, Provider: "p", State: "uploading"},
		&resources.Upload{Image: "a", Build: buildHex, Provider: "..", State: "uploading"},
		&resources.Upload{ID: "a/" + buildHex + "/other/0000000001", Image: "a", Build: buildHex, Provider: "p", State: "uploading"},
	} {
		if _, err := prepare([]state.Op{{Record: r}}); err == nil {
			t.Errorf("%+v was not refused", r)
		}
	}
}
