package aws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ebs"
	ebstypes "github.com/aws/aws-sdk-go-v2/service/ebs/types"
	"golang.org/x/sync/errgroup"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// The EBS direct API stores a snapshot in blocks of 512 KiB, each with its SHA-256. Blocks that are not stored are zero.
// The checksum of a snapshot is the SHA-256 of the checksums of its blocks in the order of their indexes.
const (
	blockSize  = 512 << 10
	maxWriters = 32 // blocks that are in flight at a time
)

// writtenBlocks is the result of an upload.
type writtenBlocks struct {
	count    int32
	checksum string
}

// blockWriter writes the blocks of one snapshot.
type blockWriter struct {
	ebs      *ebs.Client
	snapshot string
	buffers  sync.Pool
	sent     cloudkit.Sent
}

// writeBlocks reads the content once: one goroutine reads and hashes it, others send its blocks.
func (st *imageStore) writeBlocks(ctx context.Context, spec drivers.ImageSpec, snapshot string, content io.Reader) (writtenBlocks, error) {
	w := &blockWriter{ebs: st.ebs, snapshot: snapshot, sent: cloudkit.Sent{Report: spec.Progress}, buffers: sync.Pool{New: func() any { return new([blockSize]byte) }}}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxWriters)
	sums := cloudkit.NewFileSums()
	var all []*[sha256.Size]byte // checksums of the stored blocks in order, which the writers compute
	readErr := func() error {
		for index := int32(0); ; index++ {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			block := w.buffers.Get().(*[blockSize]byte)
			n, err := io.ReadFull(content, block[:])
			last := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
			if err != nil && !last {
				return fmt.Errorf("read the image: %w", err)
			}
			_, _ = sums.Write(block[:n])
			clear(block[n:])
			if n == 0 || isZero(block[:]) {
				w.buffers.Put(block)
				w.sent.Add(n)
			} else {
				sum := new([sha256.Size]byte)
				all = append(all, sum)
				group.Go(func() error {
					defer w.buffers.Put(block)
					defer w.sent.Add(n)
					*sum = sha256.Sum256(block[:])
					return w.put(ctx, index, block[:], *sum)
				})
			}
			if last {
				return nil
			}
		}
	}()
	writeErr := group.Wait()
	if readErr != nil && (writeErr == nil || !errors.Is(readErr, context.Canceled)) {
		return writtenBlocks{}, readErr
	}
	if writeErr != nil {
		return writtenBlocks{}, writeErr
	}
	if err := sums.Check(spec); err != nil {
		return writtenBlocks{}, err
	}
	whole := sha256.New()
	for _, sum := range all {
		whole.Write(sum[:])
	}
	return writtenBlocks{int32(len(all)), base64.StdEncoding.EncodeToString(whole.Sum(nil))}, nil //nolint:gosec // a snapshot has at most 2^27 blocks
}

var zeros [blockSize]byte

func isZero(block []byte) bool { return bytes.Equal(block, zeros[:len(block)]) }

// blockTimeout is the limit of one attempt.
const blockTimeout = time.Minute

func (w *blockWriter) put(ctx context.Context, index int32, block []byte, sum [sha256.Size]byte) error {
	return cloudkit.SendPart(ctx, blockTimeout, func(ctx context.Context) error {
		_, err := w.ebs.PutSnapshotBlock(ctx, &ebs.PutSnapshotBlockInput{
			SnapshotId: aws.String(w.snapshot), BlockIndex: aws.Int32(index), BlockData: bytes.NewReader(block), DataLength: aws.Int32(blockSize),
			Checksum: aws.String(base64.StdEncoding.EncodeToString(sum[:])), ChecksumAlgorithm: ebstypes.ChecksumAlgorithmChecksumAlgorithmSha256,
		})
		return wrap(fmt.Sprintf("write block %d of snapshot %s", index, w.snapshot), err)
	})
}
