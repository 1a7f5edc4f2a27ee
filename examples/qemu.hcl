# Nodes as virtual machines on this host: no cloud, no account, no root.
#
# Requirements: QEMU (apt install qemu-system-x86 qemu-utils), membership in the group kvm for speed, and an image with
# cloud-init, such as https://cloud.debian.org/images/cloud/bookworm/latest/debian-12-genericcloud-amd64.qcow2
#
#   npctl plan -var image=$PWD/debian-12-genericcloud-amd64.qcow2 -var ssh_key="$(cat ~/.ssh/id_ed25519.pub)"
#
# npctl reads permanent values from site.auto.vars.hcl:
#   image   = "/srv/images/debian-12-genericcloud-amd64.qcow2"
#   ssh_key = "ssh-ed25519 AAAA… me"

npctl {
  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

variable "image" {
  description = "Path of an image, qcow2 or raw. Do not change the file later: nodes read from it."
  type        = string
}

variable "ssh_key" {
  description = "SSH public key of the user zuul on the nodes."
  type        = string
}

variable "accel" {
  description = "kvm, tcg (slow emulation), or auto."
  type        = string
  default     = "auto"
}

variable "ram" {
  description = "Memory of a node in MiB."
  type        = number
  default     = 1024
}

label "vm" {
  min_ready = 1
}

provider "qemu" "here" {
  boot_timeout = "10m" # emulation is slow

  pool "main" {
    max_servers = 4

    label "vm" {
      image    = cloud_image.guest
      cores    = 1
      ram      = var.ram
      accel    = var.accel
      user     = "zuul"
      ssh_keys = [var.ssh_key]
    }
  }

  cloud_image "guest" {
    image_name = var.image
  }
}
