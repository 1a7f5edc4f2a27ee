# Nodes in an OpenStack project, booted from an image that diskimage-builder makes here.
#
# What is needed: an entry in clouds.yaml (https://docs.openstack.org/openstacksdk/latest/user/config/configuration.html),
# and diskimage-builder on this machine (apt install python3-diskimage-builder debootstrap qemu-utils kpartx sudo), run as root or with sudo.
#
#   npctl plan -var cloud=mycloud
#
# Values that stay can be written into site.auto.vars.hcl, which is read by itself:
#   cloud    = "mycloud"
#   networks = ["private"]

npctl {
  images_dir    = ".npctl/images"
  build_log_dir = ".npctl/logs"

  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

variable "cloud" {
  description = "Name of the entry in clouds.yaml."
  type        = string
}

variable "region" {
  description = "Region; null means that of the entry."
  type        = string
  default     = null
}

variable "flavor" {
  description = "Flavor of nodes by name; null means the smallest one with min_ram."
  type        = string
  default     = null
}

variable "min_ram" {
  description = "MiB of memory that nodes have at least, when no flavor is named."
  type        = number
  default     = 2048
}

variable "networks" {
  description = "Networks of nodes by name; null lets the cloud choose, which works when the project has just one."
  type        = list(string)
  default     = null
}

variable "security_groups" {
  description = "Security groups by name; the one called default mostly lets nobody in."
  type        = list(string)
  default     = null
}

variable "floating_ips" {
  description = "Whether nodes get a floating IP: true where their network is a private one."
  type        = bool
  default     = false
}

variable "min_ready" {
  type    = number
  default = 2
}

variable "max_servers" {
  type    = number
  default = 10
}

variable "elements" {
  description = "What diskimage-builder puts into the image."
  type        = list(string)
  default     = ["debian-minimal", "vm", "cloud-init", "growroot", "openssh-server", "devuser"]
}

variable "element_paths" {
  description = "Directories with elements of your own."
  type        = list(string)
  default     = []
}

variable "dib_env" {
  description = "More DIB_* variables, such as DIB_DISTRIBUTION_MIRROR."
  type        = map(string)
  default     = {}
}

variable "authorized_keys" {
  description = "File with the SSH public keys that may log in as zuul; null means ~/.ssh/id_rsa.pub of who builds."
  type        = string
  default     = null
}

variable "dib_args" {
  description = "More arguments of disk-image-create."
  type        = list(string)
  default     = []
}

variable "vendor_image" {
  description = "An image that the cloud has already, with * for any text, such as ubuntu-noble-*; null means none."
  type        = string
  default     = null
}

variable "host_key_checking" {
  description = "Whether a node counts as ready only when its SSH server has shown its keys."
  type        = bool
  default     = true
}

locals {
  # Nothing, or one thing: blocks with for_each are repeated for each.
  vendor = var.vendor_image == null ? {} : { image = var.vendor_image }
}

diskimage "debian" {
  builder "dib" {
    elements      = var.elements
    element_paths = var.element_paths
    release       = "bookworm"
    env = merge(
      { DIB_DEV_USER_USERNAME = "zuul" },            # the element devuser makes the user
      { DIB_DEBIAN_SECURITY_SUBPATH = "-security" }, # Debian 12's diskimage-builder does not know it for bookworm
      var.authorized_keys == null ? {} : { DIB_DEV_USER_AUTHORIZED_KEYS = var.authorized_keys },
      var.dib_env,
    )
    extra_args = var.dib_args
  }
  rebuild_age = "24h"
  keep        = 2

  # How jobs get into nodes of the image.
  username = "zuul"
}

label "debian" {
  min_ready     = var.min_ready
  max_ready_age = "8h"
}

label "vendor" {
  for_each  = local.vendor
  name      = "vendor"
  min_ready = 1
}

provider "openstack" "cloud" {
  cloud  = var.cloud
  region = var.region

  launch_timeout = "10m" # for one attempt
  rate           = 10    # API calls a second, so that the cloud's other users can work too

  pool "main" {
    max_servers       = var.max_servers
    networks          = var.networks
    security_groups   = var.security_groups
    auto_floating_ip  = var.floating_ips
    host_key_checking = var.host_key_checking

    label "debian" {
      image   = diskimage.debian
      flavor  = var.flavor
      min_ram = var.flavor == null ? var.min_ram : null
    }

    label "vendor" {
      for_each = local.vendor
      name     = "vendor"
      image    = cloud_image.vendor["image"]
      flavor   = var.flavor
      min_ram  = var.flavor == null ? var.min_ram : null
    }
  }

  # The newest of the images that match.
  cloud_image "vendor" {
    for_each = local.vendor
    name     = "vendor"
    filters  = { name = each.value }
    username = "ubuntu"
  }
}
