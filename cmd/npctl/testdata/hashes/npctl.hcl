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

provider "aws" "amazon" {
  region  = "eu-central-1"
  profile = "ci"

  cloud_image "ubuntu" {
    image_id = "ami-0123456789abcdef0"
  }

  image "exec" {
    architecture = "arm64"
    boot_mode    = "uefi"
    ena_support  = false
    imds_support = "v2.0"
    volume_size  = 20
    volume_type  = "io2"
    iops         = 5000
    throughput   = 300
    encrypted    = true
    kms_key_id   = "alias/images"
  }

  pool "main" {
    subnet_ids            = ["subnet-1"]
    security_group_ids    = ["sg-1"]
    public_ipv4           = false
    public_ipv6           = true
    key_name              = "pool"
    volume_size           = 7
    volume_type           = "gp3"
    iops                  = 3000
    throughput            = 125
    ebs_optimized         = true
    userdata              = "#cloud-config\npool: true\n"
    iam_instance_profile  = "ci"
    tags                  = { a = "pool" }
    request_properties    = { r = "{request.id}" }
    market_type           = "spot"
    imdsv2                = "required"
    nested_virtualization = true
    allocation_strategy   = "price-capacity-optimized"
    dedicated_host        = true
    encrypted             = true
    kms_key_id            = "alias/pool"

    label "inherited" {
      image          = diskimage.exec
      instance_types = ["t3.small"]
    }

    label "all" {
      image                 = cloud_image.ubuntu
      instance_types        = ["c6i.large", "c5.large"]
      subnet_ids            = ["subnet-2"]
      security_group_ids    = ["sg-2"]
      public_ipv4           = true
      public_ipv6           = false
      key_name              = "label"
      volume_size           = 9
      volume_type           = "io1"
      iops                  = 4000
      throughput            = 250
      ebs_optimized         = false
      userdata              = "#cloud-config\n"
      iam_instance_profile  = "arn:aws:iam::123456789012:instance-profile/ci"
      tags                  = { b = "label" }
      request_properties    = { r = "for {request.tenant_name}" }
      market_type           = "on-demand"
      imdsv2                = "optional"
      nested_virtualization = false
      allocation_strategy   = "prioritized"
      dedicated_host        = false
      encrypted             = false
      kms_key_id            = "alias/label"
    }
  }

  pool "plain" {
    label "plain" {
      image          = cloud_image.ubuntu
      instance_types = ["t3.small"]
    }
  }
}

provider "azure" "blue" {
  subscription_id = "00000000-0000-0000-0000-000000000000"
  resource_group  = "ci"
  location        = "westeurope"

  cloud_image "ubuntu" {
    image_id = "Canonical:ubuntu-24_04-lts:server:latest"
  }

  image "exec" {
    os_type        = "Windows"
    generation     = "V1"
    zone_resilient = false
  }

  pool "main" {
    network                = "pool"
    network_resource_group = "pool"
    subnet                 = "pool"
    security_group_id      = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkSecurityGroups/pool"
    public_ipv4            = false
    ipv6                   = true
    public_ipv6            = true
    admin_username         = "pool"
    ssh_public_key         = "ssh-ed25519 pool"
    admin_password         = "pool"
    generate_password      = true
    volume_size            = 7
    volume_type            = "Premium_LRS"
    userdata               = "#cloud-config\npool: true\n"
    custom_data            = "#cloud-config\npool: true\n"
    tags                   = { a = "pool" }
    request_properties     = { r = "{request.id}" }
    market_type            = "spot"
    identities             = ["/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/pool"]

    label "inherited" {
      image    = diskimage.exec
      vm_sizes = ["Standard_D2s_v5"]
    }

    label "all" {
      image                  = cloud_image.ubuntu
      vm_sizes               = ["Standard_D4s_v5", "Standard_D4s_v4"]
      network                = "label"
      network_resource_group = "label"
      subnet                 = "label"
      security_group_id      = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/networkSecurityGroups/label"
      public_ipv4            = true
      ipv6                   = false
      public_ipv6            = false
      admin_username         = "label"
      ssh_public_key         = "ssh-ed25519 label"
      admin_password         = "label"
      generate_password      = false
      volume_size            = 9
      volume_type            = "Standard_LRS"
      userdata               = "#cloud-config\n"
      custom_data            = "#cloud-config\n"
      tags                   = { b = "label" }
      request_properties     = { r = "for {request.tenant_name}" }
      market_type            = "on-demand"
      identities             = ["/subscriptions/s/resourceGroups/g/providers/Microsoft.ManagedIdentity/userAssignedIdentities/label"]
    }
  }

  pool "plain" {
    label "plain" {
      image    = cloud_image.ubuntu
      vm_sizes = ["Standard_D2s_v5"]
    }
  }
}

provider "gce" "google" {
  project = "ci-project"
  region  = "europe-west1"

  cloud_image "debian" {
    image_id = "projects/debian-cloud/global/images/debian-12"
  }

  pool "main" {
    network               = "ci"
    subnetwork            = "ci"
    network_tags          = ["ci"]
    public_ipv4           = false
    ssh_keys              = ["zuul:ssh-ed25519 AAAA"]
    volume_size           = 20
    volume_type           = "pd-ssd"
    userdata              = "#cloud-config\npool: true\n"
    metadata              = { a = "pool" }
    service_account       = "default"
    scopes                = ["cloud-platform"]
    labels                = { a = "pool" }
    request_properties    = { r = "{request.id}" }
    provisioning_model    = "spot"
    nested_virtualization = true

    label "inherited" {
      image         = cloud_image.debian
      machine_types = ["e2-small"]
    }

    label "all" {
      image                 = cloud_image.debian
      machine_types         = ["n2-standard-4", "e2-standard-4"]
      network               = "label"
      subnetwork            = "label"
      network_tags          = ["label"]
      public_ipv4           = true
      ssh_keys              = ["zuul:ssh-ed25519 BBBB"]
      volume_size           = 30
      volume_type           = "pd-balanced"
      userdata              = "#cloud-config\n"
      metadata              = { b = "label" }
      service_account       = "ci@ci-project.iam.gserviceaccount.com"
      scopes                = ["devstorage.read_only"]
      labels                = { b = "label" }
      request_properties    = { r = "for {request.tenant_name}" }
      provisioning_model    = "standard"
      nested_virtualization = false
    }
  }

  pool "plain" {
    label "plain" {
      image         = cloud_image.debian
      machine_types = ["e2-small"]
    }
  }
}

provider "ibmvpc" "ibm" {
  region         = "eu-de"
  vpc            = "ci"
  resource_group = "0123456789abcdef0123456789abcdef"
  image_format   = "qcow2"

  object_storage {
    endpoint = "https://s3.eu-de.cloud-object-storage.appdomain.cloud"
    bucket   = "images"
  }

  cloud_image "ubuntu" {
    image_id = "r006-1"
  }

  image "exec" {
    operating_system = "debian-12-amd64"
  }

  pool "main" {
    subnets            = ["ci-1"]
    security_groups    = ["ssh"]
    public_ipv4        = true
    keys               = ["pool"]
    user_data          = "#cloud-config\npool: true\n"
    volume_size        = 20
    volume_profile     = "5iops-tier"
    tags               = { a = "pool" }
    request_properties = { r = "{request.id}" }

    label "inherited" {
      image    = diskimage.exec
      profiles = ["cx2-2x4"]
    }

    label "all" {
      image              = cloud_image.ubuntu
      profiles           = ["bx2-2x8", "cx2-2x4"]
      subnets            = ["ci-2"]
      security_groups    = ["jobs"]
      public_ipv4        = false
      keys               = ["label"]
      user_data          = "#cloud-config\n"
      volume_size        = 30
      volume_profile     = "10iops-tier"
      tags               = { b = "label" }
      request_properties = { r = "for {request.tenant_name}" }
    }
  }

  pool "plain" {
    label "plain" {
      image    = cloud_image.ubuntu
      profiles = ["cx2-2x4"]
    }
  }
}

provider "external" "program" {
  command = ["driver"]

  pool "main" {
    settings = { flavor = "small" }

    label "inherited" {}
    label "plain" {
      settings = { flavor = "large" }
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

provider "kubernetes" "kubernetes" {
  pool "main" {
    image_pull = "Always"
    cpu        = 2

    label "plain" {
      type  = "pod"
      image = "debian:12"
    }

    label "all" {
      type               = "pod"
      image              = "debian:12"
      image_pull         = "Never"
      image_pull_secrets = ["registry"]
      cpu                = 0.5
      memory             = 1
      storage            = 2
      cpu_limit          = 3
      memory_limit       = 4
      storage_limit      = 5
      gpu                = 1
      gpu_resource       = "nvidia.com/gpu"
      extra_resources    = { licenses = 1 }
      env                = { A = "1" }
      node_selector      = { disk = "ssd" }
      scheduler_name     = "other"
      privileged         = true
      volumes            = "[{\"name\":\"cache\"}]"
      volume_mounts      = "[{\"name\":\"cache\",\"mountPath\":\"/cache\"}]"
      labels             = { team = "label" }
      annotations        = { note = "label" }
      request_properties = { r = "{request.tenant_name}" }
      python_path        = "/usr/bin/python3"
      shell_type         = "sh"
    }
  }

  pool "whole" {
    label "plain" {
      type = "pod"
      spec = "{\"containers\":[{\"name\":\"a\",\"image\":\"debian:12\"}]}"
    }
  }
}

provider "openshift" "openshift" {
  pool "main" {
    label "plain" {
      type = "project"
    }

    label "all" {
      type   = "pod"
      image  = "debian:12"
      memory = 1
    }
  }
}

provider "openshiftpods" "openshiftpods" {
  pool "main" {
    label "plain" {
      image = "debian:12"
    }

    label "all" {
      spec = "{\"containers\":[{\"name\":\"a\",\"image\":\"debian:12\"}]}"
      cpu  = 1
    }
  }
}

provider "qemu" "vms" {
  pool "main" {
    label "plain" {
      image      = diskimage.exec
      cores      = 2
      ram        = 2048
      disk       = 20
      machine    = "pc"
      cpu        = "qemu64"
      firmware   = "/usr/share/ovmf/OVMF.fd"
      args       = ["-vga", "none"]
      guest_port = 2222
      user       = "zuul"
      ssh_keys   = ["ssh-ed25519 AAAA me"]
      userdata   = "#!/bin/sh"
    }
  }
}
