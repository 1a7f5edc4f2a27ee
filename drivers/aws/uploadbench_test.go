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
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

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

// BenchmarkUploadBlocks sends the blocks of an image file to the same server in turns: as the driver does, and as dd would:
// block by block with plain HTTP requests, as many at a time, with the same checksums of blocks. The metrics are medians.
// CPU is that of this process.
func BenchmarkUploadBlocks(b *testing.B) {
	content := make([]byte, benchSize)
	_, _ = rand.Read(content)
	sum := sha256.Sum256(content)
	file, err := os.Create(filepath.Join(b.TempDir(), "image.raw"))
	testutil.Must(b, err)
	b.Cleanup(func() { file.Close() })
	_, err = file.Write(content)
	testutil.Must(b, err)
	c := benchCloud(b)
	transport := &http.Transport{MaxIdleConnsPerHost: maxWriters}
	spec := drivers.ImageSpec{Name: "blocks", Size: benchSize, SHA256: hex.EncodeToString(sum[:])}
	ways := map[string]func(snapshot string) error{
		"driver": func(snapshot string) error {
			_, err := c.writeBlocks(b.Context(), spec, snapshot, file)
			return err
		},
		"plain": func(snapshot string) error {
			var group errgroup.Group
			group.SetLimit(maxWriters)
			buffers := sync.Pool{New: func() any { return make([]byte, blockSize) }}
			for i := range benchSize / blockSize {
				block := buffers.Get().([]byte)
				if _, err := io.ReadFull(file, block); err != nil {
					return err
				}
				group.Go(func() error {
					defer buffers.Put(block) //nolint:staticcheck // one allocation for each block
					return plainPut(b, transport, snapshot, i, block)
				})
			}
			return group.Wait()
		},
	}
	seconds, cpu := map[string][]float64{}, map[string][]float64{}
	for n := 0; b.Loop(); n++ {
		for name, send := range ways {
			marks := resources.OwnerTags{Installation: "bench", Kind: resources.KindUpload, ID: fmt.Sprint(name, n)}
			snapshot, err := c.startSnapshot(b.Context(), spec, imageSettings{}, drivers.EncodeTags(marks))
			testutil.Must(b, err)
			_, err = file.Seek(0, io.SeekStart)
			testutil.Must(b, err)
			started, used := time.Now(), cpuTime(b)
			testutil.Must(b, send(snapshot))
			seconds[name] = append(seconds[name], time.Since(started).Seconds())
			cpu[name] = append(cpu[name], (cpuTime(b) - used).Seconds())
			testutil.Must(b, c.deleteSnapshots(b.Context(), marks))
		}
	}
	for name := range ways {
		b.ReportMetric(benchSize/1e6/median(seconds[name]), name+"-MB/s")
		b.ReportMetric(median(cpu[name])*gib/benchSize, name+"-cpu-s/GiB")
	}
	b.ReportMetric(100*median(seconds["plain"])/median(seconds["driver"]), "driver/plain-%")
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
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
