# Nodes in one region of a Google Cloud project, booted from an image that Google or another vendor publishes.
#
# Requirements: application default credentials (`gcloud auth application-default login`, or the path of the key of a service
# account in GOOGLE_APPLICATION_CREDENTIALS), the API compute.googleapis.com, and a firewall rule that permits SSH from npctl and
# from the jobs, such as the rule default-allow-ssh of the network default.
#
#   npctl plan -var project=my-project
#
# npctl reads permanent values from site.auto.vars.hcl:
#   project  = "my-project"
#   ssh_keys = ["zuul:ssh-ed25519 AAAA… zuul"]

npctl {
  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

variable "project" {
  description = "ID of the project."
  type        = string
}

variable "region" {
  type    = string
  default = "europe-west1"
}

variable "zones" {
  description = "Zones to choose from; null means all of the region."
  type        = list(string)
  default     = null
}

variable "endpoint" {
  description = "URL of the Compute Engine API; null means that of Google."
  type        = string
  default     = null
}

variable "machine_types" {
  description = "Machine types in order of preference: npctl uses the next one when a zone has no capacity."
  type        = list(string)
  default     = ["e2-medium", "n2-standard-2", "n1-standard-1"]
}

variable "network" {
  type    = string
  default = "default"
}

variable "ssh_keys" {
  description = "Public keys of jobs, each after the name of its user and a colon; null means those of the project."
  type        = list(string)
  default     = null
}

variable "image_project" {
  description = "Project that publishes the image."
  type        = string
  default     = "debian-cloud"
}

variable "image_family" {
  description = "Family of the image: npctl uses the newest one."
  type        = string
  default     = "debian-12"
}

variable "username" {
  description = "User by which jobs log in to nodes: one of ssh_keys."
  type        = string
  default     = "zuul"
}

variable "spot" {
  description = "Whether nodes are spot instances."
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

provider "gce" "cloud" {
  project  = var.project
  region   = var.region
  endpoint = var.endpoint

  launch_timeout = "10m" # of one attempt
  rate           = 10    # calls per second

  cloud_image "debian" {
    filters = {
      project = var.image_project
      family  = var.image_family
    }
    username = var.username
  }

  pool "main" {
    max_servers       = var.max_servers
    zones             = var.zones
    network           = var.network
    ssh_keys          = var.ssh_keys
    host_key_checking = var.host_key_checking

    label "debian" {
      image              = cloud_image.debian
      machine_types      = var.machine_types
      provisioning_model = var.spot ? "spot" : "standard"
      labels             = { purpose = "ci" }
    }
  }
}
