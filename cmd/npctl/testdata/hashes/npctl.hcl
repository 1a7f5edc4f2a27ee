# Every driver and builder, with every replacing attribute set.
label "all" {}
label "plain" {}
label "inherited" {}
label "machine" {}

diskimage "dib" {
  builder "dib" {
    elements   = ["vm", "cloud-init"]
    release    = "bookworm"
    packages   = ["git"]
    env        = { DIB_CLOUD_INIT_DATASOURCES = "OpenStack" }
    extra_args = ["--no-tmpfs"]
  }
}

diskimage "dib-plain" {
  builder "dib" {
    elements = ["vm"]
  }
}

diskimage "dib-child" {
  parent = diskimage.dib
  builder "dib" {
    elements = ["growroot"]
    env      = { DIB_RELEASE_NAME = "x" }
  }
}

diskimage "exec" {
  builder "exec" {
    command     = ["sh", "-c", "true"]
    env         = { A = "b" }
    working_dir = "work"
  }
}

diskimage "gearman" {
  builder "gearman" {
    image    = "remote"
    triggers = { a = "1" }
  }
}

diskimage "snapshot" {
  builder "snapshot" {
    provider         = "one"
    pool             = "main"
    label            = "plain"
    private_key_file = "id_ed25519"
    inline           = "echo hello"
    interpreter      = "/bin/bash -e"
    env              = { A = "b" }
    shutdown         = false
    shutdown_command = "poweroff"
  }
}

zuul_image "zuul" {
  api_url           = "https://zuul.example.com/"
  tenant            = "t"
  project           = "p"
  branch            = "main"
  pipelines         = ["periodic"]
  trusted_pipelines = ["post"]
  job               = "build"
  image_name        = "other"
  artifact "qcow2" {
    type = "image"
    name = "file"
  }
}

npctl {
  gearman {
    servers = ["gearman.example.com"]
  }
}

provider "openstack" "one" {
  cloud  = "vexxhost"
  region = "ca-ymq-1"

  cloud_image "noble" {
    image_name = "ubuntu-noble"
  }

  image "exec" {
    visibility = "shared"
    min_disk   = 1
    min_ram    = 2
  }

  pool "main" {
    networks            = ["pool"]
    security_groups     = ["pool"]
    auto_floating_ip    = true
    floating_ip_network = "public"
    key_name            = "pool"
    userdata            = "#cloud-config\npool: true\n"
    config_drive        = true
    boot_from_volume    = true
    volume_size         = 7
    volume_type         = "ssd"
    instance_properties = { a = "pool" }
    request_properties  = { r = "{request.id}" }
    tags                = ["pool"]

    label "inherited" {
      image  = diskimage.dib
      flavor = "small"
    }

    label "all" {
      image               = cloud_image.noble
      flavor              = "large"
      min_ram             = 4096
      networks            = ["label"]
      security_groups     = ["label"]
      auto_floating_ip    = false
      floating_ip_network = "other"
      key_name            = "label"
      userdata            = "#cloud-config\n"
      config_drive        = false
      boot_from_volume    = true
      volume_size         = 9
      volume_type         = "hdd"
      instance_properties = { b = "label" }
      request_properties  = { r = "for {request.tenant_name}" }
      tags                = ["label"]
    }
  }

  pool "plain" {
    label "plain" {
      image   = zuul_image.zuul
      min_ram = 512
    }
  }
}

provider "sandbox" "sandbox" {
  pool "main" {
    networks = ["private"]

    label "plain" {
      image  = diskimage.exec
      flavor = "small"
    }
  }
}

provider "static" "rack" {
  pool "main" {
    node "plain.example.com" {
      labels = ["machine"]
    }

    node "all.example.com" {
      labels          = ["machine", "plain"]
      address         = "192.0.2.1"
      host_keys       = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnC0nQ8yYq7yGkq6Yz0k9vP3pT5wE1rS2uV4xZ6aB8c"]
      slots           = 3
      username        = "jenkins"
      python_path     = "/usr/bin/python3"
      shell_type      = "sh"
      connection_type = "network_cli"
      connection_port = 2222
    }
  }
}

provider "metastatic" "slots" {
  pool "main" {
    label "inherited" {
      backing_label = "plain"
    }
  }
}
