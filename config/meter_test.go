package config

import (
	"strings"
	"testing"
)

// endless are short expressions that would run for hours or use all memory.
var endless = map[string]string{
	"nested for":         `locals { x = join("", [for i in range(1000): join("", [for j in range(1000): join("", [for k in range(200): "x"])])]) }`,
	"with a condition":   `locals { x = [for i in range(1000): [for j in range(1000): [for k in range(1000): k if k < 0]]] }`,
	"making an object":   `locals { x = {for i in range(1000): i => {for j in range(1000): j => 1}} }`,
	"in try":             `locals { x = [for i in range(1000): try([for j in range(1000): j], 1)] }`,
	"in can":             `locals { x = [for i in range(1000): can([for j in range(1000): j])] }`,
	"in a directive":     "locals {\n x = <<EOT\n%{ for i in range(1000) }%{ for j in range(1000) }x%{ endfor }%{ endfor }\nEOT\n}\n",
	"in a template file": `locals { x = templatefile("loop.tpl", {}) }`,
	"over locals":        "locals {\n many = range(1000)\n x = [for i in local.many: length([for j in local.many: [for k in local.many: j]])]\n}\n",
	"large values":       `locals { x = [for i in range(1000): length(join("", [for j in range(1000): join("", [for k in range(400): "xxxxxxxxxxxxxxxxxxxx"])]))] }`,
	"as a default":       `variable "x" { default = [for i in range(1000): [for j in range(1000): j]] }`,
	"distinct":           `locals { x = length(distinct(flatten([for i in range(400): [for j in range(1000): "${i}-${j}"]]))) }`,
	"indent":             `locals { x = indent(1000000000, "a\na") }`,
	"join":               `locals { x = join(join("", [for i in range(1000): "xxxxxxxxxxxxxxxxxxxxxxxxx"]), range(1000)) }`,
}

const loop = `%{ for i in range(1000) }%{ for j in range(1000) }x%{ endfor }%{ endfor }`

func TestEvaluationIsLimited(t *testing.T) {
	for name, content := range endless {
		t.Run(name, func(t *testing.T) {
			l := newLoader(write(t, map[string]string{"main.hcl": content, "loop.tpl": loop}))
			l.sources.meter.elements, l.sources.meter.bytes = maxElements/10, maxMadeBytes/10 // takes less time and has the same result
			soon(t, func() { l.load() })
			if got := text(t, l.diags, l.sources.files); strings.Count(got, "Error: ") != 1 {
				t.Errorf("not one error:\n%s", got)
			}
		})
	}
}

func TestMaximumEvaluationIsFast(t *testing.T) {
	soon(t, func() {
		wantText(t, loadErrors(t, write(t, map[string]string{"main.hcl": `locals { x = [for i in range(1000): [for j in range(1000): j]] }`})), "more than 500000 elements")
	})
}

func TestEvaluationOfGivenValuesIsLimited(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": `variable "x" { type = list(any) }`})
	opts.Vars = []string{"x=[for i in [for i in [1, 2]: i]: i]"}
	load(t, opts)
	l := newLoader(opts)
	l.sources.meter.elements = 3
	l.load()
	wantText(t, text(t, l.diags, l.sources.files), "Evaluation ended", "more than 500000 elements")
}

func TestBytesOfForExpressionsAreLimited(t *testing.T) {
	l := newLoader(write(t, map[string]string{"main.hcl": `locals { x = [for i in range(100): join("", [for j in range(100): "xxxxxxxxxx"])] }`}))
	l.sources.meter.bytes = 50_000
	l.load()
	wantText(t, text(t, l.diags, l.sources.files), "produce more than 256.0 MiB of values")
}

func TestEvaluationHasATimeLimit(t *testing.T) {
	l := newLoader(write(t, map[string]string{"main.hcl": `locals { x = [for i in range(100): i] }`}))
	l.sources.meter.left = -1
	l.load()
	wantText(t, text(t, l.diags, l.sources.files), "The evaluation took longer than 1m0s", "main.hcl")
}

func TestStopEndsTheEvaluation(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": endless["nested for"]})
	stopped := make(chan struct{})
	close(stopped)
	opts.Stopped = stopped
	wantText(t, loadErrors(t, opts), "A signal stopped the evaluation")
}

// TestReferencesInLoopsAreFound checks that meteredExpr does not hide references from HCL.
func TestReferencesInLoopsAreFound(t *testing.T) {
	d := source(t, `
variable "size" { default = 7 }
locals {
  a    = [for i in [1]: local.b]
  c    = {for i in [1]: local.name => local.b if local.yes}
  b    = var.size
  name = "n"
  yes  = true
}
label "l" { min_ready = local.a[0] }
label "m" { min_ready = local.c.n }
`)
	same(t, "min_ready", []int64{d.Labels[0].MinReady, d.Labels[1].MinReady}, []int64{7, 7})
}

func TestRealisticConfigurationStaysBelowTheLimits(t *testing.T) {
	source(t, `locals { x = length(flatten([for i in range(100): [for j in range(1000): i * j if i > j]])) }`)
}
