package config

import (
	"strings"
	"testing"
)

func TestOutputsReferToTheConfiguration(t *testing.T) {
	result := load(t, write(t, map[string]string{"main.hcl": with(nil) + `
variable "secret" {
  default   = "hunter2"
  sensitive = true
}
label "extra" {}
output "label" {
  value       = label.extra
  description = "the label"
}
output "secret" {
  value     = "x-${var.secret}"
  sensitive = true
}
check "c" {
  assert {
    condition     = output.label == "other"
    error_message = "The label is ${output.label}."
  }
  assert {
    condition     = output.label == "extra"
    error_message = "never"
  }
}
`}))
	if got := result.Outputs["label"]; ExpressionText(got.Value) != `"extra"` || got.Description != "the label" || got.Sensitive {
		t.Errorf("label: %+v", got)
	}
	if got, err := PlainText(result.Outputs["secret"].Value); err != nil || got != "x-hunter2" || !result.Outputs["secret"].Sensitive {
		t.Errorf("secret: %q %v", got, err)
	}
	if len(result.Checks) != 2 || result.Checks[0].Passed || result.Checks[0].Message != "The label is extra." || !result.Checks[1].Passed {
		t.Errorf("checks: %+v", result.Checks)
	}
	value, diags := result.Scope.Evaluate([]byte("output.label"), "x", nil)
	if diags.HasErrors() || ExpressionText(value) != `"extra"` {
		t.Errorf("scope: %v %v", value, diags)
	}
}

func TestFailedCheckIsAWarning(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": with(nil) + `
check "small" {
  assert {
    condition     = 1 > 2
    error_message = "One is not more than two."
  }
}`})
	result, diags := Load(opts)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	wantText(t, text(t, diags, result.Files), "Warning: Check failed", "check.small: One is not more than two.")
}

func TestMistakesInOutputsAndChecks(t *testing.T) {
	got := loadErrors(t, write(t, map[string]string{"main.hcl": with(nil) + `
variable "secret" {
  default   = "hunter2"
  sensitive = true
}
output "a" { value = var.secret }
output "b" {}
output "c" { value = 1 }
output "c" { value = 2 }
output "e" { valeu = 1 }
check "empty" {}
check "f" {
  assert {
    condition     = "maybe"
    error_message = "x"
  }
}
locals { x = output.c }
`}))
	wantText(t, got, "Sensitive output", `The output "b" needs the attribute value`, `There is an output "c" already, at`,
		`Did you mean "value"?`, `The check "empty" needs an assert block`, "A condition must be true or false", `There is nothing named "output" here`)
	if strings.Contains(got, "hunter2") {
		t.Errorf("a secret in:\n%s", got)
	}
}
