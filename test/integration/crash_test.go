//go:build integration

package integration

import (
	"bytes"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npctl/npctl/test/gate"
)

// withImage configures a small image that builds fast, so that a test can build it often.
const withImage = settings + `
diskimage "blank" {
  builder "exec" {
    command = ["sh", "-c", "head -c 3000000 /dev/urandom >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}
label "blank"  { min_ready = 1 }
label "volume" { min_ready = 1 }
provider "openstack" "acme" {
  cloud        = "mine"
  image_format = "raw"
  pool "main" {
    host_key_checking = false
    networks          = ["private"]
    auto_floating_ip  = true
    label "blank" {
      image        = diskimage.blank
      flavor       = "small"
      create_ports = true
    }
    label "volume" {
      image            = diskimage.blank
      flavor           = "small"
      boot_from_volume = true
      volume_size      = 20
    }
  }
}
`

// TestOpenStackKilledAtRandomMoments kills npctl without warning during an apply, at a changing call, and during a destroy, at any
// call: right before the call reaches the service or right after the service has executed it. Tests of package reconcile and of
// the drivers kill it at every call and commit. $NPCTL_TEST_SEED repeats a run.
func TestOpenStackKilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("NPCTL_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("NPCTL_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // repeatable on purpose
	p := newProject(t).createUsualObjects()
	before := p.others()
	g := p.withGate()
	at := p.newPlace(withImage)
	want := map[string]int{"server": 2, "floating IP": 2, "image": 1, "volume": 1}

	g.Set(nil, nil)
	at.mustRun(0, "apply", "-auto-approve")
	applied := g.Count()
	p.mustHave(before, want)
	g.Set(nil, nil)
	at.mustRun(0, "destroy", "-auto-approve")
	destroyed := g.Count()
	p.mustBe(before)
	at.killed(g, random, applied[true], true, "apply")
	at.applyUntilSettled()
	p.mustHave(before, want)
	at.killed(g, random, destroyed[false], false, "destroy")
	at.gone(p, before)
}

// killed runs npctl and kills it at a random one of the first calls, or of the first changing calls.
func (at *place) killed(g *gate.Gate, random *rand.Rand, calls int, changing bool, command string) {
	at.t.Helper()
	moment, after := random.IntN(calls)+1, random.IntN(2) == 1
	cmd, _, stderr := at.command(at.t.Context(), command, "-auto-approve")
	started := make(chan struct{})
	var passed atomic.Int64
	var where atomic.Value
	strike := func(call string) error {
		if changing && !gate.Changes(call) || passed.Add(1) != int64(moment) {
			return nil
		}
		<-started
		where.Store(call)
		_ = cmd.Process.Kill()
		return gate.ErrCut
	}
	if after {
		g.Set(nil, strike)
	} else {
		g.Set(strike, nil)
	}
	if err := cmd.Start(); err != nil {
		at.t.Fatal(err)
	}
	close(started)
	err := cmd.Wait()
	g.Set(nil, nil)
	at.t.Logf("%s killed %s call %d of about %d (%v): %v", command, map[bool]string{false: "before", true: "after"}[after], moment, calls, where.Load(), err)
	if bytes.Contains(stderr.Bytes(), []byte("panic")) {
		at.t.Errorf("%s", stderr)
	}
	if err == nil && where.Load() != nil {
		at.t.Errorf("npctl %s was to be killed at %v and ended well", command, where.Load())
	}
}
