# Twenty providers with one definition: the module in ./cloud has the provider with its pool and labels, and this file
# has the values in which the clouds differ.
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
  description = "The clouds, by the name of the provider."
  type = map(object({
    cloud       = string
    region      = optional(string)
    max_servers = optional(number, 20)
    networks    = optional(list(string))
  }))
  default = {
    ovh-bhs1      = { cloud = "ovh", region = "BHS1" }
    ovh-bhs5      = { cloud = "ovh", region = "BHS5" }
    ovh-de1       = { cloud = "ovh", region = "DE1" }
    ovh-gra1      = { cloud = "ovh", region = "GRA1" }
    ovh-gra5      = { cloud = "ovh", region = "GRA5" }
    ovh-gra7      = { cloud = "ovh", region = "GRA7" }
    ovh-gra9      = { cloud = "ovh", region = "GRA9" }
    ovh-gra11     = { cloud = "ovh", region = "GRA11" }
    ovh-rbx       = { cloud = "ovh", region = "RBX-A" }
    ovh-sbg3      = { cloud = "ovh", region = "SBG3" }
    ovh-sbg5      = { cloud = "ovh", region = "SBG5" }
    ovh-sbg7      = { cloud = "ovh", region = "SBG7" }
    ovh-sgp1      = { cloud = "ovh", region = "SGP1" }
    ovh-syd1      = { cloud = "ovh", region = "SYD1" }
    ovh-uk1       = { cloud = "ovh", region = "UK1" }
    ovh-waw1      = { cloud = "ovh", region = "WAW1" }
    vexxhost-ams1 = { cloud = "vexxhost", region = "ams1" }
    vexxhost-ca   = { cloud = "vexxhost", region = "ca-ymq-1", max_servers = 80 }
    vexxhost-sjc1 = { cloud = "vexxhost", region = "sjc1", max_servers = 40 }
    backyard      = { cloud = "backyard", networks = ["ci"] }
  }
}

label "debian-small" {
  min_ready = 2
}

label "debian-large" {}

diskimage "debian" {
  rebuild_age = "24h"
  username    = "zuul"

  builder "dib" {
    elements = ["debian-minimal", "vm", "simple-init", "growroot"]
    release  = "bookworm"
  }
}

# The further attributes are the inputs of the module: the values of its variables.
module "cloud" {
  source   = "./cloud"
  for_each = var.clouds

  name        = each.key
  cloud       = each.value.cloud
  region      = each.value.region
  max_servers = each.value.max_servers
  networks    = each.value.networks
  image       = diskimage.debian
  min_ram     = { (label.debian-small) = 2048, (label.debian-large) = 8192 }
}

# npctl output providers
output "providers" {
  value = sort([for cloud in module.cloud : cloud.provider])
}
