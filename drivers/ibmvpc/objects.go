package ibmvpc

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // a checksum that S3 verifies
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// bucket is a bucket of Cloud Object Storage, which has the API of S3 and accepts the tokens of IBM Cloud:
// https://cloud.ibm.com/docs/cloud-object-storage?topic=cloud-object-storage-compatibility-api.
type bucket struct {
	api      *api
	settings objectStorage
}

// object is an object, or an upload that is not complete if Upload is set.
type object struct {
	Key    string
	Size   int64
	Upload string `xml:"UploadId"`
}

// do calls the API. key may be empty.
func (b *bucket) do(ctx context.Context, doing, method, key string, query url.Values, header http.Header, body []byte) ([]byte, http.Header, error) {
	address := strings.TrimRight(b.settings.Endpoint, "/") + "/" + url.PathEscape(b.settings.Bucket)
	if key != "" {
		address += "/" + url.PathEscape(key)
	}
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	return b.api.send(ctx, doing, method, address, header, body)
}

// putEmpty writes an object without content.
func (b *bucket) putEmpty(ctx context.Context, key string) error {
	_, _, err := b.do(ctx, "write object "+key, http.MethodPut, key, nil, nil, nil)
	return err
}

// remove deletes an object, or an upload that is not complete; a missing one is no error.
func (b *bucket) remove(ctx context.Context, o object) error {
	query := url.Values{}
	if o.Upload != "" {
		query.Set("uploadId", o.Upload)
	}
	_, _, err := b.do(ctx, "delete object "+o.Key, http.MethodDelete, o.Key, query, nil, nil)
	return cloudkit.UnlessMissing(err)
}

// list lists the objects with a prefix of their keys.
func (b *bucket) list(ctx context.Context, prefix string) (all []object, err error) {
	doing, query := "list the objects of bucket "+b.settings.Bucket, url.Values{"list-type": {"2"}, "prefix": {prefix}}
	var listed drivers.Pages
	for {
		var page struct {
			Contents              []object
			NextContinuationToken string
		}
		if err := b.read(ctx, doing, query, &page); err != nil {
			return nil, err
		}
		if err := listed.Next(page.NextContinuationToken, len(page.Contents)); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		all = append(all, page.Contents...)
		if page.NextContinuationToken == "" {
			return all, nil
		}
		query.Set("continuation-token", page.NextContinuationToken)
	}
}

// listUploads lists the uploads that are not complete.
func (b *bucket) listUploads(ctx context.Context, prefix string) (all []object, err error) {
	doing, query := "list the uploads of bucket "+b.settings.Bucket, url.Values{"uploads": {""}, "prefix": {prefix}}
	var listed drivers.Pages
	for {
		var page struct {
			Upload                            []object
			IsTruncated                       bool
			NextKeyMarker, NextUploadIDMarker string
		}
		if err := b.read(ctx, doing, query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Upload...)
		if !page.IsTruncated || page.NextKeyMarker == "" {
			return all, nil
		}
		if err := listed.Next(page.NextKeyMarker, len(page.Upload)); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		query.Set("key-marker", page.NextKeyMarker)
	}
}

func (b *bucket) read(ctx context.Context, doing string, query url.Values, into any) error {
	answer, _, err := b.do(ctx, doing, http.MethodGet, "", query, nil, nil)
	if err != nil {
		return err
	}
	if err := xml.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("%s: %w: read the response: %w", doing, drivers.ErrUnavailable, err)
	}
	return nil
}

// everything lists objects and uploads that are not complete.
func (b *bucket) everything(ctx context.Context, prefix string) ([]object, error) {
	objects, err := b.list(ctx, prefix)
	if err != nil {
		return nil, err
	}
	uploads, err := b.listUploads(ctx, prefix)
	return append(objects, uploads...), err
}

// partSize is the size of the parts of an upload: a part is in memory, and an upload has at most 10,000.
const partSize = 64 << 20

// part is a part of a complete upload.
type part struct {
	PartNumber int
	ETag       string
}

// upload writes an object in parts. It completes the object only if size and checksum are as the spec says, so a reader never
// sees another content.
func (b *bucket) upload(ctx context.Context, key string, spec drivers.ImageSpec, content io.Reader) error {
	doing := "upload object " + key
	answer, _, err := b.do(ctx, doing, http.MethodPost, key, url.Values{"uploads": {""}}, nil, nil)
	if err != nil {
		return err
	}
	var started struct {
		UploadID string `xml:"UploadId"`
	}
	if err := xml.Unmarshal(answer, &started); err != nil || started.UploadID == "" {
		return fmt.Errorf("%s: %w: the response has no ID of the upload", doing, drivers.ErrUnavailable)
	}
	parts, err := b.parts(ctx, doing, key, started.UploadID, spec, content)
	if err == nil {
		err = b.complete(ctx, doing, key, started.UploadID, parts)
	}
	if err == nil {
		return nil
	}
	return cloudkit.CleanUp(ctx, cleanupLimit, err, "the parts were not deleted", func(ctx context.Context) error {
		return b.remove(ctx, object{Key: key, Upload: started.UploadID})
	})
}

func (b *bucket) parts(ctx context.Context, doing, key, upload string, spec drivers.ImageSpec, content io.Reader) (parts []part, err error) {
	buffer := make([]byte, min(partSize, max(spec.Size+1, 1)))
	sum, sent := sha256.New(), int64(0)
	for last := false; !last; {
		n, err := io.ReadFull(content, buffer)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			last = true
		case err != nil:
			return nil, fmt.Errorf("%s: read the image: %w", doing, err)
		}
		if n == 0 && len(parts) > 0 {
			break
		}
		sum.Write(buffer[:n])
		sent += int64(n)
		if last { // before the last part
			if err := checkContent(spec, sent, hex.EncodeToString(sum.Sum(nil))); err != nil {
				return nil, err
			}
		}
		check := md5.Sum(buffer[:n]) //nolint:gosec // as above
		query := url.Values{"partNumber": {strconv.Itoa(len(parts) + 1)}, "uploadId": {upload}}
		_, header, err := b.do(ctx, doing, http.MethodPut, key, query, http.Header{"Content-Md5": {base64.StdEncoding.EncodeToString(check[:])}}, buffer[:n])
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{len(parts) + 1, header.Get("ETag")})
		if spec.Progress != nil {
			spec.Progress(sent)
		}
	}
	return parts, checkContent(spec, sent, hex.EncodeToString(sum.Sum(nil)))
}

func checkContent(spec drivers.ImageSpec, size int64, sum string) error {
	if size != spec.Size || spec.SHA256 != "" && sum != spec.SHA256 {
		return drivers.Rejectf("the image file has %d bytes and SHA-256 %s, expected %d and %s; it changed since its build", size, sum, spec.Size, spec.SHA256)
	}
	return nil
}

func (b *bucket) complete(ctx context.Context, doing, key, upload string, parts []part) error {
	body, err := xml.Marshal(struct {
		XMLName xml.Name `xml:"CompleteMultipartUpload"`
		Part    []part
	}{Part: parts})
	if err != nil {
		return err
	}
	answer, _, err := b.do(ctx, doing, http.MethodPost, key, url.Values{"uploadId": {upload}}, http.Header{"Content-Type": {"application/xml"}}, body)
	if err == nil && bytes.Contains(answer, []byte("<Error>")) { // S3 starts the response before it is done
		err = fmt.Errorf("%s: %w: %s", doing, drivers.ErrUnavailable, cloudkit.Clean(string(answer)))
	}
	return err
}

// cleanupLimit is the maximum duration of the cleanup after a failed upload.
const cleanupLimit = 30 * time.Second
