package openstack

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

const disk = "the content of a disk"

func hexOf[T ~[]byte](sum T) string { return hex.EncodeToString(sum) }

func diskSums() (md5Sum, sha256Sum, sha512Sum string) {
	a, b, c := md5.Sum([]byte(disk)), sha256.Sum256([]byte(disk)), sha512.Sum512([]byte(disk))
	return hexOf(a[:]), hexOf(b[:]), hexOf(c[:])
}

func uploadSpec() drivers.ImageSpec {
	sum5, sum256, _ := diskSums()
	schema := New().Schema().Image.Null().AsValueMap()
	schema["min_disk"], schema["visibility"] = cty.NumberIntVal(8), cty.StringVal("private")
	return drivers.ImageSpec{
		Marks: resources.OwnerTags{Installation: "inst", Kind: resources.KindUpload, ID: "0000000003", Provider: "lab", Image: "debian", Build: "b1", Hash: "v1:ab"},
		Name:  "debian-1", Format: "qcow2", Size: int64(len(disk)), SHA256: sum256, MD5: sum5,
		Properties: map[string]string{"os_distro": "debian"}, Tags: []string{"ci"}, Config: cty.ObjectVal(schema),
	}
}

// glance makes the replay accept one image; fields are the properties that it reports afterwards.
func glance(r *replay, fields string) {
	r.on("POST /image/v2/images", 201, `{"id": "i1", "status": "queued"}`)
	r.on("PATCH /image/v2/images/i1", 200, "{}")
	r.on("PUT /image/v2/images/i1/file", 204, "")
	r.on("GET /image/v2/images/i1", 200, `{"id": "i1", "name": "debian-1", "status": "active", "tags": ["npctl"], "npctl_installation": "inst", "npctl_upload_id": "0000000003", `+fields+`}`)
	r.on("DELETE /image/v2/images/i1", 204, "")
}

func TestImageIsDescribedSentAndChecked(t *testing.T) {
	r := newReplay(t)
	sum5, sum256, sum512 := diskSums()
	glance(r, fmt.Sprintf(`"size": %d, "checksum": %q, "os_hash_algo": "sha512", "os_hash_value": %q, "npctl_sha256": %q, "os_distro": "debian"`, len(disk), sum5, sum512, sum256))
	var length int64
	r.when("PUT /image/v2/images/i1/file", func(q *http.Request) (int, string) { length = q.ContentLength; return 204, "" })
	got, err := r.open(nil).UploadImage(t.Context(), uploadSpec(), strings.NewReader(disk))
	testutil.Must(t, err)
	want := resources.RemoteImage{
		ID: "i1", Name: "debian-1", Status: resources.StatusReady, Size: int64(len(disk)), SHA256: sum256, Properties: map[string]string{"os_distro": "debian"},
		Marks: resources.OwnerTags{Installation: "inst", Kind: resources.KindUpload, ID: "0000000003"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("image (-want +got):\n%s", diff)
	}
	if body := r.body("PUT /image/v2/images/i1/file"); body != disk || length != int64(len(disk)) {
		t.Errorf("sent %q with length %d", body, length)
	}
	var request map[string]any
	testutil.Must(t, json.Unmarshal([]byte(r.body("POST /image/v2/images")), &request))
	wantRequest := map[string]any{
		"name": "debian-1", "disk_format": "qcow2", "container_format": "bare", "protected": false, "visibility": "private", "min_disk": 8.0,
		"tags": []any{"ci", "npctl"}, "os_distro": "debian", "npctl_installation": "inst", "npctl_upload_id": "0000000003", "npctl_provider": "lab",
		"npctl_image": "debian", "npctl_build": "b1", "npctl_hash": "v1:ab", "npctl_sha256": sum256,
	}
	if diff := cmp.Diff(wantRequest, request); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestDamagedImageIsRemoved(t *testing.T) {
	sum5, _, sum512 := diskSums()
	size := len(disk)
	for name, fields := range map[string]string{
		"size":             fmt.Sprintf(`"size": %d`, size-1),
		"MD5":              fmt.Sprintf(`"size": %d, "checksum": "d41d8cd98f00b204e9800998ecf8427e"`, size),
		"SHA-256":          fmt.Sprintf(`"size": %d, "checksum": %q, "os_hash_algo": "sha256", "os_hash_value": "00"`, size, sum5),
		"SHA-512 alone":    fmt.Sprintf(`"size": %d, "checksum": null, "os_hash_algo": "sha512", "os_hash_value": %q`, size, strings.Repeat("0", len(sum512))),
		"status is killed": `"status": "killed"`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplay(t)
			glance(r, fields)
			_, err := r.open(nil).UploadImage(t.Context(), uploadSpec(), strings.NewReader(disk))
			if err == nil || errors.Is(err, drivers.ErrRejected) {
				t.Errorf("UploadImage: %v; want an error that may pass", err)
			}
			if n := len(r.asked("DELETE /image/v2/images/i1")); n != 1 {
				t.Errorf("deleted %d times, want once", n)
			}
		})
	}
}

func TestGlanceWithoutMD5IsCheckedBySHA512(t *testing.T) {
	r := newReplay(t)
	_, _, sum512 := diskSums()
	glance(r, fmt.Sprintf(`"size": %d, "checksum": null, "os_hash_algo": "sha512", "os_hash_value": %q`, len(disk), sum512))
	if _, err := r.open(nil).UploadImage(t.Context(), uploadSpec(), strings.NewReader(disk)); err != nil {
		t.Error(err)
	}
}

// countingReader counts the bytes read.
type countingReader struct {
	*strings.Reader
	read int
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read += n
	return n, err
}

// WriteTo hides the embedded WriteTo, which would bypass Read.
func (r *countingReader) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{r})
}

func TestFileIsReadOnceWhenGlanceReturnsKnownChecksum(t *testing.T) {
	sum5, sum256, sum512 := diskSums()
	size := fmt.Sprintf(`"size": %d`, len(disk))
	known := uploadSpec()
	unknown, half := uploadSpec(), uploadSpec()
	unknown.SHA256, unknown.MD5, half.MD5 = "", "", ""
	shows512 := fmt.Sprintf(`%s, "checksum": null, "os_hash_algo": "sha512", "os_hash_value": %q`, size, sum512)
	for _, test := range []struct {
		name, fields string
		spec         drivers.ImageSpec
		reads        int
	}{
		{"MD5", fmt.Sprintf(`%s, "checksum": %q`, size, sum5), known, 1},
		{"SHA-256 alone", fmt.Sprintf(`%s, "checksum": null, "os_hash_algo": "sha256", "os_hash_value": %q`, size, sum256), known, 1},
		{"MD5, sums not known", fmt.Sprintf(`%s, "checksum": %q`, size, sum5), unknown, 1},
		{"MD5, of the sums one known", fmt.Sprintf(`%s, "checksum": %q`, size, sum5), half, 1},
		{"SHA-512 alone", shows512, known, 2},
		{"no sum", size + `, "checksum": null`, known, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newReplay(t)
			glance(r, test.fields)
			content := &countingReader{Reader: strings.NewReader(disk)}
			if _, err := r.open(nil).UploadImage(t.Context(), test.spec, content); err != nil {
				t.Fatal(err)
			}
			if content.read != test.reads*len(disk) {
				t.Errorf("read %d bytes of %d, want each of them %d times", content.read, len(disk), test.reads)
			}
		})
	}
}

func TestFileChangedAfterBuildIsRejected(t *testing.T) {
	other := strings.ToUpper(disk)
	sum5, sum256, sum512 := md5.Sum([]byte(other)), sha256.Sum256([]byte(other)), sha512.Sum512([]byte(other))
	size := fmt.Sprintf(`"size": %d`, len(disk))
	half := uploadSpec()
	half.MD5 = ""
	for name, test := range map[string]struct {
		fields string
		spec   drivers.ImageSpec
	}{
		"MD5":                        {fmt.Sprintf(`%s, "checksum": %q`, size, hexOf(sum5[:])), uploadSpec()},
		"MD5, of the sums one known": {fmt.Sprintf(`%s, "checksum": %q`, size, hexOf(sum5[:])), half},
		"SHA-256":                    {fmt.Sprintf(`%s, "checksum": null, "os_hash_algo": "sha256", "os_hash_value": %q`, size, hexOf(sum256[:])), uploadSpec()},
		"SHA-512":                    {fmt.Sprintf(`%s, "checksum": null, "os_hash_algo": "sha512", "os_hash_value": %q`, size, hexOf(sum512[:])), uploadSpec()},
		"nothing":                    {size, uploadSpec()},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplay(t)
			glance(r, test.fields)
			_, err := r.open(nil).UploadImage(t.Context(), test.spec, strings.NewReader(other))
			if !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "build it again") {
				t.Errorf("UploadImage: %v; want ErrRejected and the advice to build again", err)
			}
			if n := len(r.asked("DELETE /image/v2/images/i1")); n != 1 {
				t.Errorf("deleted %d times, want once", n)
			}
		})
	}
}

func TestTokenExpiredBeforeUploadIsRenewed(t *testing.T) {
	r := newReplay(t)
	sum5, _, _ := diskSums()
	glance(r, fmt.Sprintf(`"size": %d, "checksum": %q`, len(disk), sum5))
	c := r.open(nil)
	r.when("POST /image/v2/images", func(*http.Request) (int, string) {
		r.accept("gAAAAtoken-2")
		return 201, `{"id": "i1", "status": "queued"}`
	})
	if _, err := c.UploadImage(t.Context(), uploadSpec(), strings.NewReader(disk)); err != nil {
		t.Fatal(err)
	}
	if body := r.body("PUT /image/v2/images/i1/file"); body != disk {
		t.Errorf("the second try sent %q", body)
	}
}

func TestFullGlanceIsErrQuotaAndImageIsDeleted(t *testing.T) {
	r := newReplay(t)
	glance(r, `"size": 0`)
	r.on("PUT /image/v2/images/i1/file", 413, `<html><body>Denying attempt to upload image because it exceeds the quota: 10</body></html>`)
	_, err := r.open(nil).UploadImage(t.Context(), uploadSpec(), strings.NewReader(disk))
	if !errors.Is(err, drivers.ErrQuota) || len(r.asked("DELETE /image/v2/images/i1")) != 1 {
		t.Errorf("UploadImage: %v after %v; want ErrQuota and the image removed", err, r.asked("DELETE"))
	}
}

func TestImageThatCannotBeDeletedIsNamed(t *testing.T) {
	r := newReplay(t)
	glance(r, `"size": 1`)
	r.on("DELETE /image/v2/images/i1", 500, "")
	_, err := r.open(nil).UploadImage(t.Context(), uploadSpec(), strings.NewReader(disk))
	if err == nil || !strings.Contains(err.Error(), "image i1 was not deleted") {
		t.Errorf("UploadImage: %v; want the image named that stays behind", err)
	}
}

func TestPropertiesThatGlanceUsesItselfAreRejected(t *testing.T) {
	r := newReplay(t)
	c := r.open(nil)
	for _, name := range []string{"status", "os_hash_value", "npctl_build"} {
		spec := uploadSpec()
		spec.Properties = map[string]string{name: "x"}
		if _, err := c.UploadImage(t.Context(), spec, strings.NewReader(disk)); !errors.Is(err, drivers.ErrRejected) || !drivers.IsNothingDone(err) {
			t.Errorf("property %s: %v; want ErrRejected before anything was made", name, err)
		}
	}
}

func TestImageInUseMayBeDeletedLater(t *testing.T) {
	r := newReplay(t)
	r.on("DELETE /image/v2/images/i1", 409, `409 Conflict: Image i1 could not be deleted because it is in use`)
	r.on("GET /image/v2/images/i1", 200, `{"id": "i1", "status": "active", "tags": ["npctl"], "npctl_installation": "inst", "npctl_upload_id": "7"}`)
	err := r.open(nil).DeleteImage(t.Context(), "i1", resources.OwnerTags{Installation: "inst", Kind: resources.KindUpload, ID: "7"})
	if err == nil || !drivers.IsTransient(err) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("DeleteImage: %v; want an error that may pass and says that the image is in use", err)
	}
}

// Two providers of one project may delete a leaked image at the same time.
func TestImageThatAnotherProcessDeletesIsGone(t *testing.T) {
	const there = `{"id": "i1", "status": "active", "tags": ["npctl"], "npctl_installation": "inst", "npctl_upload_id": "7"}`
	for name, afterwards := range map[string]int{"gone": 404, "still there": 200} {
		r := newReplay(t)
		tried := false
		r.when("DELETE /image/v2/images/i1", func(*http.Request) (int, string) {
			tried = true
			return 400, "400 Bad Request: Image status transition from deleted to deleted is not allowed"
		})
		r.when("GET /image/v2/images/i1", func(*http.Request) (int, string) {
			if tried && afterwards != 200 {
				return afterwards, ""
			}
			return 200, there
		})
		err := r.open(nil).DeleteImage(t.Context(), "i1", resources.OwnerTags{Installation: "inst", Kind: resources.KindUpload, ID: "7"})
		if (err == nil) != (afterwards == 404) {
			t.Errorf("%s: DeleteImage: %v", name, err)
		}
	}
}

func TestIncompleteUploadsAreListed(t *testing.T) {
	r := newReplay(t)
	image := func(id, status string) string {
		return fmt.Sprintf(`{"id": %q, "status": %q, "size": null, "checksum": null, "tags": ["npctl"], "npctl_installation": "inst", "npctl_upload_id": %q}`, id, status, id)
	}
	r.on("GET /image/v2/images", 200, `{"images": [`+strings.Join([]string{image("1", "queued"), image("2", "saving"), image("3", "killed"), image("4", "active"),
		image("5", "pending_delete"), `{"id": "6", "status": "active", "tags": ["npctl"]}`}, ",")+`]}`)
	list, err := r.open(nil).ListImages(t.Context())
	testutil.Must(t, err)
	got := map[string]resources.Status{}
	for _, i := range list {
		got[i.Marks.ID] = i.Status
	}
	want := map[string]resources.Status{"1": resources.StatusPending, "2": resources.StatusPending, "3": resources.StatusFailed, "4": resources.StatusReady, "5": resources.StatusDeleting}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("statuses (-want +got):\n%s", diff)
	}
	if asked := r.asked("GET /image/v2/images"); !strings.Contains(asked[0], "owner=project&tag=npctl") {
		t.Errorf("asked %s, want filters by owner and tag", asked[0])
	}
}

func TestNewestActiveMatchIsFound(t *testing.T) {
	r := newReplay(t)
	image := func(id, name, status, created, tags string) string {
		return fmt.Sprintf(`{"id": %q, "name": %q, "status": %q, "created_at": %q, "tags": [%s], "os_distro": "ubuntu"}`, id, name, status, created, tags)
	}
	r.on("GET /image/v2/images", 200, `{"images": [`+strings.Join([]string{
		image("b", "noble-1", "active", "2026-01-02T00:00:00Z", `"lts"`), image("a", "noble-2", "active", "2026-01-02T00:00:00Z", `"lts"`),
		image("c", "noble-0", "active", "2026-01-01T00:00:00Z", `"lts", "x/y"`), image("d", "noble-3", "deactivated", "2026-01-03T00:00:00Z", `"lts"`),
		image("e", "jammy", "active", "2026-01-04T00:00:00Z", `"lts"`)}, ",")+`]}`)
	c := r.open(nil)
	for _, test := range []struct {
		filters map[string]resources.AnyOf
		want    string
	}{
		{map[string]resources.AnyOf{"name": {"noble-*"}}, "a"},
		{map[string]resources.AnyOf{"name": {"noble-*"}, "tags": {"lts, x/*"}}, "c"},
		{map[string]resources.AnyOf{"os_distro": {"ubuntu"}, "tag": {"lts"}}, "e"},
		{map[string]resources.AnyOf{"name": {"noble-?"}, "os_version": {"*"}}, ""},
		{map[string]resources.AnyOf{"name": {"[noble"}}, ""},
		{map[string]resources.AnyOf{"name": {"noble-0", "noble-1"}}, "b"},
		{map[string]resources.AnyOf{"name": {"none", "jam*"}, "tag": {"none", "lts"}}, "e"},
		{map[string]resources.AnyOf{"tag": {"none", "lts, x/y"}}, "c"},
		{map[string]resources.AnyOf{"name": {"noble-0", "[noble"}}, ""},
		{map[string]resources.AnyOf{"name": {"none", "neither"}}, ""},
	} {
		got, problems, err := c.ResolveImage(t.Context(), resources.CloudImageSpec{Name: "x", Filters: test.filters})
		if err != nil || got.ID != test.want || (len(problems) == 0) != (test.want != "") {
			t.Errorf("%v: %q, %v, %v; want %q", test.filters, got.ID, problems, err, test.want)
		}
	}
}

func BenchmarkListOfTenThousandServers(b *testing.B) {
	var page []string
	for i := range 1000 {
		page = append(page, fmt.Sprintf(`{"id": "9f1c6d5e-0000-4000-8000-%012d", "name": "np%010d", "status": "ACTIVE", "created": "2026-03-01T10:00:00Z", "updated": "2026-03-01T10:00:00Z",
			"hostId": "6a1b", "tenant_id": "p", "user_id": "u", "key_name": null, "OS-EXT-AZ:availability_zone": "nova", "OS-EXT-STS:task_state": null, "OS-EXT-STS:vm_state": "active",
			"flavor": {"original_name": "small", "vcpus": 2, "ram": 4096, "disk": 40, "ephemeral": 0, "swap": 0, "extra_specs": {}},
			"image": {"id": "i", "links": [{"rel": "bookmark", "href": "http://x/i"}]}, "links": [{"rel": "self", "href": "http://x/y"}],
			"metadata": {"npctl_installation": "inst", "npctl_node_id": "%010d", "npctl_provider": "lab", "npctl_pool": "main", "npctl_label": "small", "npctl_image": "diskimage.debian", "npctl_hash": "v1:0123456789abcdef0123456789abcdef"},
			"addresses": {"private": [{"addr": "10.0.0.5", "version": 4, "OS-EXT-IPS:type": "fixed", "OS-EXT-IPS-MAC:mac_addr": "fa:16:3e:00:00:00"}]},
			"security_groups": [{"name": "default"}], "os-extended-volumes:volumes_attached": []}`, i, i, i))
	}
	text := []byte(`{"servers": [` + strings.Join(page, ",") + `]}`)
	c := &Cloud{}
	for b.Loop() {
		for range 10 {
			var answer map[string]json.RawMessage
			var servers []server
			testutil.Must(b, json.NewDecoder(bytes.NewReader(text)).Decode(&answer))
			testutil.Must(b, json.Unmarshal(answer["servers"], &servers))
			for _, s := range servers {
				_ = c.instance(s, nil, nil)
			}
		}
	}
}
