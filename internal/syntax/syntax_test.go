package syntax

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/npctl/npctl/internal/testutil"
)

func TestFindSortsFilesByPurpose(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"a.hcl", "b.hcl.json", "override.hcl", "z_override.hcl.json", "b_override.hcl", "nooverride.hcl", "my.override.hcl", "override_x.hcl",
		"x.auto.vars.hcl", "w.auto.vars.hcl.json", "x.vars.hcl", "x.vars.hcl.json", "x.test.hcl", "x.test.hcl.json",
		".hidden.hcl", ".hidden.hcl.json", "a.json", "hcl.json", "a.hcl~", "a.hcl.json.bak",
	} {
		testutil.WriteFile(t, filepath.Join(dir, name), "")
	}
	testutil.Must(t, os.Mkdir(filepath.Join(dir, "directory.hcl"), 0o700))
	found, err := Find(dir)
	testutil.Must(t, err)
	in := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, filepath.Join(dir, name))
		}
		return all
	}
	want := Files{Dir: dir, Config: in("a.hcl", "b.hcl.json", "my.override.hcl", "nooverride.hcl", "override_x.hcl"),
		Overrides: in("b_override.hcl", "override.hcl", "z_override.hcl.json"), AutoVars: in("w.auto.vars.hcl.json", "x.auto.vars.hcl")}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	if one, err := Find(filepath.Join(dir, "override.hcl")); err != nil || len(one.Config) != 1 || len(one.Overrides) != 0 {
		t.Errorf("one file: %+v, %v", one, err)
	}
}

// Every range in an expression from a JSON string covers the same text in the source.
func TestRangesInEscapedTextsAreThoseOfTheSource(t *testing.T) {
	const src = "{\n \"a\": \"\\u00e9\\n\\\"é\\ud83d\\ude00 ${first.x[\\\"\\u006b\\\"] + f(\\\"\\\\n\\\", second)}\\ud800 ${third[*].y}\"\n}"
	file, diags := NewParser(Shape{}).File([]byte(src), "a.json")
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	var got []string
	_ = hclsyntax.VisitAll(file.Body.(*hclsyntax.Body).Attributes["a"].Expr, func(n hclsyntax.Node) hcl.Diagnostics {
		r := n.Range()
		if r.Start.Line != 2 || r.End.Line != 2 {
			t.Errorf("%T is at %s", n, r)
		}
		if traversal, ok := n.(*hclsyntax.ScopeTraversalExpr); ok {
			got = append(got, string(r.SliceBytes([]byte(src))))
			for _, step := range traversal.Traversal {
				got = append(got, string(step.SourceRange().SliceBytes([]byte(src))))
			}
		}
		return nil
	})
	want := []string{`first.x[\"\u006b\"]`, "first", ".x", `[\"\u006b\"]`, "second", "second", "third", "third"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// The column counts characters of the source as users see them.
	second := strings.Index(src, "second")
	for _, traversal := range file.Body.(*hclsyntax.Body).Attributes["a"].Expr.Variables() {
		if traversal.RootName() == "second" {
			if at := traversal.SourceRange().Start; at.Byte != second || at.Column != 1+len([]rune(src[2:second])) {
				t.Errorf("second is at column %d, byte %d", at.Column, at.Byte)
			}
		}
	}
}

func TestOverrideChangesNeitherBlock(t *testing.T) {
	parse := func(text string) *hclsyntax.Block {
		file, diags := NewParser(Shape{}).File([]byte(text), "a.hcl")
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		return file.Body.(*hclsyntax.Body).Blocks[0]
	}
	block, with := parse("x {\n a = 1\n b = 1\n y {}\n y {}\n z {}\n}"), parse("x {\n b = 2\n c = 2\n dynamic \"y\" {}\n}")
	merged := Override(block, with)
	types := func(b *hclsyntax.Block) (all string) {
		for _, inner := range b.Body.Blocks {
			all += inner.Type + " "
		}
		return all
	}
	if got := types(merged); got != "z dynamic " || len(merged.Body.Attributes) != 3 || merged.Body.Attributes["b"] != with.Body.Attributes["b"] {
		t.Errorf("merged: %s%v", got, merged.Body.Attributes)
	}
	if types(block) != "y y z " || len(block.Body.Attributes) != 2 || types(with) != "dynamic " || len(with.Body.Attributes) != 2 {
		t.Error("Override changed its arguments")
	}
}
