# A launcher for Zuul: requests, nodes and images are in Zuul's ZooKeeper, at the same paths as with Nodepool.
# See docs/state-zookeeper.md.

npctl {
  images_dir = ".npctl/images"

  state "zookeeper" {
    hosts  = var.zookeeper
    chroot = "" # the same as in Zuul's configuration

    tls {
      cert = "/etc/npctl/zookeeper/client.pem"
      key  = "/etc/npctl/zookeeper/client.key"
      ca   = "/etc/npctl/zookeeper/ca.pem"

      # verify_host_names = false # for certificates without the host name, which Nodepool and Zuul accept
    }

    # Private data of this process, such as its image files and the durations of steps. One file for each process.
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
