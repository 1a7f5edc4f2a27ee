package dib

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/inputs"
	"github.com/npctl/npctl/resources"
)

// InputFiles implements builders.Inputs. It digests all files of the elements in element_paths that the image uses,
// directly or through element-deps. It ignores elements of diskimage-builder itself: a new version of it does not
// rebuild images automatically.
func (b *Builder) InputFiles(ctx context.Context, config cty.Value, baseDir string) (resources.InputFiles, error) {
	s, err := b.read(config, baseDir)
	if err != nil {
		return resources.InputFiles{}, err
	}
	if err := checkPaths(s.ElementPaths); err != nil {
		return resources.InputFiles{}, err
	}
	dirs, err := local(s.Elements, s.ElementPaths)
	if err != nil {
		return resources.InputFiles{}, err
	}
	var sets []inputs.Set
	for _, dir := range dirs {
		sets = append(sets, inputs.Set{Base: filepath.Dir(dir), Patterns: []string{filepath.Base(dir)}})
	}
	return b.inputs.Hash(ctx, baseDir, sets...)
}

// local returns the directories of the elements that are in paths, sorted by the element's name, each once.
func local(elements, paths []string) ([]string, error) {
	found := map[string]string{}
	for todo := slices.Clone(elements); len(todo) > 0; todo = todo[1:] {
		name := todo[0]
		dir, ok := find(name, paths)
		if _, again := found[name]; again || !ok {
			continue
		}
		found[name] = dir
		deps, err := dependencies(dir)
		if err != nil {
			return nil, err
		}
		todo = append(todo, deps...)
	}
	var dirs []string
	for _, name := range slices.Sorted(maps.Keys(found)) {
		dirs = append(dirs, found[name])
	}
	return dirs, nil
}

// find searches an element as diskimage-builder does: the first path that has it wins.
func find(name string, paths []string) (string, bool) {
	if !elementName.MatchString(name) {
		return "", false
	}
	for _, path := range paths {
		dir := filepath.Join(path, name)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir, true
		}
	}
	return "", false
}

// dependencies reads an element's element-deps, which has one name per line.
func dependencies(dir string) ([]string, error) {
	file, err := os.Open(filepath.Join(dir, "element-deps"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var names []string
	lines := bufio.NewScanner(io.LimitReader(file, 1<<20))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		names = append(names, strings.Fields(line)...)
	}
	return names, lines.Err()
}
