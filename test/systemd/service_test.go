//go:build integration

package systemd

import (
	"strings"
	"testing"

	"github.com/npctl/npctl/internal/testutil"
)

// settings is the configuration in docs/operations.md.
const settings = `
npctl {
  images_dir    = "/var/lib/npctl/images"
  build_log_dir = "/var/lib/npctl/build-logs"

  state "bolt" {
    path = "/var/lib/npctl/npctl.db"
  }
}
`

const fleet = settings + `
diskimage "debian" {
  builder "exec" {
    command = ["sh", "-c", "printf image >\"$NPCTL_OUTPUT.raw\""]
    formats = ["raw"]
  }
}

label "small" { min_ready = 1 }

provider "sandbox" "one" {
  image_format = "raw"
  pool "main" {
    networks          = ["private"]
    host_key_checking = false
    label "small" {
      image  = diskimage.debian
      flavor = "small"
    }
  }
}
`

// ready waits for a ready node without a user.
func (m *machine) ready() {
	m.t.Helper()
	testutil.Await(m.t, "a node is ready", func() bool {
		said, _ := m.as("alice", "npctl status -once")
		return strings.Contains(said, "1 ready")
	})
}

// logged waits until the unit's log contains the words.
func (m *machine) logged(unit, words string) {
	m.t.Helper()
	testutil.Await(m.t, "the log contains "+words, func() bool { return strings.Contains(m.run("journalctl --no-pager --unit="+unit), words) })
}

func TestServiceServesItsGroup(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.install(fleet)
	if user := m.run("stat --format=%U /proc/" + m.is("npctl-watch", "MainPID")); user != "npctl" {
		t.Errorf("the service runs as %s", user)
	}
	m.ready()
	if status := m.is("npctl-watch", "StatusText"); !strings.Contains(status, "of 1 provider answers") {
		t.Errorf("its status is %q", status)
	}
	if said, err := m.as("alice", "npctl request create -label=small -wait -take"); err != nil || !strings.Contains(said, "Fulfilled") {
		t.Errorf("a user in the group asks for a node: %v: %s", err, said)
	}
	if said, err := m.as("bob", "npctl status -once"); err == nil || !strings.Contains(said, "permission denied") || !strings.Contains(said, "group") {
		t.Errorf("call by a user outside the group: %v: %s", err, said)
	}
	if metrics := m.run(`bash -c 'exec 3<>/dev/tcp/127.0.0.1/9107; printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3'`); !strings.Contains(metrics, "npctl_") {
		t.Errorf("metrics are %s", metrics)
	}
}

func TestReloadReportsItsResult(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.install(fleet)
	m.ready()
	m.write("/etc/npctl/npctl.hcl", strings.Replace(fleet, "flavor", "flavour", 1))
	m.run("systemctl reload npctl-watch")
	m.logged("npctl-watch", "new configuration refused, keeping the previous one")
	m.write("/etc/npctl/npctl.hcl", fleet+"\nlabel \"spare\" {}\n")
	m.run("systemctl reload npctl-watch")
	m.logged("npctl-watch", "configuration reloaded")
	if state := m.is("npctl-watch", "ActiveState"); state != "active" {
		t.Errorf("the service is %s", state)
	}
	if said, err := m.as("alice", "npctl status -once"); err != nil || !strings.Contains(said, "spare") {
		t.Errorf("the new label is not known: %v: %s", err, said)
	}
}

// restarts waits until systemd has restarted the service automatically, and checks that the node in use is still in
// use.
func (m *machine) restarts(count string) {
	m.t.Helper()
	testutil.Await(m.t, "the service was restarted", func() bool {
		return m.is("npctl-watch", "NRestarts") == count && m.is("npctl-watch", "ActiveState") == "active"
	})
	if said, err := m.as("alice", "npctl node list"); err != nil || !strings.Contains(said, "in-use") {
		m.t.Errorf("the node is not in use any more: %v: %s", err, said)
	}
}

func TestKilledOrHangingDaemonIsRestarted(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.install(fleet)
	m.ready()
	if said, err := m.as("alice", "npctl request create -label=small -wait -take"); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	m.run("kill -KILL " + m.is("npctl-watch", "MainPID"))
	m.restarts("1")

	m.write("/etc/systemd/system/npctl-watch.service.d/sooner.conf", "[Service]\nWatchdogSec=12s\n")
	m.run("systemctl daemon-reload && systemctl restart npctl-watch")
	m.run("kill -STOP " + m.is("npctl-watch", "MainPID"))
	m.restarts("1")
	m.logged("npctl-watch", "Failed with result 'watchdog'")
}

// TestNoClientIsRejectedDuringServiceRestart: systemd holds the socket, and clients wait during the restart.
func TestNoClientIsRejectedDuringServiceRestart(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.install(fleet)
	m.run("systemctl stop npctl-watch && install -m 644 packaging/systemd/npctl-watch.socket /etc/systemd/system/ && " +
		"systemctl daemon-reload && systemctl enable --now npctl-watch.socket && systemctl start npctl-watch")
	m.ready()
	said, err := m.as("alice", `sh -c '
		for i in 1 2 3; do npctl status -once >/dev/null || exit; touch /tmp/asked; sleep 0.1; done
		while ! test -e /tmp/over; do npctl status -once >/dev/null || exit; done' &
		asking=$!
		while ! test -e /tmp/asked; do sleep 0.1; done
		for i in 1 2 3; do systemctl restart npctl-watch || exit; done
		touch /tmp/over
		wait $asking`)
	if err != nil {
		t.Errorf("a client was rejected: %v: %s", err, said)
	}
}

func TestServiceStopsOrderly(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.install(fleet)
	m.ready()
	m.run("systemctl stop npctl-watch")
	for property, want := range map[string]string{"Result": "success", "ExecMainCode": "1", "ExecMainStatus": "0", "ActiveState": "inactive"} {
		if got := m.is("npctl-watch", property); got != want {
			t.Errorf("%s is %s, not %s", property, got, want)
		}
	}
	if said, err := m.try("cd /etc/npctl && runuser -u npctl -- npctl state list"); err != nil || !strings.Contains(said, "node") {
		t.Errorf("the state of a service that was stopped: %v: %s", err, said)
	}
}
