package location

import (
	"slices"
	"testing"
	"time"

	"github.com/npctl/npctl/state/zookeeper"
)

func TestChangedAttributesOfZooKeeperAreNamed(t *testing.T) {
	before := func() Location {
		return Location{File: "/npctl.db", Shared: &zookeeper.Options{Hosts: []string{"zk1", "zk2"}, Chroot: "/zuul", SessionTimeout: time.Second,
			TLS: &zookeeper.TLS{CA: "ca.pem"}}}
	}
	for _, test := range []struct {
		change func(*Location)
		want   []string
		equal  bool
	}{
		{func(*Location) {}, nil, true},
		{func(p *Location) { p.Shared.Chroot = "/zuul/" }, nil, true},
		{func(p *Location) { p.Shared.Hosts = []string{"zk1", "zk3"} }, []string{"hosts"}, false},
		{func(p *Location) { p.Shared.Chroot, p.File = "", "/other.db" }, []string{"chroot", "file"}, false},
		{func(p *Location) { p.Shared.TLS.CA = "new.pem" }, []string{"tls"}, true},
		{func(p *Location) { p.Shared.TLS, p.Shared.SessionTimeout = nil, time.Minute }, []string{"tls", "session_timeout"}, true},
		{func(p *Location) { p.Shared = nil }, nil, false},
	} {
		after := before()
		test.change(&after)
		if got := before().Changed(after); !slices.Equal(got, test.want) {
			t.Errorf("from %s to %s: %q changed, want %q", before(), after, got, test.want)
		}
		if got := before().Equal(after); got != test.equal {
			t.Errorf("%s equals %s: %v", before(), after, got)
		}
	}
}
