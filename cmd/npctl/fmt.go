package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/rogpeppe/go-internal/diff"
	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/config"
	"github.com/npctl/npctl/internal/host"
	"github.com/npctl/npctl/internal/syntax"
	"github.com/npctl/npctl/internal/text"
)

const fmtDescription = `Rewrites configuration files in the one canonical layout: indentation, and equals signs in line.
It prints the names of the changed files. Without arguments it formats the files
of the directory that -config names; "-" reads standard input and writes standard output. It ignores
files that end with .hcl.json.

Examples:
  npctl fmt
  npctl fmt -recursive -check      (in a review job)
  npctl fmt -diff nodes.hcl
  npctl fmt - < nodes.hcl

Exit codes: 0 done, 1 error; with -check 1 also when a file is not in the canonical layout.`

// fmtCommand implements npctl fmt.
type fmtCommand struct {
	*app
	check, diff, recursive, write, list bool
}

func newFmtCommand(a *app) *cli.Command {
	c := &fmtCommand{app: a}
	return &cli.Command{
		Name: "fmt", Category: categoryMain, Usage: "bring configuration files into the canonical layout",
		ArgsUsage: "[FILE|DIR|-]...", Description: fmtDescription, Metadata: takes(files),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "check", Destination: &c.check, Usage: "write nothing; fail when a file would be changed"},
			&cli.BoolFlag{Name: "diff", Destination: &c.diff, Usage: "show what would be changed or was changed"},
			&cli.BoolFlag{Name: "recursive", Destination: &c.recursive, Usage: "include subdirectories"},
			&cli.BoolFlag{Name: "list", Destination: &c.list, Value: true, Usage: "print the names of files that are not in the canonical layout; -list=false does not"},
			&cli.BoolFlag{Name: "write", Destination: &c.write, Value: true, Usage: "write the files; -write=false only names them"},
		},
		Action: c.run,
	}
}

func (c *fmtCommand) run(_ context.Context, cmd *cli.Command) error {
	paths := cmd.Args().Slice()
	if len(paths) == 0 {
		paths = []string{c.global.config}
	}
	var files []string
	for _, path := range paths {
		switch {
		case path == "-":
			return c.standardInput()
		case syntax.IsJSON(path):
			c.ui.Message("%s is JSON, and npctl fmt formats only HCL's native syntax; ignored.", path)
			continue
		}
		found, err := c.find(path)
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	changed := 0
	var errs []error
	for _, file := range files {
		did, err := c.file(file)
		if err != nil {
			errs = append(errs, err)
		}
		if did {
			changed++
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if c.check && changed > 0 {
		is := "are"
		if changed == 1 {
			is = "is"
		}
		c.ui.Message("%d of %s %s not in the canonical layout; run npctl fmt.", changed, text.Count(len(files), "file", "files"), is)
		return exitCode(1)
	}
	return nil
}

// find lists the configuration files below a path. It skips hidden files and directories.
func (c *fmtCommand) find(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(p string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && p != path && (!c.recursive || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !entry.IsDir() && syntax.IsSource(p) && !syntax.IsJSON(p):
			files = append(files, p)
		}
		return nil
	})
	return files, err
}

// file formats one file and reports whether its content changes.
func (c *fmtCommand) file(path string) (bool, error) {
	before, err := readSmall(path)
	if err != nil {
		return false, err
	}
	after, diags := config.Format(before, path)
	if diags.HasErrors() {
		c.diagnostics(unformatted(path, before, diags))
		return false, fmt.Errorf("%s is not formatted, because it cannot be parsed", path)
	}
	if bytes.Equal(before, after) {
		return false, nil
	}
	if c.list {
		if err := c.ui.Print("%s", path); err != nil {
			return true, err
		}
	}
	if c.diff {
		if err := c.ui.Print("%s", strings.TrimSuffix(unifiedDiff(path, before, after), "\n")); err != nil {
			return true, err
		}
	}
	if c.check || !c.write {
		return true, nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return true, err
	}
	if err := host.ReplaceFile(path, after, info.Mode().Perm()); err != nil {
		return true, fmt.Errorf("write %s: %w", path, err)
	}
	return true, nil
}

// fmtLimit is the size in bytes of the largest file that npctl fmt reads: the limit for a whole configuration.
const fmtLimit = 16 << 20

func readSmall(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read-only file
	return readLimited(file, path)
}

func readLimited(r io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, fmtLimit+1))
	if err == nil && len(text) > fmtLimit {
		err = fmt.Errorf("%s has more than %d MiB, the limit for a configuration file", name, fmtLimit>>20)
	}
	return text, err
}

// unformatted returns the error for a text that cannot be formatted, with the text as source of the diagnostics.
func unformatted(name string, src []byte, diags hcl.Diagnostics) *diagnosed {
	return &diagnosed{diags, map[string]*hcl.File{name: {Bytes: src}}}
}

func (c *fmtCommand) standardInput() error {
	before, err := readLimited(c.ui.In, "standard input")
	if err != nil {
		return err
	}
	after, diags := config.Format(before, "<stdin>")
	if diags.HasErrors() {
		return unformatted("<stdin>", before, diags)
	}
	if !c.check {
		return c.ui.Write(string(after))
	}
	if !bytes.Equal(before, after) {
		return exitCode(1)
	}
	return nil
}

func unifiedDiff(path string, before, after []byte) string {
	return string(diff.Diff("a/"+filepath.ToSlash(path), before, "b/"+filepath.ToSlash(path), after))
}
