# Nodes from a program: driver.sh, beside this file, is a driver in one page of shell. Its machines are files.
#
#   npctl driver test -setting flavor=small -setting image=debian ./driver.sh
#   npctl apply

label "small" { min_ready = 2 }
label "large" {}

provider "external" "files" {
  command  = ["${path.config}/driver.sh"]
  settings = { max = "20" }

  pool "main" {
    host_key_checking = false # the machines are files
    settings          = { flavor = "small", image = "debian" }

    label "small" {}
    label "large" {
      settings = { flavor = "large", image = "ubuntu" }
    }
  }
}
