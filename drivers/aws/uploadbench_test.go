//go:build integration

package aws

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// benchSize is the size of the image of the benchmarks. moto keeps it in memory.
const benchSize = 256 << 20

func benchCloud(b *testing.B) *Cloud {
	b.Helper()
	w := &wire{}
	c, err := openFor(b.Context(), w)
	testutil.Must(b, err)
	b.Cleanup(func() { c.Close() })
	return c
}

// BenchmarkUploadByDriver uploads an image with UploadImage.
func BenchmarkUploadByDriver(b *testing.B) {
	content := make([]byte, benchSize)
	_, _ = rand.Read(content)
	sum := sha256.Sum256(content)
	c := benchCloud(b)
	b.SetBytes(benchSize)
	for n := 0; b.Loop(); n++ {
		spec := drivers.ImageSpec{Marks: resources.OwnerTags{Installation: "bench", Kind: resources.KindUpload, ID: strconv.Itoa(n)},
			Name: fmt.Sprint("bench-", n), Format: "raw", Size: benchSize, SHA256: hex.EncodeToString(sum[:])}
		made, err := c.UploadImage(b.Context(), spec, bytes.NewReader(content))
		testutil.Must(b, err)
		b.StopTimer()
		testutil.Must(b, c.DeleteImage(b.Context(), made.ID, spec.Marks))
		b.StartTimer()
	}
}

// BenchmarkUploadByPlainPuts sends the same blocks to the same server with plain HTTP requests, as many at a time.
func BenchmarkUploadByPlainPuts(b *testing.B) {
	content := make([]byte, benchSize)
	_, _ = rand.Read(content)
	c := benchCloud(b)
	transport := &http.Transport{MaxIdleConnsPerHost: maxWriters}
	b.SetBytes(benchSize)
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		marks := resources.OwnerTags{Installation: "bench", Kind: resources.KindUpload, ID: strconv.Itoa(n)}
		snapshot, err := c.startSnapshot(b.Context(), drivers.ImageSpec{Name: "plain", Size: benchSize}, imageSettings{}, ownerTags(marks))
		testutil.Must(b, err)
		b.StartTimer()
		var group errgroup.Group
		group.SetLimit(maxWriters)
		for i := range benchSize / blockSize {
			block := content[i*blockSize : (i+1)*blockSize]
			group.Go(func() error { return plainPut(b, transport, snapshot, i, block) })
		}
		testutil.Must(b, group.Wait())
		b.StopTimer()
		testutil.Must(b, c.deleteSnapshots(b.Context(), marks))
		b.StartTimer()
	}
}

func plainPut(b *testing.B, transport http.RoundTripper, snapshot string, index int, block []byte) error {
	at := fmt.Sprintf("%s/snapshots/%s/blocks/%d", os.Getenv("AWS_ENDPOINT_URL"), snapshot, index)
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPut, at, bytes.NewReader(block))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(block)
	for name, value := range map[string]string{
		"Authorization":     "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/ebs/aws4_request, SignedHeaders=host, Signature=0",
		"X-Amz-Data-Length": strconv.Itoa(blockSize), "X-Amz-Checksum": base64.StdEncoding.EncodeToString(sum[:]), "X-Amz-Checksum-Algorithm": "SHA256",
	} {
		request.Header.Set(name, value)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return err
}
