package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

const secret = "hunter2-Hunter2"

// shownAnywhere returns everything that a user, a log or a plan file could show of a Load.
func shownAnywhere(t *testing.T, opts Options) string {
	t.Helper()
	result, diags := Load(opts)
	var b strings.Builder
	b.WriteString(text(t, diags, result.Files))
	WriteDiagnostics(&b, diags, result.Files, true, 60)
	raw, err := json.Marshal(JSON(diags, result.Files))
	if err != nil {
		t.Fatal(err)
	}
	b.Write(raw)
	fmt.Fprintf(&b, "%v", result.Variables)
	for _, image := range result.Desired.Images {
		fmt.Fprint(&b, image.Static)
	}
	for _, p := range result.Desired.Providers {
		for _, pool := range p.Pools {
			for _, offer := range pool.Offers {
				fmt.Fprint(&b, offer.Static)
			}
			for _, node := range pool.Nodes {
				fmt.Fprint(&b, node.Static)
			}
		}
	}
	for name, file := range result.Files {
		if !strings.HasSuffix(name, "main.hcl") {
			b.Write(file.Bytes)
		}
	}
	return b.String()
}

// Each expression fails over a secret in a different way. No diagnostic may contain the secret, in any spelling.
func TestDiagnosticsDoNotContainSecrets(t *testing.T) {
	expressions := []string{
		`parseint(var.secret, 10)`, `jsondecode(var.secret)`, `yamldecode("{${var.secret}")`, `tonumber(var.secret)`,
		`regex("x(", var.secret)`, `regex(var.secret, "x")`, `formatdate("x", var.secret)`, `timeadd(var.secret, "1h")`,
		`{ for x in [var.secret, var.secret] : x => 1 }`, `var.secret.nope`, `var.secret[0]`, `[1, 2][var.secret]`,
		`{ a = 1 }[var.secret]`, `var.secret + 1`, `!var.secret`, `var.secret ? 1 : 2`, `file(var.secret)`,
		`templatefile(var.secret, {})`, `env(var.secret)`, `lookup({}, var.secret)`, `base64decode(var.secret)`,
		`csvdecode("a,b\n${var.secret}")`, `formatlist("%d", [var.secret])`, `format("%d", var.secret)`,
		`parseint(upper(sensitive(env("TOKEN"))), 10)`, `parseint(local.derived, 10)`, `parseint(var.object.password, 10)`,
		`var.object.nope`, `index(["a"], var.secret)`, `chunklist([1], var.secret)`, `replace("x", "/${var.secret}(/", "")`,
		`fileset(var.secret, "[")`, `setproduct(var.secret)`, `one([var.secret, var.secret])`, `sum([var.secret])`,
		`"${[var.secret]}"`, `var.secret...`, `parseint(each.value, 10)`, `cidr(var.secret)`, `cidrhost(var.secret, 1)`, `cidrsubnets(var.secret, 1)`, `max(var.secret)`,
	}
	for _, expression := range expressions {
		opts := write(t, map[string]string{"main.hcl": fmt.Sprintf(`
variable "secret" { sensitive = true }
variable "object" {
  type      = object({ password = string })
  sensitive = true
}
locals {
  derived = "x-${lower(var.secret)}"
  fails   = %s
}
label "l" { name = local.fails }
`, expression)})
		opts.Vars = []string{"secret=" + secret, `object={ password = "` + secret + `" }`}
		opts.LookupEnv = environment(map[string]string{"TOKEN": secret})
		got := shownAnywhere(t, opts)
		if strings.Contains(strings.ToLower(got), strings.ToLower(secret)) {
			t.Errorf("%s shows the secret:\n%s", expression, got)
		}
		if !strings.Contains(got, "Error") {
			t.Errorf("%s: no error:\n%s", expression, got)
		}
	}
}

func TestSensitiveAttributesAreMaskedInSourceLines(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": `
variable "v" {
  sensitive = true
  type      = number
  default   = "` + secret + `"
}
provider "acme" "p" {
  password = ["` + secret + `"]
  nope     = "x"
}
provider "acme" "q" { password = "${"` + secret + `"}` + secret + `" }
provider "acme" "r" { password = nope("` + secret + `") }
diskimage "d" {
  builder "dib" { env = { A = "` + secret + `", "B" = null } }
}
zuul_image "z" { token = [<<-EOT
  ` + secret + `
  EOT
  ] }
`, "x.vars.hcl": `v = "` + secret + `"` + "\n"})
	opts.VarFiles = []string{opts.Path + "/x.vars.hcl"}
	got := shownAnywhere(t, opts)
	if strings.Contains(got, secret) {
		t.Errorf("the secret is shown:\n%s", got)
	}
	wantText(t, got, `password = ["***************"]`, `x.vars.hcl line 1`)
}

func TestSensitiveValuesReachDriversAndAreMaskedElsewhere(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": `
variable "secret" { sensitive = true }
diskimage "debian" {
  builder "dib" {
    elements = ["vm", "e-${var.secret}"]
    env      = { A = var.secret }
  }
}
label "small" {}
provider "acme" "one" {
  cloud    = "x"
  password = var.secret
  pool "main" {
    label "small" {
      image     = diskimage.debian
      user_data = "x: ${var.secret}"
      networks  = ["a", var.secret]
      volume {
        size = 3
        key  = "` + secret + `"
      }
    }
  }
}
`})
	opts.Vars = []string{"secret=" + secret}
	d := load(t, opts).Desired
	p := d.Providers[0]
	same(t, "password", p.Config.GetAttr("password").AsString(), secret)
	offer := p.Pools[0].Offers[0]
	same(t, "user data", offer.Config.GetAttr("user_data").AsString(), "x: "+secret)
	same(t, "masked", []string{offer.Static["user_data"], offer.Static["networks"], offer.Static["volume"]}, []string{masked, masked, masked})
	same(t, "masked", []string{d.Images[0].Static["elements"], d.Images[0].Static["env"]}, []string{masked, masked})
	if p.Config.ContainsMarked() || offer.Config.ContainsMarked() || d.Images[0].Config.ContainsMarked() {
		t.Error("a value that drivers or builders get has marks")
	}
	if got := shownAnywhere(t, opts); strings.Contains(got, secret) {
		t.Errorf("the secret is shown:\n%s", got)
	}
	opts.Vars = []string{"secret=other"}
	other := load(t, opts).Desired
	keyed, otherKeyed := d.WithHashKey("key"), other.WithHashKey("key")
	if otherKeyed.Digests.Same(keyed.Digests.Current()) || otherKeyed.Images[0].Hashes.Match(keyed.Images[0].Hashes.Current()) {
		t.Error("another secret makes the same digest or hash")
	}
}

func TestSensitiveValuesAreRejectedInPlainTextAttributes(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": `
variable "secret" {
  default   = "x"
  sensitive = true
}
label "l" {}
provider "acme" "one" {
  cloud = var.secret
  pool "main" {
    node_attributes = { a = var.secret }
    label "l" { image = cloud_image.x }
  }
  cloud_image "x" { username = var.secret }
}
provider "acme" "two" {
  cloud = nonsensitive(var.secret)
}
`})
	got := loadErrors(t, opts)
	if n := strings.Count(got, "Sensitive value"); n != 3 {
		t.Errorf("want 3 errors, got %d:\n%s", n, got)
	}
}
