package imagefile

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// holey draws content of blocks that are zero or not, with an odd end.
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

func TestSparseWriterWritesWhatItIsGiven(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		content := holey(t)
		file, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		w := NewSparseWriter(file)
		for rest := content; len(rest) > 0; {
			n := min(len(rest), rapid.IntRange(1, 3*block).Draw(t, "write"))
			if wrote, err := w.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("write: %d, %v", wrote, err)
			}
			rest = rest[n:]
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(file.Name()); err != nil || !bytes.Equal(got, content) {
			t.Errorf("file has %d bytes (%v), want the %d written", len(got), err, len(content))
		}
		_ = os.Remove(file.Name())
	})
}

func TestHolesStayHoles(t *testing.T) {
	dir := t.TempDir()
	const size, data = 64 << 20, 1 << 20
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	file, err := os.Create(from)
	if err != nil {
		t.Fatal(err)
	}
	w := NewSparseWriter(file)
	for _, part := range [][]byte{make([]byte, size/2), pattern(data), make([]byte, size/2-data)} {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Finish(), file.Close()); err != nil {
		t.Fatal(err)
	}
	var last int64
	if err := Copy(t.Context(), from, to, func(done, total int64) { last = done }); err != nil {
		t.Fatal(err)
	}
	if last < size/2 || last > size {
		t.Errorf("progress ended at %d", last)
	}
	for _, name := range []string{from, to} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != size || Allocated(info) > 2*data {
			t.Errorf("%s has %d bytes in %d on disk, want %d in about %d", name, info.Size(), Allocated(info), size, data)
		}
	}
	got, want := mustHash(t, to), mustHash(t, from)
	if got != want {
		t.Errorf("copy has sums %+v, want %+v", got, want)
	}
	if err := Copy(t.Context(), from, to, nil); !errors.Is(err, os.ErrExist) {
		t.Errorf("copy over a file: %v", err)
	}
}

func mustHash(t *testing.T, path string) Sums {
	t.Helper()
	sums, err := HashFile(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

func TestCopyThatIsStoppedLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	if err := os.WriteFile(from, pattern(40<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := Copy(ctx, from, filepath.Join(dir, "to"), func(int64, int64) { cancel() })
	entries, _ := os.ReadDir(dir)
	if !errors.Is(err, context.Canceled) || len(entries) != 1 {
		t.Errorf("error is %v, directory holds %v", err, entries)
	}
}
