//go:build integration

package aws

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/aws"
	"github.com/npctl/npctl/drivers/aws/awstest"
	"github.com/npctl/npctl/test/kill"
)

// fleet has a node of an uploaded image. Its parts are attributes of the provider, the image and the label.
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
  PROVIDER
  image "blank" {
    IMAGE
  }
  pool "main" {
    host_key_checking = false
    label "blank" {
      image          = diskimage.blank
      instance_types = ["t3.small"]
      LABEL
    }
  }
}
`

func fleetWith(provider, image, label string) string {
	return strings.NewReplacer("PROVIDER", provider, "IMAGE", image, "LABEL", label).Replace(fleet)
}

// TestKilledAtEveryCallAndCommit kills an apply and a destroy before each changing call and each commit. moto takes too long for
// the points after them, too.
func TestKilledAtEveryCallAndCommit(t *testing.T) {
	killEverywhere(t, newLab(t, fleetWith("", "", "")), false, map[string]int{"instance": 1, "volume": 1, "snapshot": 1, "image": 1})
}

// moto creates no tags of the volumes of fleets.
func TestKilledAtEveryCallOfAnImportAndAFleet(t *testing.T) {
	l := newLab(t, fleetWith(`bucket = "`+bucket+`"`, `import_method = "snapshot"`, `allocation_strategy = "prioritized"`))
	l.cli(nil, "s3api", "create-bucket", "--bucket", bucket)
	l.hasBucket = true
	killEverywhere(t, l, true, map[string]int{"instance": 1, "snapshot": 1, "image": 1, "template": 1})
}

func TestKilledAtEveryCallOfADedicatedHost(t *testing.T) {
	l := newLab(t, fleetWith("", "", `dedicated_host = true
      availability_zones = ["us-east-1a"]`))
	killEverywhere(t, l, true, map[string]int{"instance": 1, "volume": 1, "snapshot": 1, "image": 1, "host": 1})
}

func killEverywhere(t *testing.T, l *lab, onlyCalls bool, whole map[string]int) {
	t.Helper()
	stay := l.foreign()
	f := kill.Fleet{Dir: l.Dir, Drivers: map[string]drivers.Driver{"aws": aws.New()}, Changes: changed, OnlyCalls: onlyCalls, OnlyBefore: true,
		Wrap: func(next http.RoundTripper) http.RoundTripper {
			return awstest.Moto{Next: next, Imports: l.imports}
		}}
	f.Everywhere(t, whole, l.numbers)
	stay()
}

// changed describes a call that changes something. Those of S3 are a method and a path.
func changed(r *http.Request) string {
	action := awstest.ActionOf(r)
	if slices.ContainsFunc([]string{"Describe", "Get", "List", "GET ", "HEAD "}, func(verb string) bool { return strings.HasPrefix(action, verb) }) {
		return ""
	}
	return action
}
