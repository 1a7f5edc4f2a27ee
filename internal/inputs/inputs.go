// Package inputs digests the local files that go into an image, so that a change in one of them causes a rebuild.
//
// The digest covers each file's path (relative to the base), its content and executable bit, and the target of symbolic
// links, but not times, owners or the order of directory listings.
package inputs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/npctl/npctl/resources"
)

// Limits of inputs, which are scripts and small files. Large files belong on a server.
const (
	maxFiles = 20_000
	maxBytes = 2 << 30
)

// Hasher digests files and caches the digests of unchanged files, so that a check every few seconds reads no content.
// The zero value is ready to use; several goroutines may use it.
type Hasher struct {
	mu    sync.Mutex
	known map[string]remembered // guarded by mu; by absolute path
}

type remembered struct {
	identity string
	sum      [sha256.Size]byte
}

// Set selects the files to digest below Base.
type Set struct {
	Base     string   // absolute
	Patterns []string // such as "files/**" or "build.sh"; ** matches any number of directories
}

// Hash digests all sets together, and each file with a path relative to dir. A pattern without a match is an error,
// since it is probably a mistake. Without patterns the hash is empty.
func (h *Hasher) Hash(ctx context.Context, dir string, sets ...Set) (resources.InputFiles, error) {
	digest := sha256.New()
	seen := &budget{}
	list := listing{files: map[string]string{}}
	for _, set := range sets {
		names, err := set.files(ctx)
		if err != nil {
			return resources.InputFiles{}, err
		}
		for _, name := range names {
			one := sha256.New()
			if err := h.add(ctx, io.MultiWriter(digest, one), set.Base, name, seen); err != nil {
				return resources.InputFiles{}, err
			}
			list.add(dir, filepath.Join(set.Base, filepath.FromSlash(name)), one.Sum(nil))
		}
		_, _ = fmt.Fprintln(digest, "end of set")
	}
	if seen.files == 0 {
		return resources.InputFiles{}, nil
	}
	return resources.InputFiles{Hash: resources.Hash("v1:" + hex.EncodeToString(digest.Sum(nil)[:16])), Files: list.files}, nil
}

// Limits of the list of files, which the state stores with each build. Above a limit there is no list.
const (
	maxListed      = 1000
	maxListedNames = 64 << 10 // bytes
)

// listing collects the digest of each file.
type listing struct {
	files map[string]string // nil after a limit was exceeded
	names int               // bytes
}

func (l *listing) add(dir, file string, sum []byte) {
	if l.files == nil {
		return
	}
	name, err := filepath.Rel(dir, file)
	if err != nil {
		name = file
	}
	l.files[filepath.ToSlash(name)] = hex.EncodeToString(sum[:8])
	if l.names += len(name); len(l.files) > maxListed || l.names > maxListedNames {
		l.files = nil
	}
}

// budget counts files and bytes against the limits.
type budget struct {
	files int
	bytes int64
}

func (b *budget) take(name string, size int64) error {
	b.files++
	b.bytes += size
	if b.files > maxFiles || b.bytes > maxBytes {
		return fmt.Errorf("inputs contain more than %d files or %d bytes (at %s): name fewer files, or fetch large ones during the build", maxFiles, int64(maxBytes), name)
	}
	return nil
}

// files returns the sorted names, relative to the base, of all files that the patterns match, except directories.
func (s Set) files(ctx context.Context) ([]string, error) {
	found := map[string]bool{}
	for _, pattern := range s.Patterns {
		before := len(found)
		matched := false
		root, rest := s.place(pattern)
		err := doublestar.GlobWalk(os.DirFS(root), rest, func(name string, entry fs.DirEntry) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			matched = true
			if entry.IsDir() {
				return nil
			}
			relative, err := filepath.Rel(s.Base, filepath.Join(root, name))
			found[filepath.ToSlash(relative)] = true
			if len(found) > maxFiles {
				return (&budget{files: maxFiles}).take(name, 0)
			}
			return err
		}, doublestar.WithNoFollow())
		if err != nil {
			return nil, fmt.Errorf("inputs %q in %s: %w", pattern, s.Base, err)
		}
		if !matched && len(found) == before {
			return nil, fmt.Errorf("inputs %q match no file in %s: correct the pattern or remove it", pattern, s.Base)
		}
	}
	names := slices.AppendSeq(make([]string, 0, len(found)), maps.Keys(found))
	slices.Sort(names)
	return names, nil
}

// place splits a pattern into a directory and a pattern below it. The name of a directory includes all its content.
func (s Set) place(pattern string) (root, rest string) {
	root, rest = s.Base, path.Clean(filepath.ToSlash(pattern))
	if path.IsAbs(rest) {
		root, rest = doublestar.SplitPattern(rest)
	}
	// The base is not a pattern, even if its name contains such characters, and a pattern must not leave its root.
	for rest == ".." || strings.HasPrefix(rest, "../") {
		root, rest = filepath.Dir(root), path.Clean(strings.TrimPrefix(rest[2:], "/"))
	}
	if info, err := os.Stat(filepath.Join(root, rest)); err == nil && info.IsDir() {
		rest = path.Join(rest, "**")
	}
	return root, rest
}

// add digests one file.
func (h *Hasher) add(ctx context.Context, digest io.Writer, base, name string, seen *budget) error {
	file := filepath.Join(base, filepath.FromSlash(name))
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	if err := seen.take(name, info.Size()); err != nil {
		return err
	}
	switch {
	case info.Mode().IsRegular():
		sum, err := h.content(ctx, file, info)
		_, _ = fmt.Fprintf(digest, "file %q %t %x\n", name, info.Mode()&0o111 != 0, sum)
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return h.link(ctx, digest, file, name)
	default:
		return fmt.Errorf("inputs %s: it is neither a file nor a symbolic link; remove it from inputs", file)
	}
}

// link digests the target of a link, and its content if that is a file: `inputs = ["current.sh"]` includes the
// script.
func (h *Hasher) link(ctx context.Context, digest io.Writer, file, name string) error {
	target, err := os.Readlink(file)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(digest, "link %q %q\n", name, target)
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return nil //nolint:nilerr // a dangling link, or a directory that no pattern names: only the link's target counts
	}
	if err := (&budget{}).take(name, info.Size()); err != nil {
		return err
	}
	sum, err := h.content(ctx, file, info)
	_, _ = fmt.Fprintf(digest, "to %x\n", sum)
	return err
}

// settled is the minimum age of a change from which a file's times reliably show the next change.
const settled = 2 * time.Second

func (h *Hasher) content(ctx context.Context, file string, info fs.FileInfo) ([sha256.Size]byte, error) {
	identity := identify(info)
	h.mu.Lock()
	before, ok := h.known[file]
	h.mu.Unlock()
	if ok && before.identity == identity {
		return before.sum, nil
	}
	sum, err := read(ctx, file)
	if err == nil && time.Since(info.ModTime()) > settled {
		h.mu.Lock()
		if h.known == nil || len(h.known) > 2*maxFiles {
			h.known = map[string]remembered{}
		}
		h.known[file] = remembered{identity, sum}
		h.mu.Unlock()
	}
	return sum, err
}

func read(ctx context.Context, name string) (sum [sha256.Size]byte, err error) {
	file, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer func() { _ = file.Close() }()
	digest := sha256.New()
	limited := io.LimitReader(file, maxBytes+1) // it may grow while it is read
	for {
		if ctx.Err() != nil {
			return sum, context.Cause(ctx)
		}
		_, err := io.CopyN(digest, limited, 8<<20)
		if errors.Is(err, io.EOF) {
			digest.Sum(sum[:0])
			return sum, nil
		}
		if err != nil {
			return sum, fmt.Errorf("read %s: %w", name, err)
		}
	}
}
