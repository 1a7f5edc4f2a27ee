# Nodes in one region of an AWS account, booted from an AMI that AWS or another vendor publishes.
#
# Requirements: credentials as for the aws command (https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html),
# a key pair, and a security group that permits SSH from npctl and from the jobs. `aws sts get-caller-identity` shows
# whether the credentials work.
#
#   npctl plan -var key_name=ci
#
# npctl reads permanent values from site.auto.vars.hcl:
#   region             = "eu-central-1"
#   key_name           = "ci"
#   security_group_ids = ["sg-0123456789abcdef0"]
#   prices             = { "t3.small" = 0.024, "t3a.small" = 0.0216, "t2.small" = 0.0268 }

npctl {
  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

variable "region" {
  description = "Region; null means that of the profile or of AWS_REGION."
  type        = string
  default     = null
}

variable "profile" {
  description = "Profile of ~/.aws/config; null means AWS_PROFILE, or the environment."
  type        = string
  default     = null
}

variable "key_name" {
  description = "EC2 key pair of the nodes."
  type        = string
}

variable "instance_types" {
  description = "Instance types in order of preference: npctl uses the next one when EC2 has no capacity."
  type        = list(string)
  default     = ["t3.small", "t3a.small", "t2.small"]
}

variable "prices" {
  description = "Price of one hour in USD by instance type, for the cost in plans; null means none."
  type        = map(number)
  default     = null
}

variable "security_group_ids" {
  description = "Security groups; null means the default group, which usually blocks SSH."
  type        = list(string)
  default     = null
}

variable "subnet_ids" {
  description = "Subnets, the first one in the zone of a node; null means the default subnets."
  type        = list(string)
  default     = null
}

variable "image" {
  description = "Name of the AMI, with * for any text."
  type        = string
  default     = "debian-12-amd64-*"
}

variable "image_owner" {
  description = "Account that publishes the AMI: 136693071363 is Debian."
  type        = string
  default     = "136693071363"
}

variable "username" {
  description = "User by which jobs log in to nodes of the AMI."
  type        = string
  default     = "admin"
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

provider "aws" "cloud" {
  region  = var.region
  profile = var.profile

  launch_timeout = "10m" # of one attempt
  rate           = 10    # calls per second
  prices         = var.prices
  currency       = "USD"

  cloud_image "debian" {
    filters = {
      name  = var.image
      owner = var.image_owner
    }
    username = var.username
  }

  pool "main" {
    max_servers        = var.max_servers
    key_name           = var.key_name
    security_group_ids = var.security_group_ids
    subnet_ids         = var.subnet_ids
    host_key_checking  = var.host_key_checking

    label "debian" {
      image          = cloud_image.debian
      instance_types = var.instance_types
      market_type    = var.spot ? "spot" : "on-demand"
      imdsv2         = "required"
      tags           = { purpose = "ci" }
    }
  }
}
