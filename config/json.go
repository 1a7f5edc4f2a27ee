package config

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

// diagnosticsFormat is the version of the JSON form of diagnostics. Later versions only add fields.
const diagnosticsFormat = "1.0"

// maxJSON is the maximum number of diagnostics in the JSON form. The counts include omitted diagnostics.
const maxJSON = 1000

// jsonDiagnostics is the JSON form of a validation result.
type jsonDiagnostics struct {
	FormatVersion string           `json:"format_version"`
	Valid         bool             `json:"valid"`
	ErrorCount    int              `json:"error_count"`
	WarningCount  int              `json:"warning_count"`
	Diagnostics   []JSONDiagnostic `json:"diagnostics"` // never null; the first 1000
	Unset         []string         `json:"unset_variables,omitempty"`
}

// JSONDiagnostic is one error or warning.
type JSONDiagnostic struct {
	Severity string       `json:"severity"` // "error" or "warning"
	Summary  string       `json:"summary"`
	Detail   string       `json:"detail,omitempty"`
	Range    *jsonRange   `json:"range,omitempty"` // absent if it does not refer to a position in a file
	Snippet  *jsonSnippet `json:"snippet,omitempty"`
}

// jsonRange is a part of a file. End is the position after the last character.
type jsonRange struct {
	Filename string  `json:"filename"`
	Start    jsonPos `json:"start"`
	End      jsonPos `json:"end"`
}

// jsonPos is a position in a file. Lines and columns (in characters as users see them) start at 1, bytes at 0.
type jsonPos struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// jsonSnippet is the source around a position.
type jsonSnippet struct {
	Context   string `json:"context,omitempty"` // the enclosing blocks, such as provider "openstack" "vexxhost", pool "main"
	Code      string `json:"code"`              // the whole first line of the range
	StartLine int    `json:"start_line"`
	// HighlightStart and HighlightEnd are the bytes of Code that the range covers.
	HighlightStart int `json:"highlight_start_offset"`
	HighlightEnd   int `json:"highlight_end_offset"`
}

// JSON returns the JSON form of diagnostics.
func JSON(diags hcl.Diagnostics, files map[string]*hcl.File) jsonDiagnostics {
	form := jsonDiagnostics{FormatVersion: diagnosticsFormat, Valid: !diags.HasErrors(), Diagnostics: []JSONDiagnostic{}}
	for _, diag := range diags {
		if diag.Severity == hcl.DiagWarning {
			form.WarningCount++
		} else {
			form.ErrorCount++
		}
	}
	shown, _ := firstOf(diags, maxJSON)
	for _, diag := range shown {
		one := JSONDiagnostic{Severity: "error", Summary: diag.Summary, Detail: diag.Detail}
		if diag.Severity == hcl.DiagWarning {
			one.Severity = "warning"
		}
		if diag.Subject != nil {
			one.Range = &jsonRange{
				Filename: diag.Subject.Filename, Start: jsonPos(diag.Subject.Start), End: jsonPos(diag.Subject.End),
			}
			one.Snippet = snippet(*diag.Subject, files[diag.Subject.Filename])
		}
		form.Diagnostics = append(form.Diagnostics, one)
	}
	return form
}

func snippet(at hcl.Range, file *hcl.File) *jsonSnippet {
	if file == nil || at.Start.Byte > len(file.Bytes) {
		return nil
	}
	begin := lineStart(file.Bytes, at.Start.Byte)
	line := file.Bytes[begin:]
	if end := bytes.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) > maxShownLine {
		return nil
	}
	start := min(at.Start.Byte-begin, len(line))
	made := &jsonSnippet{
		Code: string(line), StartLine: at.Start.Line, HighlightStart: start, HighlightEnd: min(max(at.End.Byte-begin, start), len(line)),
	}
	made.Context = blockPath(file, at.Start)
	return made
}

// blockPath names the blocks that enclose a position, the outermost first.
func blockPath(file *hcl.File, at hcl.Pos) string {
	var path []string
	for _, block := range file.BlocksAtPos(at) {
		name := block.Type
		for _, label := range block.Labels {
			name += " " + strconv.Quote(label)
		}
		path = append(path, name)
	}
	return strings.Join(path, ", ")
}
