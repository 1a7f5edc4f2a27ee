# Nodes in one resource group of an Azure subscription, booted from an image of the marketplace.
#
# Requirements: credentials as for the az command (`az login`, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET)
# with the role Contributor of the resource group, the resource group, and in it a virtual network whose subnet has a
# security group that permits SSH from npctl and from the jobs. `az account show` shows whether the credentials work, and
# the ID of the subscription.
#
#   npctl plan -var resource_group=ci -var network=ci -var ssh_public_key="$(cat ~/.ssh/id_ed25519.pub)"
#
# npctl reads permanent values from site.auto.vars.hcl:
#   subscription_id = "00000000-0000-0000-0000-000000000000"
#   resource_group  = "ci"
#   network         = "ci"

npctl {
  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

variable "subscription_id" {
  description = "ID of the subscription; null means AZURE_SUBSCRIPTION_ID."
  type        = string
  default     = null
}

variable "endpoint" {
  description = "URL of another Azure Resource Manager; null means public Azure."
  type        = string
  default     = null
}

variable "resource_group" {
  description = "Resource group of the nodes."
  type        = string
}

variable "network" {
  description = "Virtual network in the resource group, with a subnet called default."
  type        = string
}

variable "ssh_public_key" {
  description = "Public key of the user by which jobs log in."
  type        = string
}

variable "vm_sizes" {
  description = "Sizes in order of preference: npctl uses the next one when Azure has no capacity."
  type        = list(string)
  default     = ["Standard_D2s_v5", "Standard_D2as_v5", "Standard_D2s_v4"]
}

variable "image" {
  description = "Image as PUBLISHER:OFFER:SKU:VERSION; `az vm image list --publisher Debian --all` lists some."
  type        = string
  default     = "Debian:debian-12:12-gen2:latest"
}

variable "spot" {
  description = "Whether nodes are spot machines."
  type        = bool
  default     = false
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

provider "azure" "cloud" {
  subscription_id = var.subscription_id
  resource_group  = var.resource_group
  endpoint        = var.endpoint

  launch_timeout = "15m" # of one attempt
  rate           = 10    # calls per second

  cloud_image "debian" {
    image_id = var.image
    username = "zuul"
  }

  pool "main" {
    max_servers       = var.max_servers
    network           = var.network
    ssh_public_key    = var.ssh_public_key
    host_key_checking = var.host_key_checking

    label "debian" {
      image       = cloud_image.debian
      vm_sizes    = var.vm_sizes
      market_type = var.spot ? "spot" : "on-demand"
      tags        = { purpose = "ci" }
    }
  }
}
