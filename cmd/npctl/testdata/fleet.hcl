npctl {
  images_dir    = ".npctl/images"
  build_log_dir = ".npctl/logs"
  state "bolt" { path = ".npctl/npctl.db" }
}

variable "min_ready" { default = 2 }

diskimage "tiny" {
  builder "exec" {
    command = ["sh", "-eu", "-c", "echo $GREETING >$NPCTL_OUTPUT.raw"]
    env     = { GREETING = "hello" }
  }
}

label "small" { min_ready = var.min_ready }

provider "sandbox" "acme" {
  image_format = "raw"
  build_time   = "0s"
  delete_time  = "0s"
  pool "main" {
    max_servers = 10
    networks    = ["private"]
    label "small" {
      image  = diskimage.tiny
      flavor = "small"
    }
  }
}
