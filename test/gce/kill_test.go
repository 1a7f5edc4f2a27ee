//go:build integration

package gce

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npctl/npctl/test/gate"
)

// fleet has two ready nodes.
const fleet = `
npctl {
  leak_age = "1s"
  state "bolt" { path = "npctl.db" }
}
label "small" { min_ready = MIN_READY }
provider "gce" "google" {
  project  = "ci-project"
  region   = "europe-west1"
  endpoint = "ENDPOINT"
  rate     = 100
  cloud_image "debian" {
    image_id        = "projects/debian-cloud/global/images/family/debian-12"
    username        = "zuul"
    connection_port = 2222
  }
  pool "main" {
    host_key_checking = false
    label "small" {
      image              = cloud_image.debian
      machine_types      = ["e2-small"]
      labels             = { purpose = "ci" }
      request_properties = { requestor = "{request.requestor}" }
    }
  }
}
`

func fleetOf(minReady string) string { return strings.ReplaceAll(fleet, "MIN_READY", minReady) }

// isRead reports whether an action changes nothing. A wait is where a launch spends its time, so npctl is killed there too.
func isRead(action string) bool { return strings.HasPrefix(action, "GET ") }

// TestKilledAtEveryChangingCall kills npctl right before and right after each changing call of an apply and of a destroy. The
// next apply has to complete the fleet without orphans, the next destroy has to delete everything.
func TestKilledAtEveryChangingCall(t *testing.T) {
	l := newLab(t, fleetOf("2"))
	stay := l.foreign()
	count := func(command string) (changing int) {
		l.take()
		l.run(0, command, "-auto-approve")
		calls, _ := l.take()
		for action, n := range calls {
			if !isRead(action) {
				changing += n
			}
		}
		return changing
	}
	applied := count("apply")
	l.mustHave(2)
	destroyed := count("destroy")
	l.mustHave(0)
	if applied != 4 || destroyed != 2 {
		t.Errorf("apply makes %d changing calls, destroy %d; want 4 and 2", applied, destroyed)
	}
	for _, after := range []bool{false, true} {
		for moment := 1; moment <= max(applied, destroyed) && !t.Failed(); moment++ {
			l.killed(moment, after, "apply")
			l.settle("apply", 2)
			l.killed(moment, !after, "destroy")
			l.settle("destroy", 0)
		}
	}
	l.mustContain(l.run(0, "destroy", "-auto-approve"), "No changes.")
	stay()
}

// settle runs a command until the number of instances and disks is as wanted. One without its record is a leak: npctl deletes
// it when it has seen it twice, leak_age apart.
func (l *lab) settle(command string, want int) {
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
		if now != after || isRead(action) || passed.Add(1) != int64(moment) {
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
