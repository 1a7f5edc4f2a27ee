package reconcile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
)

// lendingClouds configures one cloud with two labels for build instances, one of which boots from a volume.
const lendingClouds = `
npctl { images_dir = "images" }

diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
  username        = "admin"
  connection_port = 2222
}

label "base" {}
label "volume" {}

provider "lab" "one" {
  image_format    = "raw"
  launch_timeout  = "2m"
  launch_attempts = 2
  pool "main" {
    networks = ["private"]
    label "base" {
      image            = diskimage.debian
      flavor           = "small"
      auto_floating_ip = true
    }
    label "volume" {
      image            = diskimage.debian
      flavor           = "small"
      boot_from_volume = true
    }
  }
}
`

const lentBuild = "0123456789abcdef0123456789abcdef"

// lending is a lab with a running build.
type lending struct {
	*lab
	builders.Instances
	cloud *emulator.Cloud
	path  string
}

// lend calls do with a lab that can boot build instances. The image is in its cloud.
func lend(t *testing.T, do func(t *testing.T, l *lending)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, lendingClouds, emulator.Options{BuildTime: 20 * time.Second, DeleteTime: 5 * time.Second, ImageTime: 3 * time.Second})
		if _, _, err := l.run(t.Context(), plan.Options{}); err != nil {
			t.Fatal(err)
		}
		e, end := l.engine()
		defer end()
		seen, err := e.Observe(t.Context(), true)
		testutil.Must(t, err)
		machines, over, err := reconcile.LendMachines(t.Context(), e, seen, lentBuild)
		testutil.Must(t, err)
		defer over()
		do(t, &lending{l, machines, l.driver.Clouds["one"], filepath.Join(l.dir, "golden.part")})
	})
}

// ofBuild returns the objects of the build in the cloud.
func (l *lending) ofBuild(t *testing.T) []emulator.Thing {
	t.Helper()
	things, err := l.cloud.Inventory()
	testutil.Must(t, err)
	var found []emulator.Thing
	for _, thing := range things {
		if thing.Metadata["npctl_build_id"] == lentBuild || strings.Contains(thing.Text, lentBuild) {
			found = append(found, thing)
		}
	}
	return found
}

func (l *lending) leavesNothing(t *testing.T) {
	t.Helper()
	if left := l.ofBuild(t); len(left) > 0 {
		t.Errorf("left in the cloud: %+v", left)
	}
}

func (l *lending) boot(t *testing.T) builders.Instance {
	t.Helper()
	m, err := l.Boot(t.Context(), "one", "", "base")
	testutil.Must(t, err)
	return m
}

func unmoved(string, int64, int64) {}

func TestBuildInstanceIsDeletedAfterItsSnapshot(t *testing.T) {
	lend(t, func(t *testing.T, l *lending) {
		m := l.boot(t)
		if got, want := m.Login(), (resources.Login{Username: "admin", ConnectionType: "ssh", ConnectionPort: 2222}); got.Username != want.Username || got.ConnectionPort != want.ConnectionPort {
			t.Errorf("login is %+v, want %+v", got, want)
		}
		if !strings.HasPrefix(m.Address(), "127.78.") {
			t.Errorf("address is %q, want the floating IP of the label", m.Address())
		}
		if text := m.Console(t.Context()); !strings.Contains(text, "login:") {
			t.Errorf("console is %q", text)
		}
		var phases []string
		format, err := m.Capture(t.Context(), l.path, func(phase string, done, total int64) {
			if phases = append(phases, phase); done != 5 || total != 5 {
				t.Errorf("%s: %d of %d bytes, want 5 of 5", phase, done, total)
			}
		})
		if err != nil || format != "raw" || len(phases) == 0 {
			t.Fatalf("Capture = %q, %v; progress %q", format, err, phases)
		}
		if disk, err := os.ReadFile(l.path); err != nil || string(disk) != "image" {
			t.Errorf("the file holds %q, %v; want what the machine was made from", disk, err)
		}
		want := map[string]map[string]string{}
		got := map[string]map[string]string{}
		for _, thing := range l.ofBuild(t) {
			if thing.Type == "floating_ip" {
				continue
			}
			marks := map[string]string{}
			for _, name := range []string{"provider", "pool", "label", "image", "build_id"} {
				marks[name] = thing.Metadata["npctl_"+name]
			}
			got[thing.Type] = marks
			want[thing.Type] = map[string]string{"provider": "one", "pool": "main", "label": "base", "image": "golden", "build_id": lentBuild}
		}
		if diff := cmp.Diff(want, got); diff != "" || got["server"] == nil || got["image"] == nil {
			t.Errorf("marks in the cloud (-want +got):\n%s", diff)
		}
		if _, err := l.Boot(t.Context(), "one", "main", "base"); err == nil || !strings.Contains(err.Error(), "has an instance already") {
			t.Errorf("a second machine for the build: %v", err)
		}
		testutil.Must(t, m.Close(t.Context()))
		l.leavesNothing(t)
		if err := l.boot(t).Close(t.Context()); err != nil {
			t.Errorf("a machine after the first: %v", err)
		}
		l.leavesNothing(t)
	})
}

func TestUnusableBuildInstanceIsExplained(t *testing.T) {
	lend(t, func(t *testing.T, l *lending) {
		for _, test := range []struct{ provider, pool, label, want string }{
			{"two", "", "base", "provider two is not configured; there are one"},
			{"one", "", "small", "no pool of provider one offers label small"},
			{"one", "other", "base", "provider one has no pool other"},
			{"one", "main", "small", "pool main of provider one does not offer label small"},
			{"one", "main", "volume", "label volume of pool main: rejected: a server that boots from a volume"},
		} {
			_, err := l.Boot(t.Context(), test.provider, test.pool, test.label)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Boot(%q, %q, %q): %v, want %q", test.provider, test.pool, test.label, err, test.want)
			}
		}
		l.leavesNothing(t)
	})
}

// once returns a fault that occurs at the first call.
func once(operation string, action emulator.Action) emulator.Fault {
	return emulator.Fault{Operation: operation, Action: action, Times: 1}
}

func TestFaultsOfABuildInstance(t *testing.T) {
	for name, test := range map[string]struct {
		faults []emulator.Fault
		want   string // in the error; empty: no error
	}{
		"boot fails once":       {[]emulator.Fault{once("server.create", emulator.ServerError)}, ""},
		"boot fails":            {[]emulator.Fault{{Operation: "server.create", Action: emulator.ServerError, Message: "No valid host was found."}}, "attempt 2 of 2"},
		"quota is used up":      {[]emulator.Fault{{Operation: "server.create", Action: emulator.OverQuota}}, "attempt 1 of 2"},
		"boot's answer is lost": {[]emulator.Fault{once("server.create", emulator.LostAfter)}, ""},
		"lists are behind":      {[]emulator.Fault{{Operation: "server.*", Action: emulator.LateListing, Delay: 7 * time.Second}}, ""},
		"lists fail": {[]emulator.Fault{{Operation: "server.list", Action: emulator.Answer, Status: 503, Every: 3},
			{Operation: "image.list", Action: emulator.Answer, Status: 503, Every: 3}}, ""},
		"snapshot is refused for now": {[]emulator.Fault{{Operation: "server.snapshot", Action: emulator.Answer, Status: 409, Message: "task_state powering-off", Times: 9}}, ""},
		"snapshot is always refused":  {[]emulator.Fault{{Operation: "server.snapshot", Action: emulator.Answer, Status: 409, Message: "task_state powering-off"}}, "powering-off"},
		"snapshot is forbidden": {[]emulator.Fault{{Operation: "server.snapshot", Action: emulator.Answer, Status: 403,
			Message: "Policy doesn't allow os_compute_api:servers:create_image to be performed."}}, "Policy doesn't allow"},
		"snapshot's answer is lost":    {[]emulator.Fault{once("server.snapshot", emulator.LostAfter)}, ""},
		"snapshot is never heard of":   {[]emulator.Fault{once("server.snapshot", emulator.LostBefore)}, "no snapshot is listed 2m0s after it was requested"},
		"snapshot appears late":        {[]emulator.Fault{{Operation: "server.snapshot", Action: emulator.LateEffect, Delay: 20 * time.Second, Times: 1}}, ""},
		"snapshot is given up":         {[]emulator.Fault{once("server.snapshot", emulator.ServerError)}, "the cloud could not create the snapshot"},
		"snapshot is not tagged":       {[]emulator.Fault{{Operation: "image.tag", Action: emulator.Answer, Status: 500}}, ""},
		"content is cut":               {[]emulator.Fault{once("image.download", emulator.Truncate)}, ""},
		"content is changed":           {[]emulator.Fault{once("image.download", emulator.Corrupt)}, ""},
		"content is always changed":    {[]emulator.Fault{{Operation: "image.download", Action: emulator.Corrupt}}, "damaged in transfer"},
		"deletion fails once":          {[]emulator.Fault{once("server.delete", emulator.DeleteFails)}, ""},
		"deletion's answer is lost":    {[]emulator.Fault{once("server.delete", emulator.LostAfter), once("image.delete", emulator.LostAfter)}, ""},
		"deleted image stays in lists": {[]emulator.Fault{{Operation: "image.delete", Action: emulator.LateListing, Delay: 9 * time.Second}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			lend(t, func(t *testing.T, l *lending) {
				testutil.Must(t, l.cloud.SetFaults(test.faults...))
				err := l.bootAndCapture(t.Context())
				if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
					t.Errorf("error is %v, want %q", err, test.want)
				}
				if _, missing := os.Stat(l.path); (missing == nil) != (err == nil) {
					t.Errorf("after %v the file: %v", err, missing)
				}
				l.leavesNothing(t)
			})
		})
	}
}

// bootAndCapture boots an instance and captures it, as a builder does.
func (l *lending) bootAndCapture(ctx context.Context) error {
	m, err := l.Boot(ctx, "one", "", "base")
	if err != nil {
		return err
	}
	_, err = m.Capture(ctx, l.path, unmoved)
	return errors.Join(err, m.Close(context.WithoutCancel(ctx)))
}

// A build that is canceled at any time leaves nothing in the cloud.
func TestCancelledAnywhereLeavesNoMachine(t *testing.T) {
	for at := time.Second; at < 40*time.Second; at += 1300 * time.Millisecond {
		lend(t, func(t *testing.T, l *lending) {
			ctx, cancel := context.WithTimeout(t.Context(), at)
			defer cancel()
			err := l.bootAndCapture(ctx)
			if at < 20*time.Second && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("cancelled after %s: %v", at, err)
			}
			l.leavesNothing(t)
		})
	}
}

// After a kill at any call, the next applies remove the remains of the build.
func TestKilledDuringABuildInstance(t *testing.T) {
	for at := 1; ; at++ {
		died := false
		lend(t, func(t *testing.T, l *lending) {
			l.kill.Revive(at)
			_ = l.bootAndCapture(t.Context())
			var where string
			where, died = l.kill.Died()
			l.kill.Revive(0)
			if !died {
				return
			}
			for range 3 {
				if _, _, err := l.run(t.Context(), plan.Options{}); err != nil {
					t.Fatalf("killed %s: %v", where, err)
				}
				time.Sleep(time.Minute)
			}
			if again := l.plan(plan.Options{}); len(again.Steps) > 0 {
				t.Errorf("killed %s, then applied: there is still to do\n%s", where, text(again))
			}
			if left := l.ofBuild(t); len(left) > 0 {
				t.Errorf("killed %s, then applied: left is %+v", where, left)
			}
		})
		if !died {
			if at < 12 {
				t.Errorf("only %d points were passed; the killer sees too little", at-1)
			}
			return
		}
	}
}
