//go:build integration

package aws

import (
	"net/http"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/aws"
	"github.com/npctl/npctl/drivers/aws/awstest"
	"github.com/npctl/npctl/test/kill"
)

// fleet has a node of an image that is imported. The node is launched by a request for a fleet.
const fleet = `
npctl {
  images_dir = "DIRECTORY"
  state "bolt" { path = "npctl.db" }
}
diskimage "blank" {
  builder "exec" {
    command = ["sh", "-c", "head -c 1000000 /dev/urandom >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}
label "blank" { min_ready = 1 }
provider "aws" "amazon" {
  rate = 0
  bucket = "` + bucket + `"
  image "blank" {
    import_method = "snapshot"
  }
  pool "main" {
    host_key_checking = false
    label "blank" {
      image          = diskimage.blank
      instance_types = ["t3.small"]
      allocation_strategy = "prioritized"
    }
  }
}
`

// TestKilledAtEveryCall kills an apply and a destroy before each changing call. drivers/aws has the kills of each method of uploads
// and launches, and reconcile those at commits.
func TestKilledAtEveryCall(t *testing.T) {
	l := newLab(t, fleet)
	l.cli(nil, "s3api", "create-bucket", "--bucket", bucket)
	l.hasBucket = true
	stay := l.foreign()
	f := kill.Fleet{Dir: l.Dir, Drivers: map[string]drivers.Driver{"aws": aws.New()}, Changes: awstest.ChangeOf, OnlyCalls: true, OnlyBefore: true,
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return awstest.Moto{Next: next, Imports: l.imports}
		}}
	// moto creates no tags of the volumes of fleets
	f.Everywhere(t, map[string]int{"instance": 1, "snapshot": 1, "image": 1, "template": 1}, l.numbers)
	stay()
}
