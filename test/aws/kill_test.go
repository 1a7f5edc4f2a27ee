//go:build integration

package aws

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npctl/npctl/test/gate"
)

// fleet has a node of an uploaded image. Its parts are attributes of the provider, the image and the label.
const fleet = `
npctl {
  images_dir = "images"
  leak_age   = "1s"
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

// TestKilledAtEveryChangingCall kills npctl right before and right after each changing call of an apply and of a destroy. The
// next apply has to complete the fleet without orphans, the next destroy has to delete everything.
func TestKilledAtEveryChangingCall(t *testing.T) {
	killAnywhere(t, newLab(t, fleetWith("", "", "")), map[string]int{"instance": 1, "volume": 1, "snapshot": 1, "image": 1})
}

// moto creates no tags of the volumes of fleets.
func TestKilledAtEveryChangingCallOfAnImportAndAFleet(t *testing.T) {
	l := newLab(t, fleetWith(`bucket = "`+bucket+`"`, `import_method = "snapshot"`, `allocation_strategy = "prioritized"`))
	l.cli(nil, "s3api", "create-bucket", "--bucket", bucket)
	l.hasBucket = true
	killAnywhere(t, l, map[string]int{"instance": 1, "snapshot": 1, "image": 1, "template": 1})
}

func TestKilledAtEveryChangingCallOfADedicatedHost(t *testing.T) {
	l := newLab(t, fleetWith("", "", `dedicated_host = true
      availability_zones = ["us-east-1a"]`))
	killAnywhere(t, l, map[string]int{"instance": 1, "volume": 1, "snapshot": 1, "image": 1, "host": 1})
}

func killAnywhere(t *testing.T, l *lab, whole map[string]int) {
	t.Helper()
	stay := l.foreign()
	count := func(command string) (changing int) {
		l.recorder.take()
		l.run(0, command, "-auto-approve")
		calls, _ := l.recorder.take()
		for action, n := range calls {
			if changes(action) {
				changing += n
			}
		}
		return changing
	}
	applied := count("apply")
	l.mustHave(whole)
	destroyed := count("destroy")
	l.mustHave(nil)
	t.Logf("apply makes %d changing calls, destroy %d", applied, destroyed)
	if applied < 5 || destroyed < 3 {
		t.Errorf("too few calls: the counts are wrong")
	}
	for _, after := range []bool{false, true} {
		for moment := 1; moment <= max(applied, destroyed) && !t.Failed(); moment++ {
			l.killed(moment, after, "apply")
			l.settle("apply", whole)
			l.killed(moment, !after, "destroy")
			l.settle("destroy", nil)
		}
	}
	l.mustContain(l.run(0, "destroy", "-auto-approve"), "No changes.")
	stay()
}

// settle runs a command until the objects are as wanted. A snapshot without its record is a leak: npctl deletes it when it
// has seen it twice, leak_age apart.
func (l *lab) settle(command string, want map[string]int) {
	l.t.Helper()
	for attempt := range 8 {
		if attempt > 1 {
			time.Sleep(leakAge)
		}
		if l.run(0, command, "-auto-approve"); l.has(want) {
			return
		}
	}
	l.mustHave(want)
}

// leakAge is leak_age of the fleet.
const leakAge = time.Second

// killed runs npctl and kills it at a changing call.
func (l *lab) killed(moment int, after bool, command string) {
	l.t.Helper()
	cmd, _, stderr := l.command(command, "-auto-approve")
	started := make(chan struct{})
	var passed atomic.Int64
	var struck atomic.Value
	l.setHook(func(action string, now bool) error {
		if now != after || !changes(action) || passed.Add(1) != int64(moment) {
			return nil
		}
		<-started
		struck.Store(action)
		_ = cmd.Process.Kill()
		return gate.ErrCut
	})
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	close(started)
	err := cmd.Wait()
	l.setHook(nil)
	l.t.Logf("npctl %s, changing call %d, killed %s %v", command, moment, map[bool]string{false: "before", true: "after"}[after], struck.Load())
	if bytes.Contains(stderr.Bytes(), []byte("panic")) || struck.Load() != nil && err == nil {
		l.t.Errorf("npctl %s ended with %v\n%s", command, err, stderr)
	}
}
