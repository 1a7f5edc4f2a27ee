package syntax

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
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
	path = cmp.Or(path, ".")
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

// Override returns a block with the content of a block in an override file merged into it: an attribute replaces the
// attribute with its name, and nested blocks replace all nested blocks of their type. A dynamic block counts as a block
// of the type that it generates. It changes neither block.
func Override(block, with *hclsyntax.Block) *hclsyntax.Block {
	body := *block.Body
	body.Attributes = maps.Clone(body.Attributes)
	maps.Copy(body.Attributes, with.Body.Attributes)
	replaced := map[string]bool{}
	for _, inner := range with.Body.Blocks {
		replaced[generated(inner)] = true
	}
	body.Blocks = slices.DeleteFunc(slices.Clone(body.Blocks), func(inner *hclsyntax.Block) bool { return replaced[generated(inner)] })
	body.Blocks = append(body.Blocks, with.Body.Blocks...)
	merged := *block
	merged.Body = &body
	return &merged
}

// generated returns the type of a nested block, or of the blocks that a dynamic block generates.
func generated(block *hclsyntax.Block) string {
	if block.Type == "dynamic" && len(block.Labels) == 1 {
		return block.Labels[0]
	}
	return block.Type
}
