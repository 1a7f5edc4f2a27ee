package syntax

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Files end with one of these, and a file with JSON also with .json.
const (
	suffix     = ".hcl"
	jsonSuffix = ".json"
	// VarsSuffix ends the names of files with values of variables and no blocks. npctl reads them when an option names
	// them, and names with AutoVarsSuffix always.
	VarsSuffix     = ".vars" + suffix
	AutoVarsSuffix = ".auto" + VarsSuffix
	// TestSuffix ends the names of files with tests of a configuration, which are not part of it.
	TestSuffix = ".test" + suffix
	// override is the name of an override file without a suffix, or the last word of the name.
	override = "override"
)

// Files lists the files of a configuration by purpose, each list sorted.
type Files struct {
	Dir       string // as given, for messages
	Config    []string
	Overrides []string // changes of blocks in Config
	AutoVars  []string
}

// IsJSON reports whether the name of a file is that of a JSON file.
func IsJSON(name string) bool { return strings.HasSuffix(name, jsonSuffix) }

// IsSource reports whether the name of a file is that of a source file of npctl, in either syntax.
func IsSource(name string) bool {
	return strings.HasSuffix(strings.TrimSuffix(name, jsonSuffix), suffix) && !strings.HasPrefix(filepath.Base(name), ".")
}

// Find lists the files of the configuration at path, which is a directory or one file. One file has no override files
// and no files with values.
func Find(path string) (Files, error) {
	if path == "" {
		path = "."
	}
	info, err := os.Stat(path)
	if err != nil {
		return Files{}, err
	}
	if !info.IsDir() {
		return Files{Dir: filepath.Dir(path), Config: []string{path}}, nil
	}
	found := Files{Dir: path}
	entries, err := os.ReadDir(path)
	if err != nil {
		return Files{}, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || !IsSource(name) {
			continue
		}
		full, name := filepath.Join(path, name), strings.TrimSuffix(name, jsonSuffix)
		switch stem := strings.TrimSuffix(name, suffix); {
		case strings.HasSuffix(name, AutoVarsSuffix):
			found.AutoVars = append(found.AutoVars, full)
		case strings.HasSuffix(name, VarsSuffix), strings.HasSuffix(name, TestSuffix):
		case stem == override, strings.HasSuffix(stem, "_"+override):
			found.Overrides = append(found.Overrides, full)
		default:
			found.Config = append(found.Config, full)
		}
	}
	slices.Sort(found.Config)
	slices.Sort(found.Overrides)
	slices.Sort(found.AutoVars)
	return found, nil
}
