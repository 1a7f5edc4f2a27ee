# Nodes in a VPC of IBM Cloud, booted from an image that IBM publishes.
#
# Requirements: an API key in VPC_APIKEY, or a credentials file that IBM_CREDENTIALS_FILE names; a VPC with a subnet; an SSH
# key of the region; and a security group that permits SSH from npctl and from the jobs. `ibmcloud is vpcs` and `ibmcloud is
# keys` list the names.
#
#   export VPC_APIKEY=...
#   npctl plan -var vpc=ci -var key=ci
#
# npctl reads permanent values from site.auto.vars.hcl:
#   region          = "us-east"
#   vpc             = "ci"
#   key             = "ci"
#   security_groups = ["ssh"]

npctl {
  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

variable "region" {
  description = "Region of the VPC."
  type        = string
  default     = "eu-de"
}

variable "vpc" {
  description = "Name of the VPC."
  type        = string
}

variable "key" {
  description = "Name of the SSH key by which jobs log in."
  type        = string
}

variable "profiles" {
  description = "Instance profiles in order of preference: npctl uses the next one when the zone has no capacity."
  type        = list(string)
  default     = ["cx2-2x4", "bx2-2x8"]
}

variable "subnets" {
  description = "Subnets, the first one in the zone of a node; null means all subnets of the VPC."
  type        = list(string)
  default     = null
}

variable "security_groups" {
  description = "Security groups; null means the default group of the VPC, which usually blocks SSH."
  type        = list(string)
  default     = null
}

variable "public_ipv4" {
  description = "Whether nodes have a floating IP; npctl and the jobs have to reach the subnets otherwise."
  type        = bool
  default     = true
}

variable "image" {
  description = "Name of the image, with * for any text."
  type        = string
  default     = "ibm-debian-12-*-minimal-amd64-*"
}

variable "username" {
  description = "User by which jobs log in to nodes of the image."
  type        = string
  default     = "root"
}

variable "min_ready" {
  type    = number
  default = 1
}

variable "max_servers" {
  type    = number
  default = 10
}

variable "host_key_checking" {
  description = "Whether npctl waits for the SSH host keys of a node before the node is ready."
  type        = bool
  default     = true
}

label "debian" {
  min_ready     = var.min_ready
  max_ready_age = "8h"
}

provider "ibmvpc" "cloud" {
  region = var.region
  vpc    = var.vpc

  launch_timeout = "10m" # of one attempt
  rate           = 5     # calls per second

  cloud_image "debian" {
    filters = {
      name       = var.image
      owner_type = "provider"
    }
    username = var.username
  }

  pool "main" {
    max_servers       = var.max_servers
    keys              = [var.key]
    subnets           = var.subnets
    security_groups   = var.security_groups
    public_ipv4       = var.public_ipv4
    host_key_checking = var.host_key_checking

    label "debian" {
      image    = cloud_image.debian
      profiles = var.profiles
      tags     = { purpose = "ci" }
    }
  }
}
