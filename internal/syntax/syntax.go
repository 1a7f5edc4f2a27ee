// Package syntax reads the files of a configuration: it finds them, parses both syntaxes within limits, and merges
// override files. It evaluates nothing.
package syntax

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// Limits of source text. They keep hostile or broken input from exhausting the memory or the stack.
const (
	MaxNesting   = 1000    // nested brackets, operators and template directives
	MaxDataDepth = 200     // nesting of JSON and YAML
	MaxExponent  = 1000    // numbers have about 300 digits: larger ones would use all memory as text
	maxSigns     = 2 << 20 // punctuation in all files, a cheap bound of the parser's memory
)

// Parser parses the source text of one configuration. The limit of punctuation is for all texts together.
type Parser struct {
	shape Shape // of JSON files
	signs int   // punctuation so far
}

// NewParser returns a parser. The shape tells blocks and attributes apart in JSON files.
func NewParser(shape Shape) *Parser { return &Parser{shape: shape} }

// File parses a file, in the syntax that its name tells. Its body is a *hclsyntax.Body in both cases. The file is nil
// when the text must not be parsed; after other errors the body holds the valid parts.
func (p *Parser) File(src []byte, path string) (*hcl.File, hcl.Diagnostics) {
	if diag := notText(src, path); diag != nil {
		return nil, hcl.Diagnostics{diag}
	}
	if IsJSON(path) {
		return p.json(src, path)
	}
	if diag := p.guard(hclsyntax.LexConfig, src, path); diag != nil {
		return nil, hcl.Diagnostics{diag}
	}
	file, diags := hclsyntax.ParseConfig(src, path, hcl.InitialPos)
	if diag := otherContent(src, diags); diag != nil {
		return file, hcl.Diagnostics{diag}
	}
	return file, firstUnclosedString(diags)
}

// Expression parses an expression. It returns nil after an error.
func (p *Parser) Expression(src []byte, name string) (hclsyntax.Expression, hcl.Diagnostics) {
	if diag := p.guard(hclsyntax.LexExpression, src, name); diag != nil {
		return nil, hcl.Diagnostics{diag}
	}
	expr, diags := hclsyntax.ParseExpression(src, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, firstUnclosedString(diags)
	}
	return expr, nil
}

// Template parses the text of a template. It returns nil after an error.
func (p *Parser) Template(src []byte, name string) (hclsyntax.Expression, hcl.Diagnostics) {
	if diag := p.guard(hclsyntax.LexTemplate, src, name); diag != nil {
		return nil, hcl.Diagnostics{diag}
	}
	expr, diags := hclsyntax.ParseTemplate(src, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, firstUnclosedString(diags)
	}
	return expr, nil
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

var (
	conflictMarker = regexp.MustCompile(`^(<<<<<<<|\|\|\|\|\|\|\||=======|>>>>>>>)( |$)`)
	yamlLine       = regexp.MustCompile(`^(---|- .*|[A-Za-z_-]+:( .*)?)$`)
)

// otherContent replaces the errors at a marker of a merge conflict, and those of a file that starts as YAML does.
func otherContent(src []byte, diags hcl.Diagnostics) *hcl.Diagnostic {
	lines := strings.Split(string(src), "\n")
	for i, diag := range diags {
		if diag.Subject == nil || diag.Subject.Start.Line > len(lines) {
			continue
		}
		line := strings.TrimRight(lines[diag.Subject.Start.Line-1], "\r")
		switch {
		case conflictMarker.MatchString(line):
			return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Merge conflict", Subject: diag.Subject,
				Detail: "The line is a marker of a merge conflict. Resolve the conflict and remove its markers."}
		case i == 0 && diag.Subject.Start.Column == 1 && yamlLine.MatchString(line):
			return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "YAML in a file of HCL", Subject: diag.Subject,
				Detail: "The line is YAML. npctl convert translates a nodepool.yaml; other files need the syntax NAME = VALUE, or a block."}
		}
	}
	return nil
}

// firstUnclosedString keeps one error for a string without closing quote and drops the errors after it: behind that
// point the parser takes code for text and text for code.
func firstUnclosedString(diags hcl.Diagnostics) hcl.Diagnostics {
	var first *hcl.Range
	for _, diag := range diags {
		unclosed := diag.Summary == "Invalid multi-line string" || diag.Summary == "Unterminated template string"
		if unclosed && (first == nil || diag.Subject.Start.Byte < first.Start.Byte) {
			first = diag.Subject
		}
	}
	if first == nil {
		return diags
	}
	kept := hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Unclosed string", Subject: first,
		Detail: "The string has no closing quote on its line. Write a text of several lines with \\n or as a heredoc (<<EOT)."}}
	for _, diag := range diags {
		if diag.Subject == nil || diag.Subject.Start.Byte < first.Start.Byte {
			kept = append(kept, diag)
		}
	}
	return kept
}

// CheckDepth rejects JSON with brackets nested too deeply. It ignores brackets in strings.
func CheckDepth(text string) error {
	_, err := deepest(text)
	return err
}
