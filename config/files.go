package config

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// varsSuffix and autoVarsSuffix end the names of files that contain values of variables and no blocks. npctl reads
// the former when -var-file names them, the latter always.
const (
	varsSuffix     = ".vars.hcl"
	autoVarsSuffix = ".auto.vars.hcl"
)

// sources lists the files of a configuration by purpose.
type sources struct {
	dir    string // as given, for messages
	config []string
	auto   []string
}

// findFiles lists the files of the configuration at path. A single file has no automatic variable files.
func findFiles(path string) (sources, error) {
	if path == "" {
		path = "."
	}
	info, err := os.Stat(path)
	if err != nil {
		return sources{}, err
	}
	if !info.IsDir() {
		return sources{dir: filepath.Dir(path), config: []string{path}}, nil
	}
	found := sources{dir: path}
	entries, err := os.ReadDir(path)
	if err != nil {
		return sources{}, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || strings.HasPrefix(name, ".") {
			continue
		}
		switch full := filepath.Join(path, name); {
		case strings.HasSuffix(name, autoVarsSuffix):
			found.auto = append(found.auto, full)
		case strings.HasSuffix(name, varsSuffix):
		case strings.HasSuffix(name, ".hcl"):
			found.config = append(found.config, full)
		}
	}
	sort.Strings(found.config)
	sort.Strings(found.auto)
	return found, nil
}

// readFile reads one file of the configuration and subtracts its size from the limit for all files together.
func (l *loader) readFile(path string) ([]byte, bool) {
	info, err := os.Stat(path)
	if err != nil {
		l.problem(nil, "Cannot read file", err.Error()+".")
		return nil, false
	}
	// A file of values may be a pipe, as in -var-file <(decrypt secrets.hcl). Files in a directory must be regular.
	if mode := info.Mode(); !mode.IsRegular() && (mode.IsDir() || slices.Contains(l.found.config, path) || slices.Contains(l.found.auto, path)) {
		l.problem(nil, "Cannot read file", path+" is not a regular file.")
		return nil, false
	}
	src, err := readLimited(path, l.bytesLeft)
	if err != nil {
		l.problem(nil, "Cannot read file", err.Error()+".")
		return nil, false
	}
	if int64(len(src)) > l.bytesLeft {
		l.problem(nil, "Configuration too large", fmt.Sprintf("With %s (%s) the configuration is larger than the limit of %s. "+
			"Move large texts to separate files and read them with file().",
			path, sizeText(info.Size()), sizeText(maxTotalBytes)))
		return nil, false
	}
	l.bytesLeft -= int64(len(src))
	return src, true
}

// readLimited reads a file, and at most one byte more than the limit.
func readLimited(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // opened read-only
	return io.ReadAll(io.LimitReader(file, limit+1))
}

// parse parses source text and keeps it for diagnostics. After a syntax error the body holds the valid parts.
func (l *loader) parse(path string, src []byte) *hclsyntax.Body {
	l.files[path] = &hcl.File{Bytes: src}
	file, diags := parseSource(src, path, &l.signsLeft)
	l.diags = append(l.diags, diags...)
	if diags.HasErrors() {
		l.partial = true
	}
	if file == nil {
		return nil
	}
	l.files[path] = file
	body, _ := file.Body.(*hclsyntax.Body)
	if body != nil {
		l.meter.attach(body)
	}
	return body
}

// parseSource parses source text after the checks that protect the parser. The file is nil when a check fails.
func parseSource(src []byte, path string, signsLeft *int) (*hcl.File, hcl.Diagnostics) {
	if diag := notText(src, path); diag != nil {
		return nil, hcl.Diagnostics{diag}
	}
	if diag := guard(src, path, signsLeft); diag != nil {
		return nil, hcl.Diagnostics{diag}
	}
	file, diags := hclsyntax.ParseConfig(src, path, hcl.InitialPos)
	return file, firstUnclosedString(diags)
}

// notText reports a file that is binary or has another encoding than UTF-8. The parser would report nearly every
// byte.
func notText(src []byte, path string) *hcl.Diagnostic {
	if utf8.Valid(src) && bytes.IndexByte(src, 0) < 0 {
		return nil
	}
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Not a text file", Detail: path + " is not UTF-8 text. Save it as UTF-8, or move it " +
		"to another directory if it is not part of the configuration."}
}

// firstUnclosedString keeps one error for a string without closing quote and drops the errors after it: behind that
// point the parser takes code for text and text for code.
func firstUnclosedString(diags hcl.Diagnostics) hcl.Diagnostics {
	first := -1
	for i, diag := range diags {
		unclosed := diag.Summary == "Invalid multi-line string" || diag.Summary == "Unterminated template string"
		if unclosed && (first < 0 || compareDiags(diag, diags[first]) < 0) {
			first = i
		}
	}
	if first < 0 {
		return diags
	}
	at := *diags[first].Subject
	kept := hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Unclosed string", Subject: &at,
		Detail: "The string has no closing quote on its line. Write a text of several lines with \\n or as a heredoc (<<EOT)."}}
	for _, diag := range diags {
		if place(diag).Start.Byte < at.Start.Byte {
			kept = append(kept, diag)
		}
	}
	return kept
}

// sizeText formats a number of bytes.
func sizeText(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
