//go:build integration

package ibmvpc

import (
	"bytes"
	"maps"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npctl/npctl/test/gate"
)

// fleet has a node of an uploaded image, with a floating IP.
const fleet = `
npctl {
  images_dir = "images"
  leak_age   = "1s"
  state "bolt" { path = "npctl.db" }
}
diskimage "blank" {
  builder "exec" {
    command = ["sh", "-c", "{ printf 'QFI\\373\\0\\0\\0\\3'; head -c 1000000 /dev/urandom; } >\"$NPCTL_OUTPUT.qcow2\""]
    formats = ["qcow2"]
  }
}
label "blank" { min_ready = 1 }
provider "ibmvpc" "ibm" {
  region = "eu-test"
  vpc    = "ci"
  rate   = 100
  object_storage {
    endpoint = "STORAGE"
    bucket   = "images"
  }
  image "blank" { operating_system = "debian-12-amd64" }
  pool "main" {
    host_key_checking = false
    public_ipv4       = true
    label "blank" {
      image    = diskimage.blank
      profiles = ["cx2-2x4"]
    }
  }
}
`

// TestKilledAtEveryChangingCall kills npctl right before and right after each changing call of an apply and of a destroy. The
// next apply has to complete the fleet without orphans, the next destroy has to delete everything.
func TestKilledAtEveryChangingCall(t *testing.T) {
	l := newLab(t, fleet)
	stay := l.foreign()
	whole := map[string]int{"instances": 1, "volumes": 1, "floating_ips": 1, "images": 1, "objects": 1}
	none := map[string]int{}
	count := func(command string) (changing int) {
		l.take()
		l.run(0, command, "-auto-approve")
		for _, call := range l.take() {
			if changes(call) {
				changing++
			}
		}
		return changing
	}
	applied := count("apply")
	l.mustHave(whole)
	destroyed := count("destroy")
	l.settle("destroy", none)
	t.Logf("apply makes %d changing calls, destroy %d", applied, destroyed)
	if applied < 8 || destroyed < 4 {
		t.Errorf("too few calls: the counts are wrong")
	}
	for _, after := range []bool{false, true} {
		for moment := 1; moment <= max(applied, destroyed) && !t.Failed(); moment++ {
			l.killed(moment, after, "apply")
			l.settle("apply", whole)
			l.killed(moment, !after, "destroy")
			l.settle("destroy", none)
		}
	}
	l.mustContain(l.run(0, "destroy", "-auto-approve"), "No changes.")
	stay()
}

// settle runs a command until the objects are as wanted. An object without its record is a leak: npctl deletes it when it
// has seen it twice, leak_age apart.
func (l *lab) settle(command string, want map[string]int) {
	l.t.Helper()
	for attempt := range 8 {
		if attempt > 1 {
			time.Sleep(leakAge)
		}
		if l.run(0, command, "-auto-approve"); maps.Equal(l.owned(), want) {
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
	l.setHook(func(call string, now bool) error {
		if now != after || !changes(call) || passed.Add(1) != int64(moment) {
			return nil
		}
		<-started
		struck.Store(call)
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
