# Images that Zuul jobs build: npctl queries Zuul for the newest successful build of a job, downloads the files of its
# artifacts, and uploads, keeps and deletes them in the same way as its own builds.
#
#   npctl plan -var cloud=mycloud

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

variable "zuul" {
  description = "Base address of Zuul."
  type        = string
  default     = "https://zuul.example.com/"
}

zuul_image "ubuntu-focal" {
  api_url   = var.zuul
  tenant    = "example"
  project   = "opendev/system-config"
  pipelines = ["periodic", "post"]
  job       = "build-ubuntu-focal-image"

  # The artifact of each format. npctl downloads only the formats that a provider needs.
  artifact "qcow2" {
    type = "image-qcow"
  }
  artifact "raw" {
    type = "image-raw"
  }

  keep = 2
}

label "ubuntu-focal" {
  min_ready = 1
}

provider "openstack" "cloud" {
  cloud = var.cloud

  pool "main" {
    max_servers = 10

    label "ubuntu-focal" {
      image   = zuul_image.ubuntu-focal
      min_ram = 2048
    }
  }

  # Settings for this image in this cloud only.
  image "ubuntu-focal" {
    properties = { hw_disk_bus = "scsi", hw_scsi_model = "virtio-scsi" }
  }
}
