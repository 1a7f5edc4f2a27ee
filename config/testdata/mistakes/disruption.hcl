label "numbers" {
  disruption {
    max     = "10 %"
    reasons = ["age", "image"]
  }
  disruption {
    max     = "101%"
    reasons = []
  }
  disruption {
    max = 1.5
  }
  disruption {
    max = -1
  }
  disruption {}
}
label "windows" {
  disruption {
    max       = 1
    schedule  = "0 1 * *"
    duration  = "4h"
    time_zone = "Mars/Olympus"
  }
  disruption {
    max      = 1
    schedule = "0 1 31 2 *"
    duration = "4h"
  }
  disruption {
    max      = 1
    schedule = "0 25 * * mon"
    duration = "4 hours"
  }
  disruption {
    max      = 1
    schedule = "0 1 * * sat-sun"
  }
  disruption {
    max      = 1
    duration = "4h"
  }
  disruption {
    max      = 1
    schedule = "0 1 * * 7"
    duration = "0s"
  }
  disruption {
    max      = 1
    schedule = "0 1 * * *"
    duration = "400d"
  }
}
provider "acme" "one" {
  cloud = "x"
  disruption "name" {
    max = 1
  }
  pool "main" {
    disruption {
      max = "all"
    }
    label "numbers" {
      image  = cloud_image.noble
      flavor = "small"
      disruption {
        max = 1
      }
    }
  }
  cloud_image "noble" {}
}
disruption {
  max = 1
}
