//go:build integration

package aws

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npctl/npctl/test/gate"
)

// fleet has a node of an uploaded image.
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
  pool "main" {
    host_key_checking = false
    label "blank" {
      image          = diskimage.blank
      instance_types = ["t3.small"]
    }
  }
}
`

// TestKilledAtEveryCall kills npctl right before and right after each call of an apply and of a destroy. The next apply has to
// complete the fleet without orphans, the next destroy has to delete everything.
func TestKilledAtEveryCall(t *testing.T) {
	l := newLab(t, fleet)
	stay := l.foreign()
	whole := map[string]int{"instance": 1, "volume": 1, "snapshot": 1, "image": 1}
	count := func(command string) int {
		l.gate.Set(nil, nil)
		l.run(0, command, "-auto-approve")
		return l.gate.Count()[false]
	}
	applied := count("apply")
	l.mustHave(whole)
	destroyed := count("destroy")
	l.mustHave(nil)
	t.Logf("apply makes %d calls, destroy %d", applied, destroyed)
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

// killed runs npctl and kills it at a call.
func (l *lab) killed(moment int, after bool, command string) {
	l.t.Helper()
	cmd, _, stderr := l.command(command, "-auto-approve")
	started := make(chan struct{})
	var passed atomic.Int64
	var struck atomic.Bool
	strike := func(string) error {
		if passed.Add(1) != int64(moment) {
			return nil
		}
		<-started
		struck.Store(true)
		_ = cmd.Process.Kill()
		return gate.ErrCut
	}
	if after {
		l.gate.Set(nil, strike)
	} else {
		l.gate.Set(strike, nil)
	}
	if err := cmd.Start(); err != nil {
		l.t.Fatal(err)
	}
	close(started)
	err := cmd.Wait()
	l.gate.Set(nil, nil)
	l.mu.Lock()
	l.t.Logf("npctl %s, killed: %t, at call %d, after it: %t, newest action %s", command, struck.Load(), moment, after, l.last)
	l.mu.Unlock()
	if bytes.Contains(stderr.Bytes(), []byte("panic")) || struck.Load() && err == nil {
		l.t.Errorf("npctl %s ended with %v\n%s", command, err, stderr)
	}
}
