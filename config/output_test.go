package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"pgregory.net/rapid"

	"github.com/npctl/npctl/internal/testutil"
)

func TestFormatIsCanonical(t *testing.T) {
	got, diags := Format([]byte("label   \"a\"{\nmin_ready=2\n  max_ready_age =   \"8h\" # c\n}\n"), "x.hcl")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	same(t, "text", string(got), "label \"a\" {\n  min_ready     = 2\n  max_ready_age = \"8h\" # c\n}\n")
	again, _ := Format(got, "x.hcl")
	same(t, "formatted again", string(again), string(got))
}

func TestFormatDoesNotChangeInvalidText(t *testing.T) {
	broken := "label {\n  x   =\n"
	got, diags := Format([]byte(broken), "x.hcl")
	same(t, "text", string(got), broken)
	if !diags.HasErrors() {
		t.Error("no errors")
	}
	if _, diags := Format(make([]byte, maxTotalBytes+1), "x.hcl"); !diags.HasErrors() {
		t.Error("no error for a text that is too large")
	}
}

func TestTestdataIsFormatted(t *testing.T) {
	src, err := os.ReadFile("testdata/sample/npctl.hcl")
	testutil.Must(t, err)
	got, _ := Format(src, "npctl.hcl")
	same(t, "sample", string(src), string(got))
}

func TestJSONFormOfDiagnostics(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": "label \"l\" {\n  min_ready = \"é\" + x\n  min_redy = 1\n}\n"})
	opts.Vars = []string{"x=1"}
	result, diags := Load(opts)
	raw, err := json.MarshalIndent(JSON(diags, result.Files), "", "  ")
	testutil.Must(t, err)
	golden(t, "testdata/diagnostics.json", strings.ReplaceAll(string(raw), opts.Path, "DIR")+"\n")

	raw, _ = json.Marshal(JSON(nil, nil))
	same(t, "nothing wrong", string(raw), `{"format_version":"1.0","valid":true,"error_count":0,"warning_count":0,"diagnostics":[]}`)
}

func TestValuesOfTheExpressionAreShown(t *testing.T) {
	got := loadErrors(t, write(t, map[string]string{"main.hcl": `
locals { sizes = { s = "1", l = "x" } }
label "l" {
  for_each  = local.sizes
  min_ready = parseint(each.value, 10)
}`}))
	wantText(t, got, "main.hcl line 5", `with: each.value is "x".`)
}

// Writing a diagnostic never fails and never omits its text, whatever position it has.
func TestDiagnosticsAtAnyPositionAreWritten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		src := []byte(rapid.StringMatching(`[a\né\t]{0,40}`).Draw(rt, "source"))
		pos := func(name string) hcl.Pos {
			at := rapid.IntRange(0, len(src)+2).Draw(rt, name)
			return hcl.Pos{Line: 1 + strings.Count(string(src[:min(at, len(src))]), "\n"), Column: 1, Byte: at}
		}
		diags := hcl.Diagnostics{{
			Severity: hcl.DiagError, Summary: "Sum", Detail: "Det",
			Subject: &hcl.Range{Filename: "f", Start: pos("start"), End: pos("end")},
			Context: &hcl.Range{Filename: "f", Start: pos("from"), End: pos("to")},
		}}
		files := map[string]*hcl.File{"f": {Bytes: src}}
		var b strings.Builder
		WriteDiagnostics(&b, diags, files, false, 10)
		if !strings.HasPrefix(b.String(), "Error: Sum\n") || !strings.HasSuffix(b.String(), "Det\n\n") {
			rt.Errorf("%q", b.String())
		}
		JSON(diags, files)
	})
}

func TestReferenceHasEveryAttribute(t *testing.T) {
	opts := testOptions("")
	got := Reference(opts.Drivers, opts.Builders, opts.States)
	golden(t, "testdata/reference.md", got)
	specs := newSpecs(opts)
	all := []*spec{specs.variable, specs.validation, specs.npctl, specs.label, specs.diskimage, specs.zuulImage}
	for _, d := range specs.drivers {
		all = append(all, d.provider, d.pool, d.offer, d.cloudImage, d.providerImage, d.node)
	}
	for _, s := range all {
		for name, attr := range s.attrs {
			if !strings.Contains(got, "| `"+name+"` |") {
				t.Errorf("%s: %s is missing", s.what, name)
			}
			if attr.Doc == "" {
				t.Errorf("%s: %s has no doc", s.what, name)
			}
		}
	}
}

func TestFirstErrorsOfManyDiagnosticsAreShown(t *testing.T) {
	var diags hcl.Diagnostics
	for i := range 1100 {
		severity := hcl.DiagError
		if i < 30 {
			severity = hcl.DiagWarning
		}
		diags = append(diags, &hcl.Diagnostic{Severity: severity, Summary: fmt.Sprintf("number %d", i)})
	}
	var b strings.Builder
	WriteDiagnostics(&b, diags, nil, false, 0)
	if n := strings.Count(b.String(), "Error: number"); n != 20 || strings.Contains(b.String(), "Warning: number") {
		t.Errorf("%d errors are shown:\n%s", n, b.String())
	}
	if !strings.HasSuffix(b.String(), "\n1050 more errors and 30 more warnings.\n\n") {
		t.Errorf("the end is %q", b.String()[max(0, b.Len()-100):])
	}
	form := JSON(diags, nil)
	if len(form.Diagnostics) != 1000 || form.ErrorCount != 1070 || form.WarningCount != 30 || form.Diagnostics[0].Summary != "number 30" {
		t.Errorf("the JSON form has %d diagnostics of %d errors and %d warnings, the first is %q",
			len(form.Diagnostics), form.ErrorCount, form.WarningCount, form.Diagnostics[0].Summary)
	}
	b.Reset()
	WriteDiagnostics(&b, diags[29:50], nil, false, 0)
	if !strings.HasSuffix(b.String(), "\n1 more warning.\n\n") {
		t.Errorf("the end is %q", b.String()[max(0, b.Len()-100):])
	}
}

func TestBinaryFileIsOneError(t *testing.T) {
	for name, src := range map[string]string{
		"binary": "\x7fELF\x02\x01\x00\x80", "UTF-16": "\xff\xfel\x00a\x00b\x00e\x00l\x00", "a zero byte": "locals {}\n\x00\x00\x00\n",
	} {
		path := filepath.Join(t.TempDir(), "x.hcl")
		testutil.WriteFile(t, path, src)
		_, diags := Load(testOptions(path))
		_, formatted := Format([]byte(src), path)
		for what, got := range map[string]hcl.Diagnostics{"Load": diags, "Format": formatted} {
			if len(got) != 1 || !strings.Contains(got[0].Detail, "x.hcl is not UTF-8 text") {
				t.Errorf("%s: %s reports %v", name, what, got)
			}
		}
	}
}

func TestAllValidValuesAreListed(t *testing.T) {
	var options []string
	for c := 'a'; c < 'a'+maxOptions; c++ {
		options = append(options, "option_"+strings.Repeat(string(c), 9))
	}
	got := oneOf("values", "explode", options)
	for _, option := range options {
		if !strings.Contains(got, strconv.Quote(option)) {
			t.Errorf("%s is not in%s", option, got)
		}
	}
}

func TestCompactWarnings(t *testing.T) {
	at := &hcl.Range{Filename: "a.hcl", Start: hcl.Pos{Line: 3}}
	diags := hcl.Diagnostics{
		{Severity: hcl.DiagWarning, Summary: "Odd", Detail: "More words.", Subject: at},
		{Severity: hcl.DiagError, Summary: "Wrong", Detail: "Why."},
		{Severity: hcl.DiagWarning, Summary: "Empty", Detail: "More words."},
	}
	var b strings.Builder
	WriteCompact(&b, diags, nil, false, 0)
	same(t, "text", b.String(), "Error: Wrong\n\nWhy.\n\nWarning: Odd (a.hcl:3)\nWarning: Empty\n")
	b.Reset()
	for range maxShown {
		diags = append(diags, diags[0])
	}
	WriteCompact(&b, diags[2:], nil, false, 0)
	if !strings.HasSuffix(b.String(), "Warning: Odd (a.hcl:3)\n1 more warning.\n") || strings.Count(b.String(), "\n") != maxShown+1 {
		t.Errorf("many warnings are\n%s", b.String())
	}
}
