//go:build integration

package integration

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/npctl/npctl/test/gate"
	"github.com/npctl/npctl/test/openstack/lab"
)

// TestOpenStackUndeletedFailedServerDoesNotDelayLaunches has a server that stays in BUILD and that Nova does not delete
// in the meantime. The next attempt starts at once, and the apply reports the remaining server.
func TestOpenStackUndeletedFailedServerDoesNotDelayLaunches(t *testing.T) {
	p := newProject(t).createUsualObjects()
	before := p.things()
	at := p.newPlace(small)
	at.change("launch_attempts = 2", "launch_attempts = 2\n  launch_timeout = \"20s\"")
	at.change("min_ready = 2", "min_ready = 1")
	p.faults(lab.Rule{On: lab.Spawn, Action: lab.Hang, Name: "np0*", Times: 1})
	// The apply ends before the server is deleted, which Nova does when the rule is removed.
	at.mustRun(0, "apply", "-auto-approve").contains("1 launched", "attempt 1 of 2 failed: ", "not ready within launch_timeout", "is not deleted yet")
	p.faults()
	at.applyUntilSettled()
	p.mustHave(before, map[string]int{"server": 1})
	at.gone(p, before)
}

// TestOpenStackTransientUploadErrorsAreRetried: the response to the creation of the image record is lost, and the
// content is refused once with 503 and cut once.
func TestOpenStackTransientUploadErrorsAreRetried(t *testing.T) {
	p := newProject(t).createUsualObjects()
	before := p.others()
	g := p.withGate()
	at := p.newPlace(withImage)
	var records, contents atomic.Int32
	g.Set(func(call string) error {
		if strings.HasPrefix(call, "PUT image ") && strings.HasSuffix(call, "/file") {
			switch contents.Add(1) {
			case 1:
				return gate.Refusal{Status: 503, RetryAfter: 2}
			case 2:
				return gate.ErrCut
			}
		}
		return nil
	}, func(call string) error {
		if strings.HasPrefix(call, "POST image ") && records.Add(1) == 1 {
			return gate.ErrCut
		}
		return nil
	})
	at.mustRun(0, "apply", "-auto-approve").contains("1 uploaded", "2 launched")
	if n := contents.Load(); n != 3 {
		t.Errorf("the content was sent %d times, want 3", n)
	}
	at.nothingToDo()
	p.mustHave(before, map[string]int{"server": 2, "floating IP": 2, "image": 1, "volume": 1})
	g.Set(nil, nil)
	at.gone(p, before)
}

// TestOpenStackRetryAfterIsHonoredFromFirstCall uses a Nova that refuses its first calls, including the version
// document.
func TestOpenStackRetryAfterIsHonoredFromFirstCall(t *testing.T) {
	p := newProject(t).createUsualObjects()
	before := p.things()
	g := p.withGate()
	at := p.newPlace(small)
	var refused atomic.Int32
	g.Set(func(call string) error {
		if strings.Contains(call, " compute ") && refused.Add(1) <= 8 {
			return gate.Refusal{Status: 429, RetryAfter: 3}
		}
		return nil
	}, nil)
	began := time.Now()
	at.mustRun(0, "apply", "-auto-approve").contains("2 launched")
	if took := time.Since(began); took < 9*time.Second {
		t.Errorf("the apply took %s; at least three calls one after the other were to wait for 3 s", took)
	}
	p.mustHave(before, map[string]int{"server": 2})
	at.gone(p, before)
}
