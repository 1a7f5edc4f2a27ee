locals {
  pools = ["a", "b"]
}
label "small" {
  min_ready     = "two"
  max_ready_age = 600
}
label "medium" {
  min_ready     = -2
  max_ready_age = "8 hours"
}
label "large" {
  min_ready = 1.5
}
diskimage "debian" {
  builder "dib" {
    env = { A = null }
  }
  formats = "qcow2"
  keep    = 0
}
diskimage "other" {
  builder "dib" { elements = ["a"] }
  builder "dib" { elements = ["b"] }
  formats = ["qcow3", "raw"]
}
diskimage "third" {}
provider "acme" {}
provider "acme" "a" "b" {}
provider "acme" "one" {
  cloud             = "x"
  image_name_format = "{image_name}-{date}"
  rate              = -1
  post_upload_hook  = "hooks/none.sh"
  node_launched_hook = ["hooks/none.sh", "add"]
  node_ready_hook = ["", "x"]
  node_deleted_hook = "hooks/none.sh"
  pool "main" {
    for_each    = local.pools
    max_servers = 1
  }
  pool "plain" {
    label "small" {
      for_each = null
    }
    label "medium" {
      image   = diskimage.debian
      min_ram = 0
      volume {}
    }
    label "large" {}
    node "x" { labels = ["small"] }
  }
  cloud_image "noble" {
    image_id = "1"
    filters  = { a = "b" }
  }
}
provider "static" "lab" {
  pool "main" {
    label "small" {}
    node "one two" { labels = [] }
    node "ok" {
      labels          = ["small"]
      host_keys       = ["nonsense"]
      connection_port = 70000
      connection_type = "shh"
    }
  }
  image "debian" {}
  cloud_image "x" {}
}
