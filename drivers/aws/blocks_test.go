package aws

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
)

// sink accepts blocks as EBS does, and discards them. It throttles the first calls.
type sink struct {
	throttled atomic.Int64
	blocks    atomic.Int64
}

func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if s.throttled.Add(-1) >= 0 {
		w.Header().Set("X-Amzn-Errortype", "RequestThrottledException")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"Reason": "REQUEST_THROTTLED"}`)
		return
	}
	s.blocks.Add(1)
	w.WriteHeader(http.StatusCreated)
}

// sinkStore returns a store that sends blocks to a sink.
func sinkStore(tb testing.TB, s *sink) (*imageStore, string) {
	tb.Helper()
	server := httptest.NewServer(s)
	tb.Cleanup(server.Close)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: maxConnections}}
	return &imageStore{ebs: ebs.NewFromConfig(aws.Config{Region: "us-east-1", BaseEndpoint: aws.String(server.URL), HTTPClient: client,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), Retryer: func() aws.Retryer { return aws.NopRetryer{} }})}, server.URL
}

func TestThrottledBlocksAreRepeatedAndZerosOmitted(t *testing.T) {
	s := &sink{}
	s.throttled.Store(2)
	store, _ := sinkStore(t, s)
	content := make([]byte, 4*blockSize+1)
	content[blockSize], content[4*blockSize] = 1, 1
	var sent int64
	written, err := store.writeBlocks(t.Context(), drivers.ImageSpec{Size: int64(len(content)), Progress: func(n int64) { sent = n }}, "snap-1", bytes.NewReader(content))
	testutil.Must(t, err)
	if written.count != 2 || s.blocks.Load() != 2 || sent != int64(len(content)) || written.checksum == "" {
		t.Errorf("written %+v, %d blocks arrived, progress ends at %d of %d", written, s.blocks.Load(), sent, len(content))
	}
}

const sinkSize = 256 << 20

// reportCPU reports the CPU time for each GiB.
func reportCPU(b *testing.B, size int64) (end func()) {
	b.Helper()
	before := cpuTime(b)
	return func() { b.ReportMetric((cpuTime(b)-before).Seconds()*gib/float64(size*int64(b.N)), "cpu-s/GiB") }
}

func BenchmarkBlocksByDriver(b *testing.B) {
	content := make([]byte, sinkSize)
	_, _ = rand.Read(content)
	store, _ := sinkStore(b, &sink{})
	b.SetBytes(sinkSize)
	defer reportCPU(b, sinkSize)()
	for b.Loop() {
		_, err := store.writeBlocks(b.Context(), drivers.ImageSpec{}, "snap-1", bytes.NewReader(content))
		testutil.Must(b, err)
	}
}

// BenchmarkBlocksByPlainPuts sends the same blocks with their checksums, as many at a time.
func BenchmarkBlocksByPlainPuts(b *testing.B) {
	content := make([]byte, sinkSize)
	_, _ = rand.Read(content)
	_, at := sinkStore(b, &sink{})
	transport := &http.Transport{MaxIdleConnsPerHost: maxConnections}
	b.SetBytes(sinkSize)
	defer reportCPU(b, sinkSize)()
	for b.Loop() {
		var group errgroup.Group
		group.SetLimit(maxWriters)
		for i := range sinkSize / blockSize {
			group.Go(func() error {
				return plainBlock(b.Context(), transport, fmt.Sprintf("%s/%d", at, i), content[i*blockSize:(i+1)*blockSize])
			})
		}
		testutil.Must(b, group.Wait())
	}
}

func plainBlock(ctx context.Context, transport http.RoundTripper, at string, block []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, at, bytes.NewReader(block))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(block)
	request.Header.Set("X-Amz-Checksum", base64.StdEncoding.EncodeToString(sum[:]))
	request.Header.Set("X-Amz-Checksum-Algorithm", "SHA256")
	answer, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	answer.Body.Close()
	return err
}
