npctl {
  image_dir = "images"
  state "blot" {}
}
diskimag "a" {}
label "small" {
  min-ready = 2
}
diskimage "debian" {
  builder "dip" {}
}
provider "acmee" "one" {}
provider "acme" "two" {
  cloud = "x"
  reigon = "y"
  pol "main" {}
  pool "main" {
    max_server = 3
    label "smal" {
      image = diskimage.debain
      flavour = "m1"
      size    = "meduim"
    }
    label "small" {
      image = "debian"
      flavor {}
      volume = 3
    }
  }
}
pool "lost" {}
image_dir = "x"
dynamic "label" {}
