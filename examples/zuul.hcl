# A launcher for Zuul: requests, nodes and images live in the ZooKeeper that Zuul has, where Nodepool kept them.
# docs/state-zookeeper.md tells what is where.

npctl {
  images_dir = ".npctl/images"

  state "zookeeper" {
    hosts  = var.zookeeper
    chroot = "" # the same that Zuul has

    tls {
      cert = "/etc/npctl/zookeeper/client.pem"
      key  = "/etc/npctl/zookeeper/client.key"
      ca   = "/etc/npctl/zookeeper/ca.pem"

      # verify_host_names = false # for certificates that do not name their servers, which Nodepool and Zuul never notice
    }

    # What this process alone needs: the files of its images, how long things take. One file for each process.
    file = ".npctl/npctl.db"
  }
}

variable "zookeeper" {
  description = "Servers of the ensemble, host:port of the listener for TLS."
  default     = ["zk01.example.com:2281", "zk02.example.com:2281", "zk03.example.com:2281"]
}

variable "cloud" {
  description = "Entry of clouds.yaml."
  type        = string
}

diskimage "debian" {
  builder "dib" {
    elements = ["debian-minimal", "vm", "simple-init", "growroot"]
  }
  formats = ["qcow2"]
}

label "debian-small" {
  min_ready = 2
}

provider "openstack" "cloud" {
  cloud = var.cloud

  pool "main" {
    max_servers = 20
    networks    = ["private"]

    label "debian-small" {
      image   = diskimage.debian
      min_ram = 512
    }
  }
}
