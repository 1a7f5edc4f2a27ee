label "small" {
  min_ready = 1
}

provider "sandbox" "play" {
  build_time = "0s"

  public_image "debian" {}
  cloud_image "debian" {}
  pool "main" {
    max_servers = 10
    networks    = ["private"]
    label "small" {
      image  = cloud_image.debian
      flavor = "small"
    }
  }
}
