npctl {}
npctl {}
locals { a = 1 }
locals { a = 2 }
variable "v" { default = 1 }
variable "v" { default = 2 }
label "l" {}
label "l" {}
label "l-x" {}
label "set" {
  for_each = toset(["x"])
  name     = "l-${each.key}"
}
diskimage "d" {
  builder "dib" { elements = ["x"] }
}
zuul_image "d" {
  api_url   = "https://zuul.example.com"
  project   = "p"
  pipelines = ["periodic"]
  job       = "j"
  artifact "raw" {}
  artifact "raw" {}
}
provider "acme" "p" { cloud = "x" }
provider "static" "p" {}
provider "static" "nodes" {
  pool "a" {
    node "n" { labels = ["l"] }
    node "n" { labels = ["l"] }
  }
  pool "a" {}
}
