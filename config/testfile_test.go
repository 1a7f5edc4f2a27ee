package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/syntax"
	"github.com/npctl/npctl/internal/testutil"
)

// FuzzTestFile searches for input on which ReadTests or the conditions panic.
func FuzzTestFile(f *testing.F) {
	for _, src := range []string{
		"variables {\n a = 1\n}\nrun \"a\" {\n command = plan\n variables {\n b = [1]\n }\n target = [\"x\"]\n expect_failures = [var.a]\n assert {\n condition = length([for x in [1, 2] : x]) == 2\n error_message = \"no ${x}\"\n }\n}",
		"run \"a\" {}\nrun \"a\" {}", "run {}", "run \"a\" { command = 1 }", "run \"a\" { expect_failures = var.a }", "run \"a\" { target = [null] }", "a = 1",
		"run \"a\" { assert { condition = null\n error_message = 1 } }", "run \"a\" { assert { condition = sensitive(false)\n error_message = sensitive(\"x\") } }",
		"variables {}\nvariables {}", "run \"a\" { dynamic \"assert\" {} }", "run \"a\" { destroy = 1/0 }", "run \"a\" { expect_failures = [var[1], a.b.c, \"x\"] }",
	} {
		f.Add([]byte(src))
	}
	dir := f.TempDir()
	conf := filepath.Join(dir, "main.hcl")
	testutil.Must(f, os.WriteFile(conf, []byte(with(nil)), 0o600))
	loaded, diags := Load(testOptions(conf))
	if diags.HasErrors() {
		f.Fatal(diags)
	}
	path := filepath.Join(dir, "a"+syntax.TestSuffix)
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 1<<16 {
			return
		}
		testutil.Must(t, os.WriteFile(path, src, 0o600))
		file, diags := ReadTests(path, nil)
		text(t, diags, file.Files)
		if !diags.HasErrors() && len(file.Runs) == 0 {
			t.Fatal("neither runs nor an error")
		}
		for _, run := range file.Runs {
			text(t, file.Assert(run, loaded.Scope, map[string]cty.Value{"plan": cty.EmptyObjectVal}), file.Files)
		}
	})
}

func TestNestedLoopsInConditionsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a"+syntax.TestSuffix)
	loops := strings.Repeat("[for a in range(1000) : ", 4) + "1" + strings.Repeat("]", 4)
	testutil.Must(t, os.WriteFile(path, []byte("run \"a\" {\n assert {\n condition = length("+loops+") == 1\n error_message = \"x\"\n }\n}"), 0o600))
	file, diags := ReadTests(path, nil)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	dir := write(t, map[string]string{"main.hcl": with(nil)})
	got := text(t, file.Assert(file.Runs[0], load(t, dir).Scope, nil), file.Files)
	wantText(t, got, "Evaluation ended")
}
