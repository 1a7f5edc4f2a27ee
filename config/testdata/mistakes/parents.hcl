diskimage "base" {
  abstract = true
  builder "dib" { elements = ["vm"] }
}
diskimage "a" { parent = diskimage.b }
diskimage "b" { parent = diskimage.c }
diskimage "c" { parent = diskimage.a }
diskimage "own" { parent = diskimage.own }
diskimage "text" { parent = "base" }
diskimage "zuul" {
  parent = zuul_image.z
  builder "zuul" {}
}
zuul_image "z" {
  api_url       = "zuul.example.com"
  project       = "p"
  pipelines     = []
  job           = "j"
  token         = "hunter2"
  token_file    = "/x"
  artifact "qcow3" {}
}
label "l" {}
provider "acme" "one" {
  cloud = "x"
  pool "main" {
    label "l" { image = diskimage.base }
  }
  image "base" {}
  image "bse" {}
}
