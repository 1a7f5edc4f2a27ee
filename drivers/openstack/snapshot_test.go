package openstack

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

func buildMarks() resources.OwnerTags {
	return resources.OwnerTags{Installation: "inst", Kind: resources.KindBuild, ID: "b1", Provider: "lab", Pool: "main", Label: "base", Image: "golden"}
}

// Nova copies the properties of the server's image, including npctl's ownership tags.
const inherited = `"npctl_installation": "inst", "npctl_upload_id": "0000000007", "npctl_image": "debian", "npctl_build": "b0",
	"npctl_sha256": "abc", "npctl_hash": "v1:1", "os_distro": "debian", "image_type": "snapshot"`

func TestSnapshotsAreDistinguishedFromImagesWithInheritedTags(t *testing.T) {
	r := newReplay(t)
	r.when("GET /image/v2/images", func(q *http.Request) (int, string) {
		ours := `{"id": "ours", "name": "n", "status": "active", "disk_format": "raw", "size": 5, "tags": [%], ` + inherited + `,
			"npctl_build_id": "b1", "npctl_provider": "lab", "npctl_pool": "main", "npctl_label": "base", "npctl_image": "golden",
			"npctl_build": "", "npctl_hash": ""}`
		switch {
		case q.URL.Query().Get("tag") == "npctl":
			return 200, `{"images": [` + strings.Replace(ours, "%", `"npctl"`, 1) + `]}`
		case q.URL.Query().Get("image_type") == "snapshot":
			return 200, `{"images": [` + strings.Replace(ours, "%", `"npctl"`, 1) + `,` +
				strings.NewReplacer(`"ours"`, `"untagged"`, "%", "", `"b1"`, `"b2"`).Replace(ours) + `,
				{"id": "theirs", "name": "backup of a node", "status": "active", "tags": [], ` + inherited + `}]}`
		}
		return 500, ""
	})
	got, err := r.open(nil).ListImages(t.Context())
	testutil.Must(t, err)
	first := resources.RemoteImage{ID: "ours", Name: "n", Marks: buildMarks(), Status: resources.StatusReady, Format: "raw", Size: 5,
		Properties: map[string]string{"os_distro": "debian", "image_type": "snapshot"}}
	second := first
	second.ID, second.Marks.ID = "untagged", "b2"
	if diff := cmp.Diff([]resources.RemoteImage{first, second}, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
}

func TestSnapshotWritesEveryMarkAndTag(t *testing.T) {
	r := newReplay(t)
	r.on("GET /compute/v2.1/servers/s1", 200, `{"server": {"id": "s1", "metadata": {}}}`)
	r.on("POST /compute/v2.1/servers/s1/action", 202, `{"image_id": "i1"}`)
	r.on("PUT /image/v2/images/i1/tags/npctl", 204, "")
	id, err := r.open(nil).Snapshot(t.Context(), "s1", "golden-b1", buildMarks())
	if err != nil || id != "i1" {
		t.Fatalf("Snapshot = %q, %v", id, err)
	}
	want := `{"createImage":{"metadata":{"npctl_build":"","npctl_build_id":"b1","npctl_hash":"","npctl_image":"golden","npctl_installation":"inst",` +
		`"npctl_label":"base","npctl_object":"","npctl_pool":"main","npctl_provider":"lab"},"name":"golden-b1"}}`
	if got := r.body("POST /compute/v2.1/servers/s1/action"); got != want {
		t.Errorf("asked for %s\nwant      %s", got, want)
	}
	if len(r.asked("PUT /image/v2/images/i1/tags/npctl")) != 1 {
		t.Error("the image was not tagged")
	}
	// A failure to set the tag must not lose the image.
	r.on("PUT /image/v2/images/i1/tags/npctl", 500, "")
	if id, err := r.open(nil).Snapshot(t.Context(), "s1", "golden-b1", buildMarks()); err != nil || id != "i1" {
		t.Errorf("Snapshot without a tag = %q, %v", id, err)
	}
}

func TestSnapshotOfBusyServerIsTransientError(t *testing.T) {
	r := newReplay(t)
	r.on("GET /compute/v2.1/servers/s1", 200, `{"server": {"id": "s1", "metadata": {}}}`)
	r.on("POST /compute/v2.1/servers/s1/action", 409, `{"conflictingRequest": {"code": 409, "message": "Cannot 'createImage' instance s1 while it is in task_state powering-off"}}`)
	_, err := r.open(nil).Snapshot(t.Context(), "s1", "n", buildMarks())
	if err == nil || !drivers.IsNothingDone(err) || !drivers.IsTransient(err) || !strings.Contains(err.Error(), "powering-off") {
		t.Errorf("error is %v; want one that proves that nothing was done and may pass", err)
	}
}

// image serves an image of five bytes and its file.
func (r *replay) image(status int, file string) {
	r.on("GET /image/v2/images/i1", 200, `{"id": "i1", "status": "active", "disk_format": "raw", "size": 5, "checksum": "5d41402abc4b2a76b9719d911017c592"}`)
	r.on("GET /image/v2/images/i1/file", status, file)
}

func TestContentIsComparedWithSizeAndChecksumOfGlance(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"whole", "hello", ""},
		{"short", "hell", "after 4 of 5 bytes"},
		{"long", "hello!", "more than the 5 bytes"},
		{"changed", "hellO", "damaged in transfer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReplay(t)
			r.image(200, test.file)
			content, read, err := r.open(nil).ReadImage(t.Context(), "i1")
			testutil.Must(t, err)
			defer content.Close()
			got, err := io.ReadAll(content)
			if (err == nil) != (test.want == "") || err != nil && (!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "i1")) {
				t.Errorf("read %q, %v; want %q", got, err, test.want)
			}
			if read.Format != "raw" || read.Size != 5 {
				t.Errorf("read of %+v", read)
			}
		})
	}
}

func TestUnavailableContentIsExplained(t *testing.T) {
	r := newReplay(t)
	r.image(403, "not for you")
	if _, _, err := r.open(nil).ReadImage(t.Context(), "i1"); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "not for you") {
		t.Errorf("forbidden content: %v", err)
	}
	r.on("GET /image/v2/images/i1", 200, `{"id": "i1", "status": "active", "size": 0}`)
	if _, _, err := r.open(nil).ReadImage(t.Context(), "i1"); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "boot from a volume") {
		t.Errorf("empty image: %v", err)
	}
	r.on("GET /image/v2/images/i1", 200, `{"id": "i1", "status": "saving"}`)
	if _, _, err := r.open(nil).ReadImage(t.Context(), "i1"); err == nil || !drivers.IsTransient(err) {
		t.Errorf("image that is not ready: %v, want an error that may pass", err)
	}
}

func TestOldNovaReturnsTheImageInAHeader(t *testing.T) {
	r := newReplay(t)
	r.newest = "2.40"
	r.on("GET /compute/v2.1/servers/s1", 200, `{"server": {"id": "s1", "metadata": {}}}`)
	r.when("POST /compute/v2.1/servers/s1/action", func(*http.Request) (int, string) { return 202, "" })
	r.header = http.Header{"Location": {"http://glance.example.com:9292/images/i1"}}
	r.on("PUT /image/v2/images/i1/tags/npctl", 204, "")
	if id, err := r.open(nil).Snapshot(t.Context(), "s1", "n", buildMarks()); err != nil || id != "i1" {
		t.Errorf("Snapshot = %q, %v", id, err)
	}
}
