//go:build integration

package azure

import (
	"bytes"
	"maps"
	"sync/atomic"
	"testing"
	"time"
)

// fleet has a node of an uploaded image.
const fleet = `
npctl {
  images_dir = "images"
  leak_age   = "1s"
  state "bolt" { path = "npctl.db" }
}
variable "endpoint" { type = string }
diskimage "blank" {
  builder "exec" {
    command = ["sh", "-c", "head -c 1000000 /dev/urandom >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}
label "blank" { min_ready = 1 }
provider "azure" "blue" {
  resource_group = "ci"
  endpoint       = var.endpoint
  rate           = 100
  pool "main" {
    network           = "lab"
    generate_password = true
    host_key_checking = false
    label "blank" {
      image    = diskimage.blank
      vm_sizes = ["Standard_D2s_v5"]
    }
  }
}
`

// TestKilledAtEveryChangingCall kills npctl right before and right after each changing call of an apply and of a destroy. The
// next apply has to complete the fleet without orphans, the next destroy has to delete everything.
func TestKilledAtEveryChangingCall(t *testing.T) {
	l := newLab(t, fleet)
	whole := nodes(1)
	whole["image"] = 1
	count := func(command string) (changing int) {
		l.recorder.take()
		l.run(0, command, "-auto-approve")
		calls, _ := l.recorder.take()
		for api, n := range calls {
			if changes(api) {
				changing += n
			}
		}
		return changing
	}
	applied := count("apply")
	l.mustHave(whole)
	destroyed := count("destroy")
	l.mustHave(nodes(0))
	t.Logf("apply makes %d changing calls, destroy %d", applied, destroyed)
	if applied < 5 || destroyed < 2 {
		t.Errorf("too few calls: the counts are wrong")
	}
	for _, after := range []bool{false, true} {
		for moment := 1; moment <= max(applied, destroyed) && !t.Failed(); moment++ {
			l.killed(moment, after, "apply")
			l.settle("apply", whole)
			l.killed(moment, !after, "destroy")
			l.settle("destroy", nodes(0))
		}
	}
	l.mustContain(l.run(0, "destroy", "-auto-approve"), "No changes.")
}

// settle runs a command until the objects are as wanted. A disk without its record is a leak: npctl deletes it when it has
// seen it twice, leak_age apart.
func (l *lab) settle(command string, want map[string]int) {
	l.t.Helper()
	for attempt := range 8 {
		if attempt > 1 {
			time.Sleep(leakAge)
		}
		if l.run(0, command, "-auto-approve"); maps.Equal(l.numbers(), want) {
			return
		}
	}
	l.t.Errorf("after npctl %s the objects are %v, want %v", command, l.cloud.Objects(), want)
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
	l.setHook(func(api string, now bool) bool {
		if now != after || !changes(api) || passed.Add(1) != int64(moment) {
			return true
		}
		<-started
		struck.Store(api)
		_ = cmd.Process.Kill()
		return false
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
