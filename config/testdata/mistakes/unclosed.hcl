label "a" {
  min_redy = 1
}

label "b" {
  max_ready_age = "1h
}

provider "static" "lab" {
  pool "main" {
    node "one" { labels = ["a"] }
  }
}
