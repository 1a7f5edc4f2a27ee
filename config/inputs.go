package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/npctl/npctl/internal/syntax"
)

// Inputs records the files that Load reads, so that a daemon can reload the configuration when one of them changes. The
// zero value is empty, and a nil *Inputs records nothing. It is safe for concurrent use.
type Inputs struct {
	mu   sync.Mutex
	load int // number of the newest load
	all  map[string]input
}

// input is one file, or the result of one listing, of a configuration.
type input struct {
	load  int // the newest load that used it
	stamp string
	now   func() string // returns the present stamp
}

// Begin starts a load: until Complete, a recorded file counts as unchanged in its present form.
func (i *Inputs) Begin() {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.load++
	for name, one := range i.all {
		one.stamp = one.now()
		i.all[name] = one
	}
}

// Complete ends a load without errors: it forgets files that the load has not used. After a failed load they stay,
// because an error can hide references to them.
func (i *Inputs) Complete() {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	maps.DeleteFunc(i.all, func(_ string, one input) bool { return one.load < i.load })
}

// Changes returns the names of the inputs that differ from those of the newest load, sorted, and a text that changes
// with every further change.
func (i *Inputs) Changes() (names []string, stamps string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(i.all)) {
		if now := i.all[name].now(); now != i.all[name].stamp {
			names = append(names, name)
			fmt.Fprintf(&text, "%q %q\n", name, now)
		}
	}
	return names, text.String()
}

// record adds an input before it is read.
func (i *Inputs) record(name string, now func() string) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	one, known := i.all[name]
	if !known {
		one = input{stamp: now(), now: now}
	}
	one.load = i.load
	if i.all == nil {
		i.all = map[string]input{}
	}
	i.all[name] = one
}

func (i *Inputs) recordFile(path string) {
	i.record(path, func() string { return fileStamp(path) })
}

// recordFiles records which configuration files exist at path. Their content is recorded by file.
func (i *Inputs) recordFiles(path string) {
	i.record(filepath.Join(path, "*.hcl"), func() string {
		found, err := syntax.Find(path)
		return fmt.Sprintf("%q %v", found, err)
	})
}

// recordMatches records which files match a pattern.
func (i *Inputs) recordMatches(pattern string) {
	i.record(pattern, func() string {
		matches, err := filepath.Glob(pattern)
		return fmt.Sprintf("%q %v", matches, err)
	})
}

// fileStamp returns a text that differs after a change of a regular file.
func fileStamp(path string) string {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "none"
	case !info.Mode().IsRegular():
		return info.Mode().Type().String()
	default:
		return fmt.Sprintf("%v %d %d", info.Mode(), info.Size(), info.ModTime().UnixNano())
	}
}
