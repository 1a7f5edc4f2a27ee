package config

import (
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/npctl/npctl/internal/syntax"
	plaintext "github.com/npctl/npctl/internal/text"
)

// sourceFiles reads and parses the files of a configuration and keeps their text for diagnostics.
type sourceFiles struct {
	*report
	meter     *meter // counts the expressions of parsed text
	parser    *syntax.Parser
	inputs    *Inputs
	boundary  boundary
	files     map[string]*hcl.File
	hidden    []hcl.Range // masked in the files of the Result
	bytesLeft int64
}

// newSourceFiles returns the reader of files of one Load. The shape is that of JSON files with blocks.
func newSourceFiles(r *report, m *meter, shape syntax.Shape) *sourceFiles {
	return &sourceFiles{report: r, meter: m, parser: syntax.NewParser(shape), files: map[string]*hcl.File{}, bytesLeft: maxTotalBytes}
}

// fileType states which files readFile accepts.
type fileType bool

const (
	regularFile fileType = false // files that npctl found in the directory
	fileOrPipe  fileType = true  // a file that an option names, such as -var-file <(decrypt secrets.hcl)
)

// readFile reads one file of the configuration and subtracts its size from the limit for all files together.
func (s *sourceFiles) readFile(path string, accept fileType) ([]byte, bool) {
	if err := s.boundary.check(path); err != nil && accept == regularFile {
		s.problem(nil, "Cannot read file", err.Error()+".")
		return nil, false
	}
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
			path, plaintext.Bytes(info.Size()), plaintext.Bytes(maxTotalBytes)))
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
	file, diags := s.parser.File(src, path)
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

// parseValues parses a JSON file with values of variables.
func (s *sourceFiles) parseValues(path string, src []byte) hcl.Body {
	s.files[path] = &hcl.File{Bytes: src}
	file, diags := s.parser.JSONFile(src, path)
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
	if syntax.IsJSON(path) {
		body = s.parseValues(path, src)
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

// parseExpression parses text that is in no file. It returns nil after an error.
func (s *sourceFiles) parseExpression(src []byte, name string) (hclsyntax.Expression, hcl.Diagnostics) {
	expr, diags := s.parser.Expression(src, name)
	if expr != nil {
		s.meter.attach(expr)
	}
	return expr, diags
}
