package imagefile

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
)

// plain computes sums the simple way.
func plain(content []byte) Sums {
	s, m := sha256.Sum256(content), md5.Sum(content)
	return Sums{int64(len(content)), hex.EncodeToString(s[:]), hex.EncodeToString(m[:])}
}

// pattern returns content that differs in every chunk.
func pattern(size int) []byte {
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return content
}

func TestSumsAreThoseOfTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		content := pattern(rapid.SampledFrom([]int{0, 1, 511, chunk - 1, chunk, chunk + 1, 3*chunk + 7, 9 * chunk}).Draw(t, "size"))
		h := NewHasher()
		for rest := content; len(rest) > 0; {
			n := min(len(rest), rapid.IntRange(1, 2*chunk).Draw(t, "write"))
			if wrote, err := h.Write(rest[:n]); wrote != n || err != nil {
				t.Fatalf("write: %d, %v", wrote, err)
			}
			rest = rest[n:]
		}
		if got, want := h.Sums(), plain(content); got != want {
			t.Errorf("sums are %+v, want %+v", got, want)
		}
	})
}

func TestHashStopsWhenItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	endless := iotest.OneByteReader(zeroReader{})
	_, err := Hash(ctx, endless, func(done int64) {
		if done == 10 {
			cancel(cause)
		}
	})
	if !errors.Is(err, cause) {
		t.Errorf("error is %v, want %v", err, cause)
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestHashFileNamesTheFile(t *testing.T) {
	if _, err := HashFile(t.Context(), t.TempDir(), nil); err == nil || !strings.HasPrefix(err.Error(), "hash /") {
		t.Errorf("hash of a directory: %v", err)
	}
}

func TestPublishAndDiscard(t *testing.T) {
	final := filepath.Join(t.TempDir(), "image.raw")
	if err := Discard(final); err != nil {
		t.Errorf("discard of nothing: %v", err)
	}
	for _, text := range []string{"first", "second"} {
		testutil.WriteFile(t, PartName(final), text)
		testutil.Must(t, Publish(final))
		if got, err := os.ReadFile(final); string(got) != text || err != nil {
			t.Errorf("file holds %q, %v; want %q", got, err, text)
		}
	}
	if _, err := os.Stat(PartName(final)); err == nil {
		t.Error("the partial file is still there")
	}
	if err := Publish(final); err == nil {
		t.Error("publish without a partial file succeeded")
	}
}
