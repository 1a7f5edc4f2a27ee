package bolt_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
	"github.com/npctl/npctl/state/bolt"
	"github.com/npctl/npctl/state/statetest"
)

// TestBadFiles checks that an invalid state file is rejected with its path and a next step, and is not changed.
func TestBadFiles(t *testing.T) {
	f := sample(t)
	good := testutil.ReadFile(t, f.path)
	page := os.Getpagesize()
	hostname := f.entries[len(f.entries)-2].Record.(*resources.Node).Hostname // occurs in free pages too
	root := rootOfNodes(t, f.path) * page
	cut := func(n int) func(*testing.T, string) {
		return func(t *testing.T, path string) { overwrite(t, path, good[:n]) }
	}
	flip := func(offset int, bits byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			text := []byte(good)
			text[offset] ^= bits
			overwrite(t, path, string(text))
		}
	}
	const restore = "npctl state push"
	for name, test := range map[string]struct {
		make func(*testing.T, string)
		says []string
	}{
		"text":                  {func(t *testing.T, path string) { overwrite(t, path, "version: 4\nserial: 12\n") }, []string{"not an npctl state file", "check the path"}},
		"zeros":                 {func(t *testing.T, path string) { overwrite(t, path, string(make([]byte, 1<<16))) }, []string{"not an npctl state file"}},
		"empty":                 {cut(0), []string{"is empty", "full disk", "backup"}},
		"half a page":           {cut(page / 2), []string{restore}},
		"one page":              {cut(page), []string{restore}},
		"only meta pages":       {cut(2 * page), []string{"truncated", restore}},
		"pages missing":         {cut(root + 100), []string{"truncated", restore}},
		"both metas broken":     {func(t *testing.T, path string) { zeroMetas(t, path, good) }, []string{"meta pages", restore}},
		"flip in a page number": {flip(root, 1), []string{"damaged", restore}},
		"flip in a page's type": {flip(root+8, 4), []string{"damaged", restore}},
		"flip in a page's size": {flip(root+12, 64), []string{"damaged", restore}},
		"flip in a record": {func(t *testing.T, path string) {
			overwrite(t, path, strings.ReplaceAll(good, hostname, "D"+hostname[1:]))
		}, []string{"checksum", restore}},
		"another program's": {func(t *testing.T, path string) {
			db, err := bbolt.Open(path, 0o600, nil)
			testutil.Must(t, err)
			db.Close()
		}, []string{"another program", "check the path"}},
		"directory": {func(t *testing.T, path string) {
			testutil.Must(t, os.Mkdir(path, 0o700))
		}, []string{"is a directory", "npctl.db"}},
		"pipe": {func(t *testing.T, path string) {
			testutil.Must(t, syscall.Mkfifo(path, 0o600))
		}, []string{"not a file"}},
		"dangling link": {func(t *testing.T, path string) {
			testutil.Must(t, os.Symlink("nowhere", path))
		}, []string{"link"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "npctl.db")
			test.make(t, path)
			before := listing(t, path)
			for _, readOnly := range []bool{false, true} {
				if name == "dangling link" && readOnly {
					continue // an empty store, like any missing file
				}
				s, err := bolt.Open(bolt.Options{Path: path, ReadOnly: readOnly})
				if err == nil { // a damaged record is an error when it is read, or at any write
					_, err = s.List(t.Context())
					says(t, err, append(test.says, path)...)
					if !readOnly {
						_, err = s.Commit(t.Context(), state.Op{Record: statetest.Node(1)})
					}
					s.Close()
				}
				says(t, err, append(test.says, path)...)
			}
			if diff := cmp.Diff(before, listing(t, path)); diff != "" {
				t.Errorf("the file was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// rootOfNodes returns the number of the root page of the nodes' bucket.
func rootOfNodes(t *testing.T, path string) (page int) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	testutil.Must(t, err)
	defer db.Close()
	err = db.View(func(tx *bbolt.Tx) error {
		page = int(tx.Bucket([]byte("records")).Bucket([]byte("node")).RootPage())
		return nil
	})
	if err != nil || page < 2 {
		t.Fatalf("root page %d: %v", page, err)
	}
	return page
}

func zeroMetas(t *testing.T, path, good string) {
	t.Helper()
	text := []byte(good)
	for _, offset := range []int{0, os.Getpagesize()} {
		text[offset+16+50] ^= 0xFF
	}
	overwrite(t, path, string(text))
}

// listing returns the names, modes and contents of all files in the directory of path.
func listing(t *testing.T, path string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(filepath.Dir(path))
	testutil.Must(t, err)
	all := map[string]string{}
	for _, f := range files {
		all[f.Name()] = f.Type().String()
		if f.Type().IsRegular() {
			all[f.Name()] += testutil.ReadFile(t, filepath.Join(filepath.Dir(path), f.Name()))
		}
	}
	return all
}

// fixture is a state file with a history: branch pages, free pages, values that span pages, a lock record.
type fixture struct {
	path            string
	before, entries []state.Entry // after the last but one and after the last commit
}

func sample(t testing.TB) fixture {
	t.Helper()
	f := fixture{path: filepath.Join(t.TempDir(), "sample.db")}
	s, err := bolt.Open(bolt.Options{Path: f.path, Version: "0.1.0"})
	testutil.Must(t, err)
	defer s.Close()
	commit := func(ops ...state.Op) {
		if _, err := s.Commit(t.Context(), ops...); err != nil {
			t.Fatal(err)
		}
		f.before = f.entries
		if f.entries, err = s.List(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var ops []state.Op
	for i := range 15 {
		ops = append(ops, state.Op{Record: statetest.Node(i)})
	}
	ops = append(ops, state.Op{Record: &resources.Template{Hash: "v1:big", Static: map[string]string{"userdata": string(bytes.Repeat([]byte("x"), 10_000))}}},
		state.Op{Record: &resources.ProviderRecord{Name: "lab", Driver: "static", Config: []byte("{}")}})
	commit(ops...)
	ops = nil
	for i, entry := range f.entries {
		if entry.Record.Key().Kind == resources.KindNode && i%4 == 0 {
			ops = append(ops, state.Op{Key: entry.Record.Key(), Revision: entry.Revision})
		}
	}
	commit(ops...)
	commit(opFor(f.entries[3]))
	return f
}

// use opens a damaged file and calls all methods. They must return correct data or an error with a next step. If only
// the newest meta page is damaged, reads may return the previous commit.
func use(t *testing.T, path string, f fixture) {
	t.Helper()
	for _, readOnly := range []bool{true, false} {
		s, err := bolt.Open(bolt.Options{Path: path, ReadOnly: readOnly})
		if err != nil {
			says(t, err, path)
			continue
		}
		entries, err := s.List(t.Context())
		switch {
		case err != nil:
			says(t, err, path, "backup")
		case cmp.Equal(entries, f.entries), cmp.Equal(entries, f.before):
		default:
			t.Errorf("List was wrong without an error:\n%s", cmp.Diff(f.entries, entries))
		}
		if !readOnly {
			change(t, s, f)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

// change commits to a file that may be damaged. The commit must fail, or all records must be correct afterwards.
func change(t *testing.T, s *bolt.Store, f fixture) {
	t.Helper()
	want := append([]state.Entry{}, f.entries...)
	at := len(want) - 1
	for want[at].Record.Key().Kind != resources.KindNode {
		at--
	}
	changed, err := s.Commit(t.Context(), opFor(want[at]))
	if err != nil {
		if !errors.Is(err, bolt.ErrDamaged) && !errors.Is(err, state.ErrConflict) {
			t.Errorf("Commit: %v", err)
		}
		return
	}
	want[at] = changed[0]
	entries, err := s.List(t.Context())
	if err != nil || !cmp.Equal(want, entries) {
		t.Errorf("a commit succeeded, and then: %v\n%s", err, cmp.Diff(want, entries))
	}
}

// TestRandomDamageIsDetected checks that random damage never crashes the process or makes it return wrong data.
func TestRandomDamageIsDetected(t *testing.T) {
	t.Parallel()
	f := sample(t)
	good := testutil.ReadFile(t, f.path)
	path := filepath.Join(t.TempDir(), "damaged.db")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		text := []byte(good)
		switch rng.IntN(4) {
		case 0:
			text = text[:rng.IntN(len(text))]
		case 1: // one bit
			text[rng.IntN(len(text))] ^= 1 << rng.IntN(8)
		case 2: // one bit in a page's header or first elements
			text[rng.IntN(len(text)/4096)*4096+rng.IntN(64)] ^= 1 << rng.IntN(8)
		case 3: // a range of random bytes
			from := rng.IntN(len(text))
			for i := from; i < min(from+rng.IntN(5000), len(text)); i++ {
				text[i] = byte(rng.Uint32())
			}
		}
		overwrite(t, path, string(text))
		use(t, path, f)
		if t.Failed() {
			t.Fatalf("damaged file kept: %d bytes", len(text))
		}
	}
}

// TestEveryHeaderFieldIsChecked damages each field of the header and of the first element of every page.
func TestEveryHeaderFieldIsChecked(t *testing.T) {
	t.Parallel()
	f := sample(t)
	good := testutil.ReadFile(t, f.path)
	path := filepath.Join(t.TempDir(), "damaged.db")
	noticed := 0
	for page := 0; page < len(good); page += os.Getpagesize() {
		for _, at := range []int{0, 8, 10, 12, 24, 40} {
			text := []byte(good)
			text[page+at] ^= 0x81
			overwrite(t, path, string(text))
			use(t, path, f)
			if t.Failed() {
				t.Fatalf("page %d, byte %d", page/os.Getpagesize(), at)
			}
			if _, err := bolt.Open(bolt.Options{Path: path, ReadOnly: true}); err != nil {
				noticed++
			}
		}
	}
	if noticed < 30 {
		t.Errorf("Open detected only %d damages", noticed)
	}
}

func FuzzDamagedFile(f *testing.F) {
	sample := sample(f)
	good, err := os.ReadFile(sample.path)
	testutil.Must(f, err)
	f.Add(len(good), 0, []byte{})
	f.Add(4096*3, 0, []byte{})
	f.Add(len(good), 4096*2+10, []byte{0xff, 0xff})
	f.Add(len(good), 4096*4, []byte{1, 2, 3, 4, 5, 6, 7, 8})
	f.Fuzz(func(t *testing.T, length, offset int, noise []byte) {
		text := bytes.Clone(good)
		for i, b := range noise {
			if at := offset + i; at >= 0 && at < len(text) {
				text[at] ^= b
			}
		}
		if length >= 0 && length < len(text) {
			text = text[:length]
		}
		path := filepath.Join(t.TempDir(), "damaged.db")
		overwrite(t, path, string(text))
		use(t, path, sample)
	})
}
