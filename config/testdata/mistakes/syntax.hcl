label "ok" {}
label "broken" {
  min_ready =
}
provider "acme" "one" {
  cloud = "x"
  pool "main" {
    label "broken2" { image = diskimage.nope }
    label "other" { flavour = "x" }
  }
