package dib

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/kballard/go-shellquote"
	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/block"
	"github.com/npctl/npctl/resources/schema"
)

// settings is the decoded block.
type settings struct {
	command      []string
	elements     []string
	elementPaths []string // absolute
	packages     []string
	extraArgs    []string
	release      string
	env          map[string]string
	qemuOptions  string
	imageCache   string
	tmpDir       string
	checksum     bool
	trace        bool
	grace        time.Duration
	secrets      []string
}

func read(config cty.Value, baseDir string, s schema.Block) (settings, error) {
	b, err := block.Read(config, s)
	if err != nil {
		return settings{}, err
	}
	command, err := split(b.String("command"))
	if err != nil {
		return settings{}, err
	}
	grace, err := b.Duration("stop_timeout")
	if err != nil {
		return settings{}, err
	}
	return settings{
		command:      command,
		elements:     b.Strings("elements"),
		elementPaths: absolute(baseDir, b.Strings("element_paths")...),
		packages:     b.Strings("packages"),
		extraArgs:    b.Strings("extra_args"),
		release:      b.String("release"),
		env:          block.Merge(b.Map("env"), b.Map("secret_env")),
		qemuOptions:  b.String("qemu_img_options"),
		imageCache:   optional(baseDir, b.String("image_cache")),
		tmpDir:       optional(baseDir, b.String("tmp_dir")),
		checksum:     b.Bool("checksum"),
		trace:        b.Bool("trace"),
		grace:        grace,
		secrets:      b.Secrets(),
	}, nil
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

func absolute(base string, paths ...string) []string {
	var all []string
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(base, path)
		}
		all = append(all, path)
	}
	return all
}

func optional(base, path string) string {
	if path == "" {
		return ""
	}
	return absolute(base, path)[0]
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
