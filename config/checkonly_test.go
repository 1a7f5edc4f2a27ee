package config

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// check loads a configuration in CheckOnly mode, in which variables need no values.
func check(t *testing.T, content string) (*Result, hcl.Diagnostics) {
	t.Helper()
	opts := write(t, map[string]string{"main.hcl": content})
	opts.CheckOnly = true
	return Load(opts)
}

// everythingFromVariables uses a variable without a value in every attribute that permits it.
const everythingFromVariables = `
variable "text" { type = string }
variable "secret" {
  type      = string
  sensitive = true
}
variable "number" {
  type     = number
  nullable = false
  validation {
    condition     = var.number > 2
    error_message = "too few"
  }
}
variable "flag" { type = bool }
variable "list" { type = list(string) }
variable "map" { type = map(object({ name = string, more = optional(string, "x") })) }
variable "set" { type = set(string) }
variable "any" {}

locals {
  upper = upper(var.text)
  keyed = { for k, v in var.map : k => v.name }
}

npctl {
  images_dir = var.text
  dynamic "gearman" {
    for_each = var.list
    content {
      servers = var.list
    }
  }
  dynamic "state" {
    for_each = var.any
    labels   = [state.value]
    content {}
  }
  dynamic "tenant_limit" {
    for_each = var.map
    labels   = [tenant_limit.key]
    content {
      max_servers = tenant_limit.value.more
    }
  }
}

label "plain" { min_ready = var.number }
label "each" {
  for_each  = var.set
  min_ready = 1000
}
label "named" { name = var.text }

diskimage "base" {
  abstract = var.flag
}
diskimage "child" {
  parent      = var.any
  rebuild_age = var.text
}
diskimage "each" {
  for_each = local.keyed
  name     = "each-${each.value}"
  dynamic "builder" {
    for_each = var.list
    labels   = [var.text]
    content {}
  }
}
diskimage "hosts" {
  builder "dib" {
    elements = var.list
    env      = { NAME = var.secret }
  }
}

provider "acme" "one" {
  cloud  = var.text
  region = var.any.region
  dynamic "pool" {
    for_each = var.map
    labels   = [pool.key]
    content {
      label "plain" {
        image  = diskimage.each["x"]
        flavor = var.text
      }
    }
  }
  pool "main" {
    for_each    = var.set
    max_servers = var.number
    label "plain" {
      image  = var.flag ? diskimage.hosts : diskimage.each[var.text]
      flavor = each.key
    }
    label "nowhere" {
      for_each = var.map
      name     = each.value.name
      image    = cloud_image.found[each.key]
      flavor   = "x"
    }
  }
  cloud_image "found" {
    for_each   = var.map
    image_id   = var.text
    image_name = each.value.more
  }
  image "each" {
    for_each = var.set
    tags     = var.list
  }
}
`

func TestCheckOnlyAcceptsUnsetVariables(t *testing.T) {
	content := everythingFromVariables
	result, diags := check(t, content)
	if len(diags) > 0 {
		t.Fatalf("found:\n%s", text(t, diags, result.Files))
	}
	same(t, "variables without values", result.Unset, []string{"any", "flag", "list", "map", "number", "secret", "set", "text"})
	if d := result.Desired; len(d.Images)+len(d.Providers)+len(d.Labels) > 0 {
		t.Errorf("the desired state has holes: %+v", d)
	}
	opts := write(t, map[string]string{"main.hcl": content})
	wantText(t, loadErrors(t, opts), `The variable "any" has no default`)
}

// CheckOnly still reports invalid values and names, also in blocks with an unknown for_each.
func TestCheckOnlyReportsOtherErrors(t *testing.T) {
	for mistake, want := range map[string]string{
		`label "a" { min_redy = var.n }`: `Did you mean "min_ready"?`,
		`label "a" {
  for_each = var.s
  min_redy = 1
}`: `Did you mean "min_ready"?`,
		`label "a" { for_each = var.n }`:                   "A for_each is a map, an object or a set of strings; this is a number.",
		`label "a" { min_ready = var.s }`:                  "number required",
		`label "a" { min_ready = var.nn }`:                 `There is no variable named "nn"`,
		`diskimage "a" { keep = var.n }`:                   "needs a builder block",
		`label "a" { min_ready = var.o.other }`:            "This object does not have an attribute named \"other\"",
		`label "a" { max_ready_age = "${local.missing}" }`: `There is no local value named "missing"`,
		`provider "acme" "p" {
  cloud = "c"
  pool "main" {
    for_each = var.s
    label "missing" {
      image  = cloud_image.debian
      flavor = each.key
    }
  }
}`: `There is no label "missing"`,
		`provider "acme" "p" {
  cloud = "c"
  dynamic "pool" {
    for_each = var.s
    labels   = [pool.key]
    content {
      max_srvers = 1
    }
  }
}`: `Did you mean "max_servers"?`,
	} {
		t.Run("", func(t *testing.T) {
			result, diags := check(t, `
variable "n" { type = number }
variable "s" { type = set(string) }
variable "o" { type = object({ a = string }) }
`+mistake)
			if !diags.HasErrors() {
				t.Fatalf("no error in\n%s", mistake)
			}
			wantText(t, text(t, diags, result.Files), want)
		})
	}
}

// CheckOnly checks the values that are set.
func TestCheckOnlyChecksGivenValues(t *testing.T) {
	opts := write(t, map[string]string{"main.hcl": `
variable "a" { type = number }
variable "b" { type = number }
label "x" { min_ready = var.a }
label "y" { min_ready = var.b }`})
	opts.CheckOnly, opts.Vars = true, []string{"a=1.5"}
	wantText(t, loadErrors(t, opts), "1.5 is not a whole number")
}
