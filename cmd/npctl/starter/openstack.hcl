# Nodes in an OpenStack project, booted from an image that diskimage-builder creates on this machine.
#
# Requirements: an entry in clouds.yaml (https://docs.openstack.org/openstacksdk/latest/user/config/configuration.html),
# and diskimage-builder on this machine (apt install python3-diskimage-builder debootstrap qemu-utils kpartx sudo), run as root or with sudo.
#
#   npctl plan -var cloud=mycloud
#
# npctl reads permanent values from site.auto.vars.hcl:
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
  description = "Region; null means the region of the entry."
  type        = string
  default     = null
}

variable "flavor" {
  description = "Flavor of nodes by name; null means the smallest one with min_ram."
  type        = string
  default     = null
}

variable "min_ram" {
  description = "Minimum memory of nodes in MiB, if flavor is null."
  type        = number
  default     = 2048
}

variable "networks" {
  description = "Networks of nodes by name; null lets the cloud choose, which works if the project has one network."
  type        = list(string)
  default     = null
}

variable "security_groups" {
  description = "Security groups by name; the group default usually blocks incoming connections."
  type        = list(string)
  default     = null
}

variable "floating_ips" {
  description = "Whether nodes get a floating IP; true if their network is private."
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
  description = "Elements of diskimage-builder."
  type        = list(string)
  default     = ["debian-minimal", "vm", "cloud-init", "growroot", "openssh-server", "devuser"]
}

variable "element_paths" {
  description = "Directories with your own elements."
  type        = list(string)
  default     = []
}

variable "dib_env" {
  description = "Further DIB_* variables, such as DIB_DISTRIBUTION_MIRROR."
  type        = map(string)
  default     = {}
}

variable "authorized_keys" {
  description = "File with the SSH public keys that may log in as zuul; null means ~/.ssh/id_rsa.pub of the user that builds."
  type        = string
  default     = null
}

variable "dib_args" {
  description = "Further arguments of disk-image-create."
  type        = list(string)
  default     = []
}

variable "vendor_image" {
  description = "Name of an existing image of the cloud, with * for any text, such as ubuntu-noble-*; null means none."
  type        = string
  default     = null
}

variable "host_key_checking" {
  description = "Whether npctl waits for the SSH host keys of a node before the node is ready."
  type        = bool
  default     = true
}

locals {
  # No element or one element: the number of instances of the blocks with for_each below.
  vendor = var.vendor_image == null ? {} : { image = var.vendor_image }
}

diskimage "debian" {
  builder "dib" {
    elements      = var.elements
    element_paths = var.element_paths
    release       = "bookworm"
    env = merge(
      { DIB_DEV_USER_USERNAME = "zuul" },            # the element devuser creates the user
      { DIB_DEBIAN_SECURITY_SUBPATH = "-security" }, # Debian 12's diskimage-builder does not know it for bookworm
      var.authorized_keys == null ? {} : { DIB_DEV_USER_AUTHORIZED_KEYS = var.authorized_keys },
      var.dib_env,
    )
    extra_args = var.dib_args
  }
  rebuild_age = "24h"
  keep        = 2

  # The user by which jobs log in to nodes of the image.
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

  launch_timeout = "10m" # of one attempt
  rate           = 10    # API calls per second, to limit the load on the cloud

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

  # If several images match, npctl uses the newest.
  cloud_image "vendor" {
    for_each = local.vendor
    name     = "vendor"
    filters  = { name = each.value }
    username = "ubuntu"
  }
}
