package dib

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/kballard/go-shellquote"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/builders"
)

// read decodes a block and makes its paths absolute.
func (b *Builder) read(config cty.Value, baseDir string) (s settings, err error) {
	if s.secrets, err = builders.Decode(config, b.Schema(), &s); err != nil {
		return settings{}, err
	}
	for i, path := range s.ElementPaths {
		if !filepath.IsAbs(path) {
			s.ElementPaths[i] = filepath.Join(baseDir, path)
		}
	}
	for _, path := range []*string{&s.ImageCache, &s.TmpDir} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(baseDir, *path)
		}
	}
	s.command, err = split(s.Command)
	return s, err
}

// split splits a command by the quoting rules of a shell, as Nodepool does.
func split(command string) ([]string, error) {
	words, err := shellquote.Split(command)
	if err != nil {
		return nil, fmt.Errorf("command %q: %w", command, err)
	}
	if len(words) == 0 {
		return nil, fmt.Errorf("command %q is empty: write a program, such as disk-image-create, or omit the attribute", command)
	}
	return words, nil
}

func checkPaths(dirs []string) error {
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err != nil {
			return fmt.Errorf("element_paths: %w: correct the path or remove it", err)
		} else if !info.IsDir() {
			return fmt.Errorf("element_paths: %s is not a directory: write the directory that contains the elements", dir)
		}
	}
	return nil
}
