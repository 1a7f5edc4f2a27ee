# Several jobs share a node of another provider: label "job" has slots on nodes with label "host". The driver "sandbox"
# simulates the cloud, so this example runs as it is:
#
#   npctl watch &
#   npctl request create -label=job -take
#   npctl node list

npctl {
  images_dir    = ".npctl/images"
  build_log_dir = ".npctl/logs"

  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

diskimage "tiny" {
  builder "exec" {
    command = ["sh", "-eu", "-c", "echo hello >\"$NPCTL_OUTPUT.raw\""]
  }
}

label "job" {}
label "host" {} # jobs do not request it

provider "sandbox" "cloud" {
  image_format = "raw"

  pool "main" {
    max_servers       = 5
    networks          = ["private"]
    host_key_checking = false # the nodes of the sandbox have no SSH server

    label "host" {
      image  = diskimage.tiny
      flavor = "large"
    }
  }
}

provider "metastatic" "slots" {
  rate = 0 # nothing here calls a cloud

  pool "main" {
    max_servers     = 8 # slots
    node_attributes = { shared = "yes" }

    label "job" {
      backing_label      = "host"
      max_parallel_jobs  = 2
      grace_time         = "10m"
      min_retention_time = "1h" # the cloud charges for an hour
      max_age            = "24h"
    }
  }
}
