# npctl in five minutes, without an account anywhere: the cloud below lives inside npctl.
#
#   npctl plan       what would be done, and why
#   npctl apply      do it
#   npctl plan       "No changes."
#   npctl destroy    remove everything again
#
# Then change a line, say min_ready, and plan again.

# Everything that npctl keeps here goes into one directory; remove it and nothing is left.
npctl {
  images_dir    = ".npctl/images"
  build_log_dir = ".npctl/logs"

  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

# Variables can be given from outside: npctl plan -var min_ready=3
variable "min_ready" {
  description = "How many nodes wait for jobs."
  type        = number
  default     = 2

  validation {
    condition     = var.min_ready >= 0 && var.min_ready <= 10
    error_message = "The sandbox has room for 0 to 10 nodes."
  }
}

# An image, and how it is made. Any program will do that leaves an image file; real images are made with the builder
# "dib" (diskimage-builder), see npctl init -from=openstack. This one is 16 MiB of nothing with a greeting, made by plain sh.
diskimage "tiny" {
  builder "exec" {
    command = ["sh", "-eu", "-c", <<-EOT
      dd if=/dev/zero of="$NPCTL_OUTPUT.raw" bs=1 count=0 seek=16777216
      echo "$GREETING" | dd of="$NPCTL_OUTPUT.raw" conv=notrunc
    EOT
    ]
    env = { GREETING = "hello" } # baked in: change it, and the plan builds and uploads the image anew
  }
  rebuild_age = "24h" # what is older is built anew
  keep        = 2     # so that one can go back
}

# A label is what jobs ask for. npctl keeps min_ready nodes of it ready in advance.
label "tiny" {
  min_ready     = var.min_ready
  max_ready_age = "8h"
}

label "lab" {}

# A provider is an account in a cloud. The kind "sandbox" is a pretend OpenStack in a file.
provider "sandbox" "sandbox" {
  image_format = "raw"

  pool "main" {
    max_servers       = 10
    networks          = ["private"]
    host_key_checking = false # nothing is really started, so there is no SSH server that could show keys

    label "tiny" {
      image  = diskimage.tiny
      flavor = "small"
    }
  }
}

# The kind "static" is machines that exist anyway: they are handed out, and never made or deleted.
provider "static" "lab" {
  pool "main" {
    node "board01.example.com" {
      labels            = ["lab"]
      host_keys         = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnC0nQ8yYq7yGkq6Yz0k9vP3pT5wE1rS2uV4xZ6aB8c"]
      slots             = 2
      host_key_checking = false # there is no such machine; without this line npctl looks whether it answers and shows the key
    }
  }
}
