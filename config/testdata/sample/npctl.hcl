npctl {
  required_version = ">= 0.1"
  images_dir       = "images"
  state "bolt" { path = "npctl.db" }
}

variable "region" { default = "ca-ymq-1" }

diskimage "debian-bookworm" {
  builder "dib" {
    elements = ["debian-minimal", "vm", "simple-init", "growroot"]
    env      = { DIB_RELEASE = "bookworm" }
  }
  formats     = ["qcow2"]
  rebuild_age = "24h"
  keep        = 2
}

zuul_image "ubuntu-focal" {
  api_url   = "https://zuul.example.com/"
  tenant    = "example"
  project   = "opendev/system-config"
  pipelines = ["periodic", "post"]
  job       = "build-ubuntu-focal-image"
  artifact "qcow2" { type = "image-qcow" }
  artifact "raw" { type = "image-raw" }
}

label "debian-small" {
  min_ready     = 2
  max_ready_age = "8h"
}

label "vendor" {}
label "static" {}

provider "acme" "vexxhost" {
  cloud          = "vexxhost"
  region         = var.region
  launch_timeout = "10m"
  pool "main" {
    max_servers = 20
    networks    = ["public"]
    label "debian-small" {
      image  = diskimage.debian-bookworm
      flavor = "v3-starter-2"
    }
    label "vendor" {
      image   = cloud_image.vendor-noble
      min_ram = 4000
    }
  }
  cloud_image "vendor-noble" {
    filters = { name = "ubuntu-noble-*" }
  }
}

provider "static" "lab" {
  pool "main" {
    node "static01.example.com" {
      labels    = ["static"]
      host_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHCGwmPUZL29s2FZWUHNmqYBlVV0hRJ8VFYs0tuKdDoc"]
    }
  }
}
