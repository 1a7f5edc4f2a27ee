package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/npctl/npctl/internal/syntax"
	"github.com/npctl/npctl/internal/testutil"
)

// soon fails the test if do takes too long. It counts processor time, which does not depend on the load of the
// machine.
func soon(t *testing.T, do func()) {
	t.Helper()
	start := processorTime(t)
	do()
	if took := processorTime(t) - start; took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	testutil.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestHugeConfigurationIsRejected(t *testing.T) {
	opts := write(t, nil)
	path := filepath.Join(opts.Path, "main.hcl")
	testutil.WriteFile(t, path, strings.Repeat("label \"x\" {}\n", 50<<20/13))
	soon(t, func() {
		wantText(t, loadErrors(t, opts), "main.hcl (50.0 MiB) the configuration is larger than the limit of 16.0 MiB")
	})
}

func TestSizeLimitAppliesToAllFilesTogether(t *testing.T) {
	l := newLoader(write(t, map[string]string{
		"a.hcl": "# " + strings.Repeat("x", 600) + "\n", "b.hcl": "# " + strings.Repeat("x", 600) + "\n",
	}))
	l.sources.bytesLeft = 1000
	l.load()
	wantText(t, text(t, l.diags, l.sources.files), "b.hcl (603 bytes)", "larger than the limit of 16.0 MiB")
	opts := write(t, map[string]string{"a.hcl": strings.Repeat("\n", 3<<20)})
	soon(t, func() { wantText(t, loadErrors(t, opts), "brackets, line ends and other punctuation characters") })
}

// Each text nests without limit in its own way. Parsing or evaluating any of them would overflow the stack, which
// kills the process.
func TestDeepNestingIsRejected(t *testing.T) {
	const n = 3_000
	deep := map[string]string{
		"lists":         "x = " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
		"open lists":    "x = " + strings.Repeat("[", n),
		"parentheses":   "x = " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n),
		"objects":       "x = " + strings.Repeat("{a=", n) + "1" + strings.Repeat("}", n),
		"blocks":        strings.Repeat("a {\n", n) + strings.Repeat("}\n", n),
		"mixed":         "x = " + strings.Repeat("[{a=(", n),
		"not":           "x = " + strings.Repeat("!", n) + "true",
		"minus":         "x = " + strings.Repeat("-", n) + "1",
		"sums":          "x = 1" + strings.Repeat(" + 1", n),
		"and":           "x = true" + strings.Repeat(" && true", n),
		"conditions":    "x = " + strings.Repeat("true ? 1 : ", n) + "1",
		"indexes":       "x = a" + strings.Repeat("[0]", n),
		"attributes":    "x = f()" + strings.Repeat(".a", n),
		"splats":        "x = a" + strings.Repeat("[*]", n),
		"calls":         "x = " + strings.Repeat("f(", n) + strings.Repeat(")", n),
		"templates":     "x = " + strings.Repeat(`"${`, n) + strings.Repeat(`}"`, n),
		"directives":    "x = <<EOT\n" + strings.Repeat("%{ if true }", n) + strings.Repeat("%{ endif }", n) + "\nEOT\n",
		"with comments": "x = [" + strings.Repeat("[ # ]\n", n),
		"with strings":  "x = " + strings.Repeat(`["]",`, n),
		"fors":          "x = " + strings.Repeat("[for a in ", n),
	}
	for name, content := range deep {
		t.Run(name, func(t *testing.T) {
			soon(t, func() {
				wantText(t, loadErrors(t, write(t, map[string]string{"main.hcl": content})), "nested too deeply", "main.hcl")
				if _, diags := Format([]byte(content), "main.hcl"); !diags.HasErrors() {
					t.Error("formatted")
				}
			})
		})
	}
}

func TestNestingBelowTheLimitWorks(t *testing.T) {
	const n = syntax.MaxNesting - 20
	for name, content := range map[string]string{
		"lists":     "locals {\n x = " + strings.Repeat("[", n) + strings.Repeat("]", n) + "\n}",
		"sums":      "locals {\n x = 1" + strings.Repeat(" + 1", n) + "\n}",
		"templates": "locals {\n x = " + strings.Repeat(`"${`, n/2) + "1" + strings.Repeat(`}"`, n/2) + "\n}",
		"objects":   "locals {\n x = " + strings.Repeat("{a=", n) + "1" + strings.Repeat("}", n) + "\n}",
		"side by side": "locals {\n x = [" + strings.Repeat("[1 + 2, (3)], ", 5_000) + "]\n" +
			strings.Repeat("  # comment\n", 5_000) + "}\n" + strings.Repeat("label \"x\" { # c\n}\n", 1),
	} {
		t.Run(name, func(t *testing.T) {
			soon(t, func() { source(t, content) })
		})
	}
}

func TestLongChainOfLocalsIsEvaluated(t *testing.T) {
	var b strings.Builder
	b.WriteString("locals {\n a0 = 1\n")
	const n = 5_000
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, " a%d = local.a%d\n", i, i-1)
	}
	fmt.Fprintf(&b, "}\nlabel \"l\" { min_ready = local.a%d }\n", n-1)
	soon(t, func() { same(t, "min_ready", source(t, b.String()).Labels[0].MinReady, int64(1)) })
}

func TestLongReferenceCycleIsAbbreviated(t *testing.T) {
	var b strings.Builder
	b.WriteString("locals {\n")
	const n = 5_000
	for i := range n {
		fmt.Fprintf(&b, " a%d = local.a%d\n", i, (i+1)%n)
	}
	b.WriteString("}\n")
	soon(t, func() {
		got := loadErrors(t, write(t, map[string]string{"main.hcl": b.String()}))
		wantText(t, got, "… (4980 more)")
		if len(got) > 2000 {
			t.Errorf("%d bytes", len(got))
		}
	})
}

func TestExpansionIsLimited(t *testing.T) {
	for name, content := range map[string]string{
		"for_each": `
locals { many = toset([for p in setproduct(range(20), range(100)) : join("-", p)]) }
label "a" { for_each = local.many }
label "b" { for_each = local.many }
`,
		"dynamic": `
label "l" {}
provider "static" "s" {
  dynamic "pool" {
    for_each = range(100)
    labels   = ["p${pool.value}"]
    content {
      dynamic "node" {
        for_each = range(100)
        labels   = ["n${node.value}"]
        content { labels = ["l"] }
      }
    }
  }
}`,
	} {
		l := newLoader(write(t, map[string]string{"main.hcl": content}))
		l.expansion.budget = 3_000
		l.load()
		if !l.diags.HasErrors() || l.diags[0].Summary != "Too many blocks" {
			t.Errorf("%s: want too many blocks, got:\n%s", name, text(t, l.diags, l.sources.files))
		}
	}
}

// A configuration at the limits must still load quickly.
func TestMaximumExpansionIsFast(t *testing.T) {
	if raceDetector {
		t.Log("with fewer blocks, as the race detector is on")
	}
	n := map[bool]int{true: 2_000, false: maxExpansion}[raceDetector]
	opts := write(t, map[string]string{"main.hcl": sprintf(`
label "l" {
  for_each = toset([for p in setproduct(range(%d), range(100)) : join("-", p)])
}`, n/100)})
	soon(t, func() { same(t, "labels", len(load(t, opts).Desired.Labels), n) })
}

func TestGrowingValuesAreLimited(t *testing.T) {
	var doubling strings.Builder
	doubling.WriteString("locals {\n a0 = \"xxxxxxxxxxxxxxxx\"\n b0 = [1]\n")
	for i := 1; i < 60; i++ {
		fmt.Fprintf(&doubling, " a%d = \"${local.a%d}${local.a%d}\"\n b%d = [local.b%d, local.b%d]\n", i, i-1, i-1, i, i-1, i-1)
	}
	doubling.WriteString("}\n")
	for name, content := range map[string]string{
		"doubling":   doubling.String(),
		"product":    `locals { x = setproduct(range(1000), range(1000), range(1000)) }`,
		"width":      `locals { x = format("%999999999d", 1) }`,
		"precision":  `locals { x = format("%.999999999f", 1) }`,
		"replace":    `locals { x = replace(join("", [for i in range(1000) : "aaaaaaaaaa"]), "a", join("", [for i in range(1000) : "bbbbbbbbbb"])) }`,
		"exponent":   `locals { x = "${1e999999999}" }`,
		"digits":     "locals { x = " + strings.Repeat("1", 5000) + " }",
		"squares":    "locals {\n x = 1e200 * 1e200\n y = local.x * local.x\n}",
		"infinity":   `locals { x = [1 / 0] }`,
		"deep JSON":  `locals { x = jsondecode("` + strings.Repeat("[", 100_000) + `") }`,
		"deep YAML":  `locals { x = yamldecode("` + strings.Repeat("[", 100_000) + `") }`,
		"YAML lists": `locals { x = yamldecode("` + strings.Repeat("- ", 100_000) + `a") }`,
		"YAML bomb": `locals { x = yamldecode(<<EOT
a0: &a0 [x, x, x, x, x, x, x, x, x, x]
` + bomb(9) + `
EOT
) }`,
	} {
		t.Run(name, func(t *testing.T) {
			soon(t, func() { loadErrors(t, write(t, map[string]string{"main.hcl": content})) })
		})
	}
}

func bomb(n int) string {
	var lines []string
	for i := 1; i <= n; i++ {
		lines = append(lines, fmt.Sprintf("a%d: &a%d [%s]", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), ",")))
	}
	return strings.Join(lines, "\n")
}

func TestFilesReadByFunctionsAreLimited(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": `
locals {
  a = file("big.txt")
  b = templatefile("self.tpl", {})
  c = file("sub")
  d = templatefile("deep.tpl", {})
  e = file("binary")
  f = templatefile("vars.tpl", { a = 1 })
}`, "big.txt": strings.Repeat("x", maxFileBytes+1), "self.tpl": `${templatefile("self.tpl", {})}`, "sub/x": "",
		"deep.tpl": strings.Repeat("${[", 100_000), "binary": "\xff\xfe", "vars.tpl": "${a}${b}"})
	got := loadErrors(t, opts)
	wantText(t, got, "more than the limit of 1.0 MiB", `no function named "templatefile"`, "is not a regular file",
		"are nested more than 1000 levels deep", "use filebase64", `the template uses the variable "b"`)
}

func TestManyDiagnosticsAreWrittenFast(t *testing.T) {
	var b strings.Builder
	for i := range 2_000 {
		fmt.Fprintf(&b, "label \"l%d\" { min_redy = %d }\n", i, i)
	}
	opts := write(t, map[string]string{"main.hcl": b.String()})
	soon(t, func() {
		got := loadErrors(t, opts)
		same(t, "errors", strings.Count(got, `Did you mean "min_ready"?`), 2_000)
	})
}
