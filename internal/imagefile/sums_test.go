package imagefile

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

// plain computes sums the simple way.
func plain(content []byte) Sums {
	s, m := sha256.Sum256(content), md5.Sum(content)
	return Sums{int64(len(content)), hex.EncodeToString(s[:]), hex.EncodeToString(m[:])}
}

// pattern makes content that is different in every chunk.
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

func TestReaderHandsOnWhatIsRight(t *testing.T) {
	content := pattern(chunk + 5)
	r := NewReader(bytes.NewReader(content), plain(content), nil)
	defer r.Close()
	if err := iotest.TestReader(r, content); err != nil {
		t.Error(err)
	}
}

func TestReaderWithholdsTheEndOfWhatIsWrong(t *testing.T) {
	content := pattern(chunk + 5)
	damaged := bytes.Clone(content)
	damaged[17] ^= 1
	for _, test := range []struct {
		name    string
		content []byte
		most    int // bytes that may be handed on
	}{
		{"one bit", damaged, len(content) - 1},
		{"shorter", content[:len(content)-1], len(content) - 1},
		{"longer", append(bytes.Clone(content), 0), len(content) - 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := NewReader(eager{bytes.NewReader(test.content)}, plain(content), nil)
			defer r.Close()
			for attempt := range 2 {
				got, err := io.ReadAll(r)
				if !errors.Is(err, ErrMismatch) || len(got) > test.most || r.Verified() {
					t.Errorf("attempt %d: read %d bytes of %d, verified %t, error %v", attempt, len(got), len(content), r.Verified(), err)
				}
				if _, err := r.Seek(0, io.SeekStart); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// eager tells the end together with the last bytes, as an io.Reader may.
type eager struct{ *bytes.Reader }

func (e eager) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if err == nil && e.Len() == 0 {
		err = io.EOF
	}
	return n, err
}

func TestReaderMayBeReadAgain(t *testing.T) {
	content := pattern(2*chunk + 5)
	r := NewReader(bytes.NewReader(content), plain(content), nil)
	defer r.Close()
	seek := func(offset int64, whence int, want int64) {
		t.Helper()
		if at, err := r.Seek(offset, whence); at != want || err != nil {
			t.Fatalf("seek to %d (%d): %d, %v", offset, whence, at, err)
		}
	}
	// As HTTP clients do: find the length, begin, retry.
	seek(0, io.SeekEnd, int64(len(content)))
	seek(0, io.SeekStart, 0)
	if _, err := io.CopyN(io.Discard, r, chunk+100); err != nil {
		t.Fatal(err)
	}
	seek(chunk, io.SeekStart, chunk)
	if rest, err := io.ReadAll(r); err != nil || !bytes.Equal(rest, content[chunk:]) || !r.Verified() {
		t.Errorf("read again from the middle: %d bytes, verified %t, error %v", len(rest), r.Verified(), err)
	}
	seek(0, io.SeekStart, 0)
	if r.Verified() {
		t.Error("verified after going back to the start")
	}
	if all, err := io.ReadAll(r); err != nil || !bytes.Equal(all, content) || !r.Verified() {
		t.Errorf("read again from the start: %d bytes, verified %t, error %v", len(all), r.Verified(), err)
	}
}

func TestReaderCannotVerifyWhatWasSkipped(t *testing.T) {
	content := pattern(1000)
	r := NewReader(bytes.NewReader(content), plain(content), nil)
	defer r.Close()
	if _, err := r.Seek(10, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err == nil || r.Verified() {
		t.Errorf("error is %v, verified %t; want an error", err, r.Verified())
	}
}

func TestReaderOfNothing(t *testing.T) {
	r := NewReader(bytes.NewReader(nil), plain(nil), nil)
	defer r.Close()
	if all, err := io.ReadAll(r); err != nil || len(all) != 0 || !r.Verified() {
		t.Errorf("read %d bytes, verified %t, error %v", len(all), r.Verified(), err)
	}
}

func TestPublishAndDiscard(t *testing.T) {
	final := filepath.Join(t.TempDir(), "image.raw")
	if err := Discard(final); err != nil {
		t.Errorf("discard of nothing: %v", err)
	}
	for _, text := range []string{"first", "second"} {
		if err := os.WriteFile(PartName(final), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Publish(final); err != nil {
			t.Fatal(err)
		}
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
