diskimage "unused" {
  builder "dib" { elements = ["x"] }
}
diskimage "used" {
  builder "dib" { elements = ["x"] }
}
label "nowhere" {}
label "crowded" { min_ready = 30 }
label "emptying" { min_ready = 1 }
provider "acme" "empty" { cloud = "x" }
provider "acme" "one" {
  cloud            = "x"
  post_upload_hook = "/nonexistent/hook"
  pool "a" {
    max_servers = 10
    label "crowded" { image = diskimage.used }
  }
  pool "b" {
    max_servers = 5
    label "crowded" { image = diskimage.used }
  }
  pool "c" {}
  pool "d" {
    max_servers = 0
    label "emptying" { image = diskimage.used }
  }
  cloud_image "unused" {}
}

label "board" {}
provider "static" "lab" {
  pool "main" {
    node "Board01.example.com." { labels = ["board"] }
    node "one" {
      labels  = ["board"]
      address = "192.0.2.7"
    }
    node "other-port" {
      labels          = ["board"]
      address         = "192.0.2.7"
      connection_port = 2222
    }
  }
}
provider "static" "rack" {
  pool "main" {
    node "board01.example.com" { labels = ["board"] }
    node "same" {
      labels  = ["board"]
      address = "::ffff:192.0.2.7"
    }
  }
}
