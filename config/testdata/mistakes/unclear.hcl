# Mistakes whose message must name the cause.

variable "b" { default = 1 }
variable "a" { default = "${var.b} and ${local.c}" }

locals {
  c = file("nope")
  d = uper("text")
}

label "old" { max_ready_age = "999999999999h" }
label "older" { max_ready_age = "8x" }
label "weeks" { max_ready_age = "8w" }
label "日本語" {}
label "größe" {}

provider "acme" "one" {
  cloud = "c"
  pool "main" {
    label "old" {
      image = "x"
    }
  }
}

locals {
  shell = "echo ${HOME} >$NPCTL_OUTPUT.raw"
}
