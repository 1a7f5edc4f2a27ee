//go:build integration

package aws

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

const testBucket = "npctl-images"

// untaggedObject has the name of an object of another installation, and no tags.
const untaggedObject = "npctl/another/0000000001.vmdk"

// importCloud opens a region with a bucket that has only this object.
func importCloud(t *testing.T, w *wire) *Cloud {
	t.Helper()
	resetMoto(t)
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-1"))
	testutil.Must(t, err)
	client := s3.NewFromConfig(cfg)
	_, err = client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(testBucket)})
	testutil.Must(t, err)
	_, err = client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(testBucket), Key: aws.String(untaggedObject), Body: strings.NewReader("of another")})
	testutil.Must(t, err)
	c, err := openWith(t.Context(), w, map[string]cty.Value{"bucket": cty.StringVal(testBucket), "image_format": cty.StringVal("vmdk")})
	testutil.Must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

func importSpec(content []byte, attributes map[string]cty.Value) drivers.ImageSpec {
	values := New().Schema().Image.Null().AsValueMap()
	values["import_method"] = cty.StringVal(methodSnapshot)
	maps.Copy(values, attributes)
	sum := sha256.Sum256(content)
	return drivers.ImageSpec{Marks: resources.OwnerTags{Installation: "integration", Kind: resources.KindUpload, ID: "0000000001", Provider: "amazon"}, Name: "imported", Format: "vmdk",
		Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:]), Config: cty.ObjectVal(values), Properties: map[string]string{"team": "ci"}}
}

// remains returns the leftovers of the installation by type.
func remains(t *testing.T, c *Cloud) (types []string) {
	t.Helper()
	all, err := c.Leftovers(t.Context())
	testutil.Must(t, err)
	for _, l := range all {
		if l.Marks.Installation == "integration" && !l.InUse {
			types = append(types, l.Type)
		}
	}
	slices.Sort(types)
	return types
}

// deleteRemains deletes the leftovers of a record.
func deleteRemains(t *testing.T, c *Cloud, marks resources.OwnerTags) {
	t.Helper()
	all, err := c.Leftovers(t.Context())
	testutil.Must(t, err)
	for _, l := range all {
		if l.Marks.SameRecord(marks) {
			testutil.Must(t, c.DeleteLeftover(t.Context(), l))
		}
	}
}

func TestMotoImageIsImportedThroughABucket(t *testing.T) {
	w := &wire{}
	c := importCloud(t, w)
	content := make([]byte, minPart+1000)
	_, _ = rand.Read(content)
	spec := importSpec(content, map[string]cty.Value{"architecture": cty.StringVal("arm64")})
	var sent int64
	spec.Progress = func(n int64) { sent = n }
	made, err := c.UploadImage(t.Context(), spec, bytes.NewReader(content))
	testutil.Must(t, err)
	if made.Status != resources.StatusReady || made.Format != "vmdk" || made.SHA256 != spec.SHA256 || made.Properties["team"] != "ci" || sent != spec.Size || w.calls["ImportSnapshot"] != 1 {
		t.Errorf("image is %+v, %d bytes sent, calls %v", made, sent, w.calls)
	}
	if left := remains(t, c); left != nil {
		t.Errorf("leftovers after the import: %v", left)
	}
	testutil.Must(t, c.DeleteImage(t.Context(), made.ID, spec.Marks))
	if left := leftoversOf(t, c, resources.LeftoverSnapshot); len(left) != 0 {
		t.Errorf("snapshots after the deletion of the image: %v", left)
	}
	if objects := leftoversOf(t, c, resources.LeftoverObject); len(objects) != 0 {
		t.Errorf("objects are %v, but the only one has no ownership tags", objects)
	}
	if err := c.removeObject(t.Context(), untaggedObject); !errors.Is(err, drivers.ErrNotOurs) {
		t.Errorf("deletion of an object without ownership tags: %v", err)
	}
}

func TestMotoFailedImportLeavesNothing(t *testing.T) {
	content := []byte(strings.Repeat("x", 5000))
	for _, action := range []string{"ImportSnapshot", "CreateTags", "RegisterImage"} {
		w := &wire{}
		c := importCloud(t, w)
		w.answer(action, func() *response { return apiFault(400, "InvalidParameterValue", "refused by the test") })
		spec := importSpec(content, nil)
		if _, err := c.UploadImage(t.Context(), spec, bytes.NewReader(content)); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "refused by the test") {
			t.Errorf("%s: %v", action, err)
		}
		if left := remains(t, c); left != nil {
			t.Errorf("leftovers after a failed %s: %v", action, left)
		}
	}
	c := importCloud(t, &wire{})
	spec := importSpec(content, nil)
	spec.SHA256 = strings.Repeat("0", 64)
	if _, err := c.UploadImage(t.Context(), spec, bytes.NewReader(content)); !errors.Is(err, drivers.ErrRejected) {
		t.Errorf("an image file that changed: %v", err)
	}
	if left := remains(t, c); left != nil {
		t.Errorf("leftovers after the upload of a changed file: %v", left)
	}
}

func TestMotoInterruptedImportIsALeftover(t *testing.T) {
	content := []byte(strings.Repeat("x", 5000))
	w := &wire{}
	w.imports.Stuck = true
	c := importCloud(t, w)
	spec := importSpec(content, nil)
	key := objectKey(spec, c.format)
	testutil.Must(t, c.putObject(t.Context(), spec, key, bytes.NewReader(content)))
	tags, err := imageTags(spec, c.format)
	testutil.Must(t, err)
	_, err = c.startSnapshotImport(t.Context(), spec, imageSettings{}, tags, key)
	testutil.Must(t, err)
	_, err = c.bucket.createMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: aws.String(testBucket), Key: aws.String(key)})
	testutil.Must(t, err)
	want := []string{resources.LeftoverObject, resources.LeftoverObject, resources.LeftoverSnapshot}
	if left := remains(t, c); !slices.Equal(left, want) {
		t.Errorf("leftovers of an interrupted import are %v, want %v", left, want)
	}
	deleteRemains(t, c, spec.Marks)
	if left := remains(t, c); left != nil {
		t.Errorf("leftovers after their deletion: %v", left)
	}
}

func TestMotoSnapshotOfACompletedImportIsALeftover(t *testing.T) {
	content := []byte(strings.Repeat("x", 5000))
	c := importCloud(t, &wire{})
	spec := importSpec(content, nil)
	key := objectKey(spec, c.format)
	testutil.Must(t, c.putObject(t.Context(), spec, key, bytes.NewReader(content)))
	tags, err := imageTags(spec, c.format)
	testutil.Must(t, err)
	task, err := c.startSnapshotImport(t.Context(), spec, imageSettings{}, tags, key)
	testutil.Must(t, err)
	made, err := waitImport(t.Context(), c.snapshotTasks, task)
	testutil.Must(t, err)
	id := made[0]
	left := leftoversOf(t, c, resources.LeftoverSnapshot)
	if len(left) != 1 || left[0].ID != id || !left[0].Marks.SameRecord(spec.Marks) {
		t.Fatalf("leftovers are %v, want snapshot %s", left, id)
	}
	t.Log("the upload is repeated")
	spec.MaybeCreated = true
	image, err := c.UploadImage(t.Context(), spec, bytes.NewReader(content))
	testutil.Must(t, err)
	if left := remains(t, c); left != nil {
		t.Errorf("leftovers after the repetition: %v", left)
	}
	testutil.Must(t, c.DeleteImage(t.Context(), image.ID, spec.Marks))
}

func TestMotoWholeImageIsImported(t *testing.T) {
	content := []byte(strings.Repeat("x", 5000))
	w := &wire{}
	c := importCloud(t, w)
	spec := importSpec(content, map[string]cty.Value{"import_method": cty.StringVal(methodImage)})
	made, err := c.UploadImage(t.Context(), spec, bytes.NewReader(content))
	testutil.Must(t, err)
	if made.Status != resources.StatusReady || made.Name != "imported" || made.SHA256 != spec.SHA256 || made.Properties["team"] != "ci" || w.calls["ImportImage"] != 1 || w.calls["RegisterImage"] != 0 {
		t.Errorf("image is %+v, calls %v", made, w.calls)
	}
	if left := remains(t, c); left != nil {
		t.Errorf("leftovers after the import: %v", left)
	}
	testutil.Must(t, c.DeleteImage(t.Context(), made.ID, spec.Marks))
	if left := leftoversOf(t, c, resources.LeftoverSnapshot); len(left) != 0 {
		t.Errorf("snapshots after the deletion of the image: %v", left)
	}

	t.Log("npctl ends before it tags the AMI of a completed task")
	key := objectKey(spec, c.format)
	testutil.Must(t, c.putObject(t.Context(), spec, key, bytes.NewReader(content)))
	tags, err := imageTags(spec, c.format)
	testutil.Must(t, err)
	task, err := c.startImageImport(t.Context(), spec, imageSettings{Architecture: "x86_64"}, tags, key)
	testutil.Must(t, err)
	if left := remains(t, c); !slices.Equal(left, []string{resources.LeftoverObject, resources.LeftoverSnapshot}) {
		t.Errorf("leftovers of an unfinished task are %v", left)
	}
	_, err = waitImport(t.Context(), c.imageTasks, task)
	testutil.Must(t, err)
	for range 2 { // the AMI, then its snapshot
		deleteRemains(t, c, spec.Marks)
	}
	if left := remains(t, c); left != nil {
		t.Errorf("leftovers after their deletion: %v", left)
	}
	if _, exists, err := c.image(t.Context(), made.ID); exists || err != nil {
		t.Errorf("the AMI exists: %t, %v", exists, err)
	}
}

func TestMotoFormatAndMethodMustMatch(t *testing.T) {
	c := importCloud(t, &wire{})
	spec := importSpec(nil, map[string]cty.Value{"import_method": cty.NullVal(cty.String)})
	if _, err := c.UploadImage(t.Context(), spec, bytes.NewReader(nil)); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "import_method") {
		t.Errorf("vmdk with EBS direct: %v", err)
	}
	ova, err := openWith(t.Context(), &wire{}, map[string]cty.Value{"bucket": cty.StringVal(testBucket), "image_format": cty.StringVal("ova")})
	testutil.Must(t, err)
	t.Cleanup(func() { ova.Close() })
	if _, err := ova.UploadImage(t.Context(), importSpec(nil, nil), bytes.NewReader(nil)); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), `import_method "image"`) {
		t.Errorf("ova as a snapshot: %v", err)
	}
	plain := mustOpen(t, &wire{})
	if _, err := plain.UploadImage(t.Context(), importSpec(nil, nil), bytes.NewReader(nil)); !errors.Is(err, drivers.ErrRejected) || !strings.Contains(err.Error(), "bucket") {
		t.Errorf("an import without a bucket: %v", err)
	}
}
