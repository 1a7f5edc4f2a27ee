package imagefile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
)

// holey draws content of zero and data blocks, with a partial block at the end.
func holey(t *rapid.T) []byte {
	var content []byte
	for range rapid.IntRange(0, 12).Draw(t, "runs") {
		part := make([]byte, rapid.SampledFrom([]int{1, 100, block - 1, block, block + 1, 5 * block}).Draw(t, "run"))
		if rapid.Bool().Draw(t, "data") {
			copy(part, pattern(len(part) + 1)[1:])
		}
		content = append(content, part...)
	}
	return content
}

func TestSparseWriterPreservesContent(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		content := holey(t)
		file, err := os.CreateTemp(dir, "")
		testutil.Must(t, err)
		defer file.Close()
		w := NewSparseWriter(file)
		for rest := content; len(rest) > 0; {
			n := min(len(rest), rapid.IntRange(1, 3*block).Draw(t, "write"))
			if wrote, err := w.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("write: %d, %v", wrote, err)
			}
			rest = rest[n:]
		}
		testutil.Must(t, w.Finish())
		if got, err := os.ReadFile(file.Name()); err != nil || !bytes.Equal(got, content) {
			t.Errorf("file has %d bytes (%v), want the %d written", len(got), err, len(content))
		}
		_ = os.Remove(file.Name())
	})
}

func TestHolesStayHoles(t *testing.T) {
	const size, data = 64 << 20, 1 << 20
	path := filepath.Join(t.TempDir(), "image")
	file, err := os.Create(path)
	testutil.Must(t, err)
	w := NewSparseWriter(file)
	for _, part := range [][]byte{make([]byte, size/2), pattern(data), make([]byte, size/2-data)} {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	testutil.Must(t, errors.Join(w.Finish(), file.Close()))
	info, err := os.Stat(path)
	testutil.Must(t, err)
	if info.Size() != size || Allocated(info) > 2*data {
		t.Errorf("there are %d bytes in %d on disk, want %d in about %d", info.Size(), Allocated(info), size, data)
	}
}
