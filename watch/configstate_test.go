package watch_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// fleetOf returns a fleet with min nodes of a label in a cloud.
func fleetOf(min string) string {
	return strings.Replace(fleet, "min_ready = 1", "min_ready = "+min, 1)
}

// codes returns the codes of the journal's events about the configuration.
func codes(d *watch.Daemon) string {
	var all []string
	for _, e := range d.Journal.Since(0, "configuration") {
		all = append(all, e.Code)
	}
	return strings.Join(all, " ")
}

// A daemon that restarts with a configuration that lost a large part must not delete that part without consent.
func TestStartWithTruncatedConfigurationDeletesNothing(t *testing.T) {
	half, _, _ := strings.Cut(fleetOf("4"), `provider "lab" "one"`)
	half = strings.NewReplacer(`label "small" { min_ready = 4 }`, "", `label "metal" {}`, "").Replace(half)
	for name, test := range map[string]struct{ configuration, reason string }{
		"an empty file":     {"", "the configuration is empty"},
		"half of the files": {half, "more than half needs consent"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLab(t, fleetOf("4"), emulator.Options{})
				d, end := l.daemon()
				testutil.Await(l.t, "four nodes are there", func() bool { return len(readyNodes(d, "small")) == 4 })
				end()
				l.write(test.configuration)
				d, end = l.daemon()
				defer end()
				time.Sleep(20 * time.Minute)
				if n := l.servers("one"); n != 4 {
					t.Errorf("there are %d servers, want 4", n)
				}
				state := d.Configuration()
				if !strings.Contains(state.ConsentRequired, test.reason) || len(state.PendingDeletions) == 0 || len(state.Notes()) != 1 {
					t.Errorf("the state of the configuration is %+v", state)
				}
				if got := codes(d); got != "consent-required" {
					t.Errorf("events are %q", got)
				}
				var held *watch.ConsentRequiredError
				if _, err := d.Reload(t.Context(), watch.ReloadOptions{}); !errors.As(err, &held) {
					t.Errorf("reload without consent: %v, want it to be held back", err)
				}
				if _, err := d.Reload(t.Context(), watch.ReloadOptions{AllowDestroy: true}); err != nil {
					t.Fatal(err)
				}
				testutil.Await(l.t, "everything is deleted", func() bool { return l.servers("one") == 0 })
				if state := d.Configuration(); state.ConsentRequired != "" || state.Error != "" || len(state.Notes()) > 0 {
					t.Errorf("after consent the state of the configuration is %+v", state)
				}
			})
		})
	}
}

// Nodes that disappear over time must not reduce the pending deletions below the limit that requires consent.
func TestPendingDeletionsStayPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleetOf("4"), emulator.Options{})
		d, end := l.daemon()
		testutil.Await(l.t, "four nodes are there", func() bool { return len(readyNodes(d, "small")) == 4 })
		end()
		l.write("")
		d, end = l.daemon()
		defer end()
		testutil.Await(l.t, "deletions are held back", func() bool { return d.Configuration().ConsentRequired != "" })
		for _, n := range readyNodes(d, "small") {
			testutil.Must(t, l.driver.Clouds["one"].Remove(n.ExternalID))
			time.Sleep(5 * time.Minute)
			if l.servers("one") == 1 {
				break
			}
		}
		time.Sleep(20 * time.Minute)
		if n := l.servers("one"); n != 1 {
			t.Errorf("there are %d servers, want 1", n)
		}
	})
}

func readyNodes(d *watch.Daemon, label string) []*resources.Node {
	var nodes []*resources.Node
	for _, n := range d.Last().Observed.Records.Nodes {
		if n.State == resources.StateReady && n.Labels[0] == label {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func TestRejectedReloadIsInTheConfigState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, fleet, emulator.Options{})
		d, end := l.daemon()
		defer end()
		l.serves(d, "small")
		began := d.Configuration().LoadedAt
		l.write(fleet + "\nlabel {\n")
		time.Sleep(time.Minute)
		if _, err := d.Reload(t.Context(), watch.ReloadOptions{}); err == nil {
			t.Fatal("a configuration with a mistake was taken")
		}
		state := d.Configuration()
		if !state.LoadedAt.Equal(began) || !state.RejectedAt.Equal(time.Now()) || !strings.Contains(state.Error, "npctl.hcl") {
			t.Errorf("the state of the configuration is %+v", state)
		}
		if got := codes(d); got != "config-refused" {
			t.Errorf("events are %q", got)
		}
		l.write(fleet)
		if _, err := d.Reload(t.Context(), watch.ReloadOptions{}); err != nil {
			t.Fatal(err)
		}
		if state := d.Configuration(); state.Error != "" || !state.RejectedAt.IsZero() || !state.LoadedAt.Equal(time.Now()) {
			t.Errorf("after a reload the state of the configuration is %+v", state)
		}
		if got := codes(d); got != "config-refused config-loaded" {
			t.Errorf("events are %q", got)
		}
	})
}
