package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	hcljson "github.com/hashicorp/hcl/v2/json"
)

// varsSuffix and autoVarsSuffix end the names of files that contain values of variables and no blocks. npctl reads
// the former when -var-file names them, the latter always.
const (
	varsSuffix     = ".vars.hcl"
	autoVarsSuffix = ".auto.vars.hcl"
)

// foundFiles lists the files of a configuration by purpose.
type foundFiles struct {
	dir    string // as given, for messages
	config []string
	auto   []string
}

// findFiles lists the files of the configuration at path. A single file has no automatic variable files.
func findFiles(path string) (foundFiles, error) {
	if path == "" {
		path = "."
	}
	info, err := os.Stat(path)
	if err != nil {
		return foundFiles{}, err
	}
	if !info.IsDir() {
		return foundFiles{dir: filepath.Dir(path), config: []string{path}}, nil
	}
	found := foundFiles{dir: path}
	entries, err := os.ReadDir(path)
	if err != nil {
		return foundFiles{}, err
	}
	for _, entry := range entries {
		name := entry.Name()
		if entry.IsDir() || strings.HasPrefix(name, ".") {
			continue
		}
		switch full := filepath.Join(path, name); {
		case strings.HasSuffix(name, autoVarsSuffix):
			found.auto = append(found.auto, full)
		case strings.HasSuffix(name, varsSuffix), strings.HasSuffix(name, TestSuffix):
		case strings.HasSuffix(name, ".hcl"):
			found.config = append(found.config, full)
		}
	}
	sort.Strings(found.config)
	sort.Strings(found.auto)
	return found, nil
}

// sourceFiles reads and parses the files of a configuration and keeps their text for diagnostics.
type sourceFiles struct {
	*report
	meter     *meter // counts the expressions of parsed text
	inputs    *Inputs
	files     map[string]*hcl.File
	hidden    []hcl.Range // masked in the files of the Result
	bytesLeft int64
	signsLeft int
}

func newSourceFiles(r *report, m *meter) *sourceFiles {
	return &sourceFiles{report: r, meter: m, files: map[string]*hcl.File{}, bytesLeft: maxTotalBytes, signsLeft: maxSigns}
}

// fileType states which files readFile accepts.
type fileType bool

const (
	regularFile fileType = false // files that npctl found in the directory
	fileOrPipe  fileType = true  // a file that an option names, such as -var-file <(decrypt secrets.hcl)
)

// readFile reads one file of the configuration and subtracts its size from the limit for all files together.
func (s *sourceFiles) readFile(path string, accept fileType) ([]byte, bool) {
	s.inputs.recordFile(path)
	info, err := os.Stat(path)
	if err != nil {
		s.problem(nil, "Cannot read file", err.Error()+".")
		return nil, false
	}
	if mode := info.Mode(); !mode.IsRegular() && (mode.IsDir() || accept == regularFile) {
		s.problem(nil, "Cannot read file", path+" is not a regular file.")
		return nil, false
	}
	src, err := readLimited(path, s.bytesLeft)
	if err != nil {
		s.problem(nil, "Cannot read file", err.Error()+".")
		return nil, false
	}
	if int64(len(src)) > s.bytesLeft {
		s.problem(nil, "Configuration too large", fmt.Sprintf("With %s (%s) the configuration is larger than the limit of %s. "+
			"Move large texts to separate files and read them with file().",
			path, sizeText(info.Size()), sizeText(maxTotalBytes)))
		return nil, false
	}
	s.bytesLeft -= int64(len(src))
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
func (s *sourceFiles) parse(path string, src []byte) *hclsyntax.Body {
	s.files[path] = &hcl.File{Bytes: src}
	file, diags := parseSource(src, path, &s.signsLeft)
	s.add(diags...)
	if diags.HasErrors() {
		s.partial = true
	}
	if file == nil {
		return nil
	}
	s.files[path] = file
	body, _ := file.Body.(*hclsyntax.Body)
	if body != nil {
		s.meter.attach(body)
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

// parseJSON limits the depth before it calls HCL's parser, which has no limit.
func (s *sourceFiles) parseJSON(path string, src []byte) hcl.Body {
	if json.Valid(src) {
		if err := checkDepth(string(src)); err != nil {
			s.problem(nil, "Configuration nested too deeply", path+": "+err.Error()+".")
			return nil
		}
	} else if checkDepth(string(src)) != nil {
		s.problem(nil, "Invalid JSON", path+" is not JSON.")
		return nil
	}
	file, diags := hcljson.Parse(src, path)
	s.add(diags...)
	if file == nil {
		return nil
	}
	s.files[path] = file
	return file.Body
}

// attributes reads a file that has attributes and no blocks.
func (s *sourceFiles) attributes(path string, accept fileType) hcl.Attributes {
	src, ok := s.readFile(path, accept)
	if !ok {
		return nil
	}
	var body hcl.Body
	if filepath.Ext(path) == ".json" {
		body = s.parseJSON(path, src)
	} else if parsed := s.parse(path, src); parsed != nil {
		body = parsed
	}
	if body == nil {
		return nil
	}
	attrs, diags := body.JustAttributes()
	s.add(diags...)
	return attrs
}

// addText adds text that is in no file, so that diagnostics can show it.
func (s *sourceFiles) addText(name string, src []byte) hcl.Range {
	s.files[name] = &hcl.File{Bytes: src}
	return hcl.Range{Filename: name, Start: hcl.InitialPos, End: hcl.Pos{Line: 1, Column: 1 + len(src), Byte: len(src)}}
}

// parseExpression parses text that is in no file. It reports text that must not be parsed, and returns the errors of
// the parser.
func (s *sourceFiles) parseExpression(src []byte, name string) (hclsyntax.Expression, hcl.Diagnostics) {
	if diag := guard(src, name, &s.signsLeft); diag != nil {
		s.add(diag)
		return nil, nil
	}
	expr, diags := hclsyntax.ParseExpression(src, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	s.meter.attach(expr)
	return expr, nil
}
