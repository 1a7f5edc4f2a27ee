// Package drivertest is the contract of package drivers as tests. Every driver runs it, and what one of them got wrong
// becomes a test here.
//
// A Setup says how to reach a project and, by its knobs, what is honestly different about it: how long things take,
// which abilities it lacks, what can be staged in it. A knob that is not set takes a test away only where the thing
// to be staged cannot be had from the contract alone; abilities must be named in Lacks, so that one that got lost is
// noticed.
package drivertest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/resources"
)

// Setup is a project to test a driver in. Whatever was in it before is left alone.
type Setup struct {
	Cloud drivers.Cloud
	// Reopen opens the same project again, with nothing remembered. Nil means Cloud remembers nothing.
	Reopen func(t *testing.T) drivers.Cloud

	Config  cty.Value // of an offer that works, a value of Schema().Label
	ImageID string    // of an image that boots
	Zone    string

	// Rejected are changes to a working Spec after which Create must be ErrRejected.
	Rejected map[string]func(*drivers.Spec)
	// BadOffers are configurations with mistakes, by a name for the test.
	BadOffers map[string]BadOffer
	// OpenWrong opens the project with a wrong password, and returns the error.
	OpenWrong func(t *testing.T) error
	// Secrets are texts that no error may hold.
	Secrets []string

	// FillQuota leaves no room for another instance until the test ends.
	FillQuota func(t *testing.T)
	// Foreign makes an instance without our marks and returns its id.
	Foreign func(t *testing.T) string
	// ForeignImage makes an image without our marks.
	ForeignImage func(t *testing.T) Foreign
	// Attach gives an instance one thing of every kind that others can attach to it, such as volumes, ports and floating
	// IPs, without our marks. Kinds that the project does not have are left out.
	Attach func(t *testing.T, instance string) []Foreign
	// LeaveBehind makes a thing that is no instance with these marks, of a type that Leftovers lists.
	LeaveBehind func(t *testing.T, marks resources.Marks) resources.Leftover
	// Use makes something use what was left behind, until the test ends.
	Use func(t *testing.T, l resources.Leftover)
	// LoseNextAnswer makes the next instance that is created appear, though its Create returns an error.
	LoseNextAnswer func(t *testing.T)
	// Calls counts the calls to the cloud so far.
	Calls func() int
	// Alone means that nobody else uses the project, so that use of quota can be compared.
	Alone bool

	// NoSnapshot is the configuration of an offer of whose instances no image can be made, where there is such a one.
	NoSnapshot cty.Value
	// Damage makes the next reading of an image's content go wrong: "cut" in its middle, or "changed" on its way.
	Damage func(t *testing.T, how string)

	// Lacks names abilities that the Cloud does not have: images, resolver, sweeper, console, snapshots.
	Lacks []string
	// Settle is how long the cloud may take until something it accepted is so; default 30 s.
	Settle time.Duration
	// Poll is the pause between two looks; default 20 ms.
	Poll time.Duration
	// Many is how many instances the test of parallel calls makes; default 8.
	Many int
	// ImageSize is the size of test images in bytes; default 1 MiB.
	ImageSize int
	// ImageFormat is of test images, whose content is random bytes; default raw.
	ImageFormat string
}

// Foreign is a thing in the project that npctl did not make.
type Foreign struct {
	ID    string
	Stays func() error // says what is wrong when it is gone, is going, or carries our marks
}

// BadOffer is an offer's configuration with one mistake.
type BadOffer struct {
	Config    cty.Value
	Attribute string // that the problem must name
	Near      string // that must be among the suggestions; empty means any
}

// Run runs the suite, or only the named groups of it; setup is called for every test.
func Run(t *testing.T, setup func(t *testing.T) Setup, groups ...string) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Instances", instanceTests()},
		{"Images", imageTests()},
		{"Resolver", resolverTests()},
		{"Sweeper", sweeperTests()},
		{"Console", consoleTests()},
		{"Snapshots", snapshotTests()},
		{"Errors", errorTests()},
	} {
		if len(groups) > 0 && !slices.Contains(groups, group.name) {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) {
					s := newSuite(t, setup(t))
					if test.needs == nil || test.needs(s) {
						test.run(t, s)
					}
				})
			}
		})
	}
}

type test struct {
	name  string
	needs func(*suite) bool // what must be there for the test to mean something
	run   func(*testing.T, *suite)
}

// suite is one test's project and its own installation id, so that tests do not see each other's things.
type suite struct {
	Setup
	installation string
	nodes        atomic.Int64
	first        int64
}

func newSuite(t *testing.T, s Setup) *suite {
	t.Helper()
	s.Settle = orDefault(s.Settle, 30*time.Second)
	s.Poll = orDefault(s.Poll, 20*time.Millisecond)
	s.Many = orDefault(s.Many, 8)
	s.ImageSize = orDefault(s.ImageSize, 1<<20)
	s.ImageFormat = orDefault(s.ImageFormat, "raw")
	result := &suite{Setup: s, installation: "drivertest-" + randomHex(8), first: time.Now().UnixNano() % 1e9 * 10}
	t.Cleanup(func() { result.tidy(t) })
	return result
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func (s *suite) reopened(t *testing.T) drivers.Cloud {
	t.Helper()
	if s.Reopen == nil {
		return s.Cloud
	}
	c := s.Reopen(t)
	t.Cleanup(func() { c.Close() })
	return c
}

// spec is an order for a new instance.
func (s *suite) spec() drivers.Spec {
	id := fmt.Sprintf("%010d", s.first+s.nodes.Add(1))
	return drivers.Spec{
		Marks: resources.Marks{
			Installation: s.installation, Kind: resources.KindNode, ID: id, Provider: "drivertest", Pool: "main",
			Label: "small", Image: "diskimage.debian", Hash: "v1:0123456789abcdef0123456789abcdef",
		},
		Hostname:   "np" + id,
		ImageID:    s.ImageID,
		Zone:       s.Zone,
		Config:     s.Config,
		Properties: map[string]string{"purpose": "drivertest"},
	}
}

func (s *suite) lacks(ability string) bool { return slices.Contains(s.Lacks, ability) }

// tidy removes what the test made, and complains about what will not go.
func (s *suite) tidy(t *testing.T) {
	ctx := t.Context()
	if ctx.Err() != nil {
		ctx = contextWithoutCancel(t)
	}
	s.deleteInstances(ctx, t)
	s.deleteImages(ctx, t)
	s.deleteLeftovers(ctx, t)
}

// content is an image's bytes.
func (s *suite) content() []byte {
	b := make([]byte, s.ImageSize)
	_, _ = io.ReadFull(rand.Reader, b)
	return b
}
