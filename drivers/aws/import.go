package aws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// The import methods snapshot and image start with an object in the bucket and an import task of EC2, which makes it a snapshot
// or an AMI. The name of the object contains its record. EC2 gives the tags of the task to no snapshot and no AMI, so npctl tags
// them when the task is complete; before that, the task identifies them. The same call gives the task drivers.TagObject: from then
// on the task is no proof: if a person removes the tags of a result, npctl no longer owns it.

// objectPrefix starts the names of npctl's objects: npctl/INSTALLATION/UPLOAD.FORMAT.
const objectPrefix = "npctl/"

func objectKey(spec drivers.ImageSpec, format string) string {
	return objectPrefix + spec.Marks.Installation + "/" + spec.Marks.ID + "." + format
}

// objectMarks returns the ownership tags in the name of an object.
func objectMarks(key string) resources.OwnerTags {
	installation, name, ok := strings.Cut(strings.TrimPrefix(key, objectPrefix), "/")
	if !ok || !strings.HasPrefix(key, objectPrefix) || strings.Contains(name, "/") {
		return resources.OwnerTags{}
	}
	return resources.OwnerTags{Installation: installation, Kind: resources.KindUpload, ID: strings.TrimSuffix(name, path.Ext(name))}
}

// bucket is the part of S3 that the driver uses, see calls.
type bucket struct {
	name                    string // "" without a bucket
	abortMultipartUpload    func(context.Context, *s3.AbortMultipartUploadInput, ...func(*s3.Options)) (*s3.AbortMultipartUploadOutput, error)
	completeMultipartUpload func(context.Context, *s3.CompleteMultipartUploadInput, ...func(*s3.Options)) (*s3.CompleteMultipartUploadOutput, error)
	createMultipartUpload   func(context.Context, *s3.CreateMultipartUploadInput, ...func(*s3.Options)) (*s3.CreateMultipartUploadOutput, error)
	deleteObject            func(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	getObjectTagging        func(context.Context, *s3.GetObjectTaggingInput, ...func(*s3.Options)) (*s3.GetObjectTaggingOutput, error)
	listMultipartUploads    func(context.Context, *s3.ListMultipartUploadsInput, ...func(*s3.Options)) (*s3.ListMultipartUploadsOutput, error)
	listObjects             func(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
	uploadPart              func(context.Context, *s3.UploadPartInput, ...func(*s3.Options)) (*s3.UploadPartOutput, error)
}

func newBucket(name string, client *s3.Client) bucket {
	return bucket{name, client.AbortMultipartUpload, client.CompleteMultipartUpload, client.CreateMultipartUpload, client.DeleteObject, client.GetObjectTagging,
		client.ListMultipartUploads, client.ListObjectsV2, client.UploadPart}
}

// importObject uploads an object, imports it and tags the result. It returns the ID of the snapshot or of the AMI.
func (st *imageStore) importObject(ctx context.Context, spec drivers.ImageSpec, settings imageSettings, tags map[string]string, content io.Reader) (id string, err error) {
	key := objectKey(spec, st.format)
	if err := st.putObject(ctx, spec, key, content); err != nil {
		return "", err
	}
	start, list := st.startSnapshotImport, st.snapshotTasks
	if settings.ImportMethod == methodImage {
		start, list = st.startImageImport, st.imageTasks
	}
	task, err := start(ctx, spec, settings, tags, key)
	if err != nil {
		return "", wrap("import "+settings.ImportMethod+" "+spec.Name, err)
	}
	made, err := waitImport(ctx, list, task)
	if err != nil {
		return "", err
	}
	if err := st.tagObjects(ctx, tags, append(made, task)...); err != nil {
		return "", err
	}
	return made[0], st.removeObject(ctx, key)
}

// startImageImport starts a task that makes an object an AMI.
func (st *imageStore) startImageImport(ctx context.Context, spec drivers.ImageSpec, settings imageSettings, tags map[string]string, key string) (task string, err error) {
	answer, err := st.ec2.ImportImage(ctx, &ec2.ImportImageInput{
		Description: description(spec), Encrypted: aws.Bool(settings.isEncrypted()), KmsKeyId: settings.kmsKey(),
		Architecture: aws.String(settings.Architecture), BootMode: types.BootModeValues(settings.BootMode),
		DiskContainers:    []types.ImageDiskContainer{{Format: aws.String(strings.ToUpper(st.format)), UserBucket: st.object(key)}},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeImportImageTask, Tags: tagList(tags)}},
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(answer.ImportTaskId), nil
}

// startSnapshotImport starts a task that makes an object a snapshot.
func (st *imageStore) startSnapshotImport(ctx context.Context, spec drivers.ImageSpec, settings imageSettings, tags map[string]string, key string) (task string, err error) {
	answer, err := st.ec2.ImportSnapshot(ctx, &ec2.ImportSnapshotInput{
		Description: description(spec), Encrypted: aws.Bool(settings.isEncrypted()), KmsKeyId: settings.kmsKey(),
		DiskContainer:     &types.SnapshotDiskContainer{Format: aws.String(strings.ToUpper(st.format)), UserBucket: st.object(key)},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeImportSnapshotTask, Tags: tagList(tags)}},
	})
	if err != nil {
		return "", err
	}
	return aws.ToString(answer.ImportTaskId), nil
}

func (st *imageStore) object(key string) *types.UserBucket {
	return &types.UserBucket{S3Bucket: aws.String(st.bucket.name), S3Key: aws.String(key)}
}

// importTask is a task of EC2 that makes an object a snapshot or an AMI.
type importTask struct {
	id, status, message string
	marks               resources.OwnerTags // zero if the task proves nothing
	made                []string            // IDs of the AMI, if it makes one, and of the snapshots
}

// snapshotTasks lists tasks that make snapshots: those with the IDs, or all.
func (st *imageStore) snapshotTasks(ctx context.Context, ids ...string) (tasks []importTask, err error) {
	all, err := list("list import tasks", func(token *string) (*ec2.DescribeImportSnapshotTasksOutput, error) {
		return st.ec2.DescribeImportSnapshotTasks(ctx, &ec2.DescribeImportSnapshotTasksInput{ImportTaskIds: ids, NextToken: token})
	}, func(p *ec2.DescribeImportSnapshotTasksOutput) ([]types.ImportSnapshotTask, *string) {
		return p.ImportSnapshotTasks, p.NextToken
	})
	for _, t := range all {
		if d := t.SnapshotTaskDetail; d != nil {
			tasks = append(tasks, importTask{aws.ToString(t.ImportTaskId), aws.ToString(d.Status), aws.ToString(d.StatusMessage),
				ownerOfTask(t.Tags), []string{aws.ToString(d.SnapshotId)}})
		}
	}
	return tasks, err
}

// imageTasks lists tasks that make AMIs: those with the IDs, or all.
func (st *imageStore) imageTasks(ctx context.Context, ids ...string) (tasks []importTask, err error) {
	all, err := list("list import tasks", func(token *string) (*ec2.DescribeImportImageTasksOutput, error) {
		return st.ec2.DescribeImportImageTasks(ctx, &ec2.DescribeImportImageTasksInput{ImportTaskIds: ids, NextToken: token})
	}, func(p *ec2.DescribeImportImageTasksOutput) ([]types.ImportImageTask, *string) {
		return p.ImportImageTasks, p.NextToken
	})
	for _, t := range all {
		made := []string{aws.ToString(t.ImageId)}
		for _, d := range t.SnapshotDetails {
			if d.SnapshotId != nil {
				made = append(made, *d.SnapshotId)
			}
		}
		tasks = append(tasks, importTask{aws.ToString(t.ImportTaskId), aws.ToString(t.Status), aws.ToString(t.StatusMessage), ownerOfTask(t.Tags), made})
	}
	return tasks, err
}

// ownerOfTask returns the ownership tags of a task, or zero ones after npctl has tagged the results.
func ownerOfTask(tags []types.Tag) resources.OwnerTags {
	if values := tagMap(tags); values[drivers.TagObject] == "" {
		return drivers.OwnerOf(values, drivers.OfImage)
	}
	return resources.OwnerTags{}
}

// waitImport waits until an import task is complete and returns the IDs of its results.
func waitImport(ctx context.Context, list func(context.Context, ...string) ([]importTask, error), id string) (made []string, err error) {
	err = cloudkit.Poll(ctx, "import task "+id, func() (bool, error) {
		tasks, err := list(ctx, id)
		switch {
		case cloudkit.IsFinal(ctx, err):
			return false, err
		case err != nil || len(tasks) == 0 || tasks[0].status == importActive || tasks[0].status == "":
			return false, nil //nolint:nilerr // see IsFinal
		case tasks[0].status == importCompleted:
			made = tasks[0].made
			return true, nil
		default:
			return false, fmt.Errorf("import task %s is %s: %s", id, tasks[0].status, clean(tasks[0].message))
		}
	})
	return made, err
}

// States of import tasks. All others are failures.
const (
	importActive    = "active"
	importCompleted = "completed"
	importPrefix    = "import-" // starts the IDs of tasks
)

// The parts of an object: S3 accepts 10,000 of at least 5 MiB.
const (
	minPart    = 16 << 20
	maxParts   = 9000
	maxSenders = 4
)

// putObject uploads an object with the ownership tags. S3 verifies the SHA-256 of each part, npctl that of the file.
func (st *imageStore) putObject(ctx context.Context, spec drivers.ImageSpec, key string, content io.Reader) error {
	doing := "upload " + key + " to bucket " + st.bucket.name
	marks := resources.OwnerTags{Installation: spec.Marks.Installation, Kind: spec.Marks.Kind, ID: spec.Marks.ID, Provider: spec.Marks.Provider}
	tagging := url.Values{}
	for name, value := range drivers.EncodeTags(marks) {
		tagging.Set(name, value)
	}
	answer, err := st.bucket.createMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: aws.String(st.bucket.name), Key: aws.String(key),
		ChecksumAlgorithm: s3types.ChecksumAlgorithmSha256, Tagging: aws.String(tagging.Encode())})
	if err != nil {
		return wrap(doing, err)
	}
	parts, err := st.putParts(ctx, spec, key, aws.ToString(answer.UploadId), content)
	if err != nil {
		return err
	}
	_, err = st.bucket.completeMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: aws.String(st.bucket.name), Key: aws.String(key), UploadId: answer.UploadId,
		MultipartUpload: &s3types.CompletedMultipartUpload{Parts: parts}})
	return wrap(doing, err)
}

// putParts reads the content once: one goroutine reads and hashes it, others send its parts.
func (st *imageStore) putParts(ctx context.Context, spec drivers.ImageSpec, key, upload string, content io.Reader) ([]s3types.CompletedPart, error) {
	size := max(minPart, (spec.Size/maxParts/minPart+1)*minPart)
	caller := ctx
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxSenders)
	sums := cloudkit.NewFileSums()
	sent := &cloudkit.Sent{Report: spec.Progress}
	var parts []*s3types.CompletedPart
	for last := false; !last && ctx.Err() == nil; {
		part := make([]byte, size)
		n, err := io.ReadFull(content, part)
		if last = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil && !last {
			return nil, errors.Join(fmt.Errorf("read the image: %w", err), group.Wait())
		}
		if part = part[:n]; n == 0 && len(parts) > 0 {
			break
		}
		_, _ = sums.Write(part)
		done := &s3types.CompletedPart{PartNumber: aws.Int32(int32(len(parts) + 1))} //nolint:gosec // at most maxParts
		parts = append(parts, done)
		group.Go(func() error {
			sum := sha256.Sum256(part)
			done.ChecksumSHA256 = aws.String(base64.StdEncoding.EncodeToString(sum[:]))
			err := cloudkit.SendPart(ctx, partTimeout, func(ctx context.Context) error { return st.putPart(ctx, key, upload, part, done) })
			if err == nil {
				sent.Add(len(part))
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := context.Cause(caller); err != nil {
		return nil, err // before the end of the content
	}
	if err := sums.Check(spec); err != nil {
		return nil, err
	}
	list := make([]s3types.CompletedPart, len(parts))
	for n, p := range parts {
		list[n] = *p
	}
	return list, nil
}

// partTimeout is the limit of one attempt.
const partTimeout = 10 * time.Minute

func (st *imageStore) putPart(ctx context.Context, key, upload string, part []byte, done *s3types.CompletedPart) error {
	answer, err := st.bucket.uploadPart(ctx, &s3.UploadPartInput{Bucket: aws.String(st.bucket.name), Key: aws.String(key), UploadId: aws.String(upload), PartNumber: done.PartNumber,
		Body: bytes.NewReader(part), ChecksumAlgorithm: s3types.ChecksumAlgorithmSha256, ChecksumSHA256: done.ChecksumSHA256})
	if err == nil {
		done.ETag = answer.ETag
	}
	return wrap(fmt.Sprintf("upload part %d of %s", *done.PartNumber, key), err)
}

// objects lists npctl's objects and unfinished uploads of objects in the bucket. Their names have the ownership tags, and so have
// the objects: one with another name is a copy.
func (st *imageStore) objects(ctx context.Context) (found []resources.Leftover, err error) {
	if st.bucket.name == "" {
		return nil, nil
	}
	add := func(key *string, upload string) {
		if marks := objectMarks(aws.ToString(key)); marks.Installation != "" {
			found = append(found, resources.Leftover{Type: resources.LeftoverObject, ID: aws.ToString(key) + upload, Name: aws.ToString(key), Marks: marks})
		}
	}
	err = pages("list bucket "+st.bucket.name, func(token *string) (*string, int, error) {
		answer, err := st.bucket.listObjects(ctx, &s3.ListObjectsV2Input{Bucket: aws.String(st.bucket.name), Prefix: aws.String(objectPrefix), ContinuationToken: token})
		if err != nil {
			return nil, 0, err
		}
		for _, o := range answer.Contents {
			if objectMarks(aws.ToString(o.Key)).Installation == "" {
				continue
			}
			switch err := st.checkObject(ctx, aws.ToString(o.Key)); {
			case err == nil:
				add(o.Key, "")
			case !errors.Is(err, drivers.ErrNotOurs) && !isMissing(err):
				return nil, 0, err
			}
		}
		return answer.NextContinuationToken, len(answer.Contents), nil
	})
	if err != nil {
		return nil, err
	}
	var key, upload *string // the last ones of a page
	err = pages("list the uploads of bucket "+st.bucket.name, func(*string) (*string, int, error) {
		answer, err := st.bucket.listMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: aws.String(st.bucket.name), Prefix: aws.String(objectPrefix), KeyMarker: key, UploadIdMarker: upload})
		if err != nil {
			return nil, 0, err
		}
		for _, u := range answer.Uploads {
			add(u.Key, uploadSeparator+aws.ToString(u.UploadId))
		}
		if !aws.ToBool(answer.IsTruncated) {
			return nil, len(answer.Uploads), nil
		}
		key, upload = answer.NextKeyMarker, answer.NextUploadIdMarker
		return aws.String(aws.ToString(key) + uploadSeparator + aws.ToString(upload)), len(answer.Uploads), nil
	})
	return found, err
}

// uploadSeparator is between the name of an object and the ID of its unfinished upload.
const uploadSeparator = "?uploadId="

// removeObject deletes an object, or ends an unfinished upload. It reads the tags of an object before.
func (st *imageStore) removeObject(ctx context.Context, id string) error {
	key, upload, unfinished := strings.Cut(id, uploadSeparator)
	if unfinished {
		_, err := st.bucket.abortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: aws.String(st.bucket.name), Key: aws.String(key), UploadId: aws.String(upload)})
		return unlessMissing(wrap("abort the upload of "+key, err))
	}
	if err := st.checkObject(ctx, key); err != nil {
		return unlessMissing(err)
	}
	_, err := st.bucket.deleteObject(ctx, &s3.DeleteObjectInput{Bucket: aws.String(st.bucket.name), Key: aws.String(key)})
	return unlessMissing(wrap("delete "+key, err))
}

// checkObject returns ErrNotOurs for an object whose tags are not those in its name.
func (st *imageStore) checkObject(ctx context.Context, key string) error {
	answer, err := st.bucket.getObjectTagging(ctx, &s3.GetObjectTaggingInput{Bucket: aws.String(st.bucket.name), Key: aws.String(key)})
	if err != nil {
		return wrap("read the tags of "+key, err)
	}
	tags := map[string]string{}
	for _, t := range answer.TagSet {
		tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return drivers.CheckOwner("object", key, drivers.DecodeTags(tags), objectMarks(key))
}

// imports lists unfinished import tasks, and the AMIs and snapshots of completed ones that have no ownership tags yet. While
// an AMI exists, its snapshots are not listed.
func (st *imageStore) imports(ctx context.Context) (found []resources.Leftover, err error) {
	if st.bucket.name == "" {
		return nil, nil
	}
	owners := map[string]resources.OwnerTags{} // of the results of completed tasks
	kept := map[string]string{}                // snapshots to their AMIs
	for _, list := range []func(context.Context, ...string) ([]importTask, error){st.imageTasks, st.snapshotTasks} {
		tasks, err := list(ctx)
		if err != nil {
			return nil, err
		}
		for _, t := range tasks {
			switch {
			case t.marks.Installation == "":
			case t.status == importActive:
				found = append(found, resources.Leftover{Type: resources.LeftoverSnapshot, ID: t.id, Name: t.id, Marks: t.marks})
			case t.status == importCompleted:
				for _, id := range t.made {
					owners[id], kept[id] = t.marks, t.made[0]
				}
			}
		}
	}
	exist := map[string]bool{}
	untagged := func(id *string, tags []types.Tag) {
		l := leftoverOf(resources.LeftoverSnapshot, id, tags)
		if exist[l.ID] = true; tagMap(tags)[tagInstallation] == "" && (kept[l.ID] == l.ID || !exist[kept[l.ID]]) {
			l.Marks = owners[l.ID]
			found = append(found, l)
		}
	}
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(owners)), maxFilterValues) {
		images, err := st.describe(ctx, &ec2.DescribeImagesInput{Owners: []string{"self"}, Filters: []types.Filter{filter("image-id", chunk...)}})
		if err != nil {
			return nil, err
		}
		for _, i := range images {
			untagged(i.ImageId, i.Tags)
		}
	}
	for chunk := range slices.Chunk(slices.Sorted(maps.Keys(owners)), maxFilterValues) {
		snapshots, err := st.snapshots(ctx, []types.Filter{filter("snapshot-id", chunk...)})
		if err != nil {
			return nil, err
		}
		for _, s := range snapshots {
			untagged(s.SnapshotId, s.Tags)
		}
	}
	return found, nil
}

// releaseTasks removes the ownership tags of the tasks of a record: those of older versions of npctl have no drivers.TagObject, and
// identify the objects that they made.
func (st *imageStore) releaseTasks(ctx context.Context, marks resources.OwnerTags) error {
	if st.bucket.name == "" {
		return nil
	}
	for _, list := range []func(context.Context, ...string) ([]importTask, error){st.imageTasks, st.snapshotTasks} {
		tasks, err := list(ctx)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			if !t.marks.SameRecord(marks) {
				continue
			}
			if err := st.removeTags(ctx, []string{t.id}, append(drivers.TagKeys(), drivers.TagOfID(marks.Kind))); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeSnapshot deletes a snapshot, cancels an import task, or deletes the AMI of one.
func (st *imageStore) removeSnapshot(ctx context.Context, id string) error {
	switch {
	case strings.HasPrefix(id, importPrefix):
		_, err := st.ec2.CancelImportTask(ctx, &ec2.CancelImportTaskInput{ImportTaskId: aws.String(id)})
		return unlessMissing(wrap("cancel import task "+id, err))
	case strings.HasPrefix(id, "ami-"):
		return st.deregister(ctx, id)
	default:
		return st.deleteSnapshot(ctx, id)
	}
}

// deleteImports deletes what an interrupted import with these ownership tags has left.
func (st *imageStore) deleteImports(ctx context.Context, marks resources.OwnerTags) error {
	for _, kind := range []struct {
		list   func(context.Context) ([]resources.Leftover, error)
		remove func(context.Context, string) error
	}{{st.imports, st.removeSnapshot}, {st.objects, st.removeObject}} {
		left, err := kind.list(ctx)
		if err != nil {
			return err
		}
		for _, l := range left {
			if !l.Marks.SameRecord(marks) {
				continue
			}
			if err := kind.remove(ctx, l.ID); err != nil {
				return err
			}
		}
	}
	return nil
}
