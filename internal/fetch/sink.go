package fetch

import (
	"context"
	"io"
	"os"

	"github.com/npctl/npctl/internal/imagefile"
)

// sink receives the unpacked bytes: it applies the limit and writes to the checksums and the file.
type sink struct {
	file  *imagefile.SparseWriter
	hash  *imagefile.Hasher
	size  int64
	limit int64
}

func newSink(file *os.File, limit int64) *sink {
	return &sink{file: imagefile.NewSparseWriter(file), hash: imagefile.NewHasher(), limit: limit}
}

// writer also ends with ctx: a small input may decompress to a large output.
func (s *sink) writer(ctx context.Context) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if s.size += int64(len(p)); s.size > s.limit {
			return 0, tooLarge("the unpacked file has more than", s.limit, s.limit)
		}
		_, _ = s.hash.Write(p)
		return s.file.Write(p)
	})
}

func (s *sink) finish() error { return s.file.Finish() }
