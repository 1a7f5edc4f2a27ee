locals {
  a = local.b
  b = local.c
  c = "${local.a}x"
  d = local.d
  e = vra.x
  f = var.regoin
  g = upcase("x")
  h = each.key
  i = jsondecode("{")
  j = cloud_image.x
  k = uper("x")
}
variable "region" {}
variable "zone" {
  type = strin
}
variable "count" {
  type    = number
  default = "x"
}
variable "checked" {
  default = "abc"
  validation {
    condition     = length(var.checked) > 5
    error_message = "The value must be longer than five characters."
  }
  validation {
    condition     = var.checked != "abd"
    error_message = "Unreached."
  }
}
diskimage "many" {
  for_each = toset(["bookworm", "trixie"])
  builder "dib" {
    elements = ["debian-minimal"]
    release  = each.key
  }
}
diskimage "many-trixie" {
  builder "dib" { elements = ["x"] }
}
label "l" {}
label "l2" {}
label "l3" {}
label "l4" {}
provider "acme" "one" {
  cloud = "x"
  pool "main" {
    label "l" { image = diskimage.many }
    label "l2" { image = diskimage.many["trixi"] }
    label "l3" { image = diskimage.many-trixie }
    label "l4" { image = many-trixie }
    label "l4" { image = { type = "diskimage", name = "many-trixie" } }
  }
}
