# The same labels in several clouds: values in locals, blocks repeated with for_each and dynamic.
#
#   npctl plan -var 'clouds={ "ca-ymq-1" = { cloud = "vexxhost", max_servers = 50 } }'

npctl {
  images_dir    = ".npctl/images"
  build_log_dir = ".npctl/logs"

  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

variable "clouds" {
  description = "Regions with the entry in clouds.yaml and the maximum number of nodes."
  type = map(object({
    cloud       = string
    region      = optional(string)
    max_servers = optional(number, 20)
    networks    = optional(list(string))
    priority    = optional(number, 100)
  }))
  default = {
    montreal  = { cloud = "vexxhost", region = "ca-ymq-1", max_servers = 50 }
    amsterdam = { cloud = "vexxhost", region = "ams1" }
    backyard  = { cloud = "backyard", networks = ["ci"], priority = 10 } # lower goes first
  }
}

locals {
  releases = {
    bookworm = { distribution = "debian-minimal", min_ready = 2 }
    noble    = { distribution = "ubuntu-minimal", min_ready = 1 }
  }

  sizes = {
    small = 2048
    large = 8192
  }

  # Every release in every size: debian-small, noble-large, …
  labels = merge([
    for release, r in local.releases : {
      for size, ram in local.sizes : "${release}-${size}" => {
        release   = release
        min_ram   = ram
        min_ready = size == "small" ? r.min_ready : 0
      }
    }
  ]...)
}

# The common attributes of all images. npctl does not build this block.
diskimage "base" {
  abstract    = true
  rebuild_age = "24h"
  username    = "zuul"

  builder "dib" {
    elements = ["vm", "simple-init", "growroot"]
  }
}

diskimage "nodes" {
  for_each = local.releases
  name     = each.key # instead of nodes-bookworm
  parent   = diskimage.base

  builder "dib" {
    elements = [each.value.distribution]
    release  = each.key
  }
}

label "all" {
  for_each  = local.labels
  name      = each.key
  min_ready = each.value.min_ready
}

provider "openstack" "region" {
  for_each = var.clouds
  name     = each.key
  cloud    = each.value.cloud
  region   = each.value.region
  priority = each.value.priority

  pool "main" {
    max_servers = each.value.max_servers
    networks    = each.value.networks

    dynamic "label" {
      for_each = local.labels
      labels   = [label.key]
      content {
        image   = diskimage.nodes[label.value.release]
        min_ram = label.value.min_ram
      }
    }
  }
}
