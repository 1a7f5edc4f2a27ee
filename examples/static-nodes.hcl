# Static machines: lab machines, boards, large servers. npctl registers them and never creates or deletes them.

npctl {
  images_dir = ".npctl/images"

  state "bolt" {
    path = ".npctl/npctl.db"
  }
}

locals {
  # One host key for each board, as ssh-keyscan prints it.
  boards = {
    "board01.example.com" = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnC0nQ8yYq7yGkq6Yz0k9vP3pT5wE1rS2uV4xZ6aB8c"
    "board02.example.com" = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnC0nQ8yYq7yGkq6Yz0k9vP3pT5wE1rS2uV4xZ6aB8d"
  }
}

label "board" {}
label "build-host" {}
label "windows" {}

provider "static" "lab" {
  pool "boards" {
    node_attributes = { rack = "7" }

    node "board" {
      for_each  = local.boards
      name      = each.key
      labels    = ["board"]
      host_keys = [each.value]
      username  = "zuul"
    }
  }

  pool "servers" {
    # Four jobs at a time on one large machine, whose address differs from its name.
    node "big01.example.com" {
      address   = "192.0.2.10"
      labels    = ["build-host", "board"]
      host_keys = ["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGnC0nQ8yYq7yGkq6Yz0k9vP3pT5wE1rS2uV4xZ6aB8e"]
      slots     = 4
    }

    node "win01.example.com" {
      labels          = ["windows"]
      connection_type = "winrm"
      connection_port = 5986
    }
  }
}
