# npctl in five minutes, without a cloud account: npctl contains the cloud below.
#
#   npctl plan       print the steps and their reasons
#   npctl apply      execute them
#   npctl plan       "No changes."
#   npctl destroy    remove all objects
#
# Then change a line, such as min_ready, and plan again.

# npctl stores all its files in one directory.
npctl {
  images_dir    = ".npctl/images"
  build_log_dir = ".npctl/logs"

  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

# Options set variables: npctl plan -var min_ready=3
variable "min_ready" {
  description = "Number of ready nodes."
  type        = number
  default     = 2

  validation {
    condition     = var.min_ready >= 0 && var.min_ready <= 10
    error_message = "The sandbox has a capacity of 10 nodes."
  }
}

# An image and its builder. The builder "exec" runs any program that writes an image file. For real images use the
# builder "dib" (diskimage-builder), see npctl init -from=openstack. This image is 16 MiB of zeros with a greeting.
diskimage "tiny" {
  builder "exec" {
    command = ["sh", "-eu", "-c", <<-EOT
      dd if=/dev/zero of="$NPCTL_OUTPUT.raw" bs=1 count=0 seek=16777216
      echo "$GREETING" | dd of="$NPCTL_OUTPUT.raw" conv=notrunc
    EOT
    ]
    env = { GREETING = "hello" } # part of the image: after a change, npctl builds and uploads it again
  }
  rebuild_age = "24h" # age at which npctl builds the image again
  keep        = 2     # the previous build is available for a rollback
}

# Jobs request nodes by their label. npctl maintains min_ready nodes of the label.
label "tiny" {
  min_ready     = var.min_ready
  max_ready_age = "8h"
}

label "lab" {}

# A provider is a cloud project. The driver "sandbox" is a cloud in a file.
provider "sandbox" "sandbox" {
  image_format = "raw"

  pool "main" {
    max_servers       = 10
    networks          = ["private"]
    host_key_checking = false # the nodes of the sandbox have no SSH server

    label "tiny" {
      image  = diskimage.tiny
      flavor = "small"
    }
  }
}

# The driver "static" registers existing machines. npctl never creates or deletes them.
provider "static" "lab" {
  pool "main" {
    node "board01.example.com" {
      labels            = ["lab"]
      host_keys         = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnC0nQ8yYq7yGkq6Yz0k9vP3pT5wE1rS2uV4xZ6aB8c"]
      slots             = 2
      host_key_checking = false # the machine does not exist; without this line npctl connects to it and checks the host key
    }
  }
}
