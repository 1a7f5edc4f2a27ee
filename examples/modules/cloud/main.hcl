# One provider. The name of the provider is an input, because the names of blocks are global: a plan, a request and a
# record call it provider.NAME, without the module.

variable "name" {
  type        = string
  description = "Name of the provider."
}

variable "cloud" {
  type        = string
  description = "Entry in clouds.yaml."
}

variable "region" {
  type    = string
  default = null
}

variable "max_servers" {
  type = number

  validation {
    condition     = var.max_servers <= 200
    error_message = "No project has a quota of more than 200 servers."
  }
}

variable "networks" {
  type    = list(string)
  default = null
}

variable "image" {
  type        = object({ type = string, name = string })
  description = "The image of all labels, such as diskimage.debian."
}

variable "min_ram" {
  type        = map(number)
  description = "Memory of the nodes in MiB, by label."
}

provider "openstack" "this" {
  name   = var.name
  cloud  = var.cloud
  region = var.region

  pool "main" {
    max_servers = var.max_servers
    networks    = var.networks

    label "each" {
      for_each = var.min_ram
      name     = each.key
      image    = var.image
      min_ram  = each.value
    }
  }
}

output "provider" {
  value = provider.this
}
