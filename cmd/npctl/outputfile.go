package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// outputFile is a file that an option names and that a command replaces.
type outputFile struct {
	option, path string
	begins       []string // how files that npctl wrote for this option begin
}

// check refuses files that npctl did not write for this option, and names of configuration files, which npctl would read
// with the next command. Devices and pipes are permitted.
func (o outputFile) check() error {
	if o.path == "" || o.path == "-" {
		return nil
	}
	if strings.HasSuffix(o.path, ".hcl") || strings.HasSuffix(o.path, ".hcl.json") {
		return hint(fmt.Errorf("option -%s: %s is the name of a configuration file", o.option, o.path), "name a file that does not end with .hcl or .hcl.json")
	}
	info, err := os.Stat(o.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() == 0) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("option -%s: %w", o.option, err)
	}
	file, err := os.Open(o.path)
	if err != nil {
		return fmt.Errorf("option -%s: %w", o.option, err)
	}
	defer file.Close() //nolint:errcheck // only read
	head := make([]byte, 64)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("option -%s: %w", o.option, err)
	}
	if slices.ContainsFunc(o.begins, func(text string) bool { return strings.HasPrefix(string(head[:n]), text) }) {
		return nil
	}
	return hint(fmt.Errorf("option -%s: %s exists, and no earlier npctl command with this option has written it", o.option, o.path), "name another file, or delete it first")
}
