// Package drivertest tests the contract of package drivers. Every driver runs it, and a bug in one of them becomes a test
// here.
//
// A Setup gives access to a project and describes legitimate differences: durations, missing abilities, and the states
// that a test can prepare. Missing abilities must be listed in Lacks, so that the suite detects an ability that was lost. A
// field that a test needs may only be unset for a reason, which Omits contains, so that no driver skips a rule unnoticed.
package drivertest

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/testutil"
	"github.com/npctl/npctl/resources"
)

// Setup is a project in which the suite tests a driver. The suite does not change objects that existed before.
type Setup struct {
	Cloud drivers.Cloud
	// Installation is that of all records, if the project is of one installation. Empty means a new one.
	Installation string
	// Reopen opens the same project without cached state. Nil means that Cloud has no cache.
	Reopen func(t *testing.T) drivers.Cloud

	Config  cty.Value // a valid offer, a value of Schema().Label
	ImageID string    // a bootable image
	Zone    string

	// Rejected are changes to a valid Spec after which Create must return ErrRejected.
	Rejected map[string]func(*drivers.Spec)
	// BadOffers are invalid configurations by test name.
	BadOffers map[string]BadOffer
	// FromCatalogue reads a catalogue of the Cloud. Nil means that the Cloud is no drivers.Cataloguer.
	FromCatalogue func(names resources.Catalogue) (drivers.Resolver, error)
	// OpenWrong opens the project with a wrong password and returns the error.
	OpenWrong func(t *testing.T) error
	// Withdraw makes the cloud reject the credentials, such as tokens, that it has issued so far. It issues new ones. In a cloud
	// that cannot do so, it rejects the next call of Create and of List once.
	Withdraw func(t *testing.T)
	// Secrets are texts that no error may contain.
	Secrets []string

	// FillQuota uses up the quota until the test ends.
	FillQuota func(t *testing.T)
	// Exhaust rejects each request for the first type of an offer with two types of instances, with an error of this kind
	// (ErrCapacity or ErrQuota), until the test ends. It returns the offer and the number of these requests so far.
	Exhaust func(t *testing.T, kind error) (offer cty.Value, requests func() int)
	// Foreign creates an instance without npctl's ownership tags and returns its ID.
	Foreign func(t *testing.T) string
	// ForeignImage creates an image without npctl's ownership tags.
	ForeignImage func(t *testing.T) Foreign
	// Attach attaches one object of every kind to an instance, such as volumes, ports and floating IPs, as another
	// user would, without npctl's ownership tags. It omits kinds that the project does not support.
	Attach func(t *testing.T, instance string) []Foreign
	// Copies makes copies, as other users and backup tools do, of an instance (KindNode) or an image (KindUpload) of npctl, with copies of
	// its ownership tags: an image, a disk and a clone of it, an instance like it. It omits kinds that the project does not
	// support, and those that nothing distinguishes (docs/security.md). Stays accepts ownership tags.
	Copies func(t *testing.T, kind resources.Kind, original string) []Foreign
	// Leftovers are the types of objects other than instances that Sweeper.Leftovers lists.
	Leftovers map[string]Leftover
	// LoseNextAnswer makes the next Create return an error although its instance appears.
	LoseNextAnswer func(t *testing.T)
	// Kill opens the project for a client that k kills at its calls that change something.
	Kill func(t *testing.T, k *testutil.Killer) drivers.Cloud
	// Objects returns the sorted kinds and names of all objects that npctl creates and others created, such as "disk a". It
	// omits objects that are being deleted. Kill needs it.
	Objects func(t *testing.T) []string
	// Files returns the files of a Cloud that consists of files, see FilesIn. Only calls of a client change them.
	Files func(t *testing.T) []string
	// Neighbours creates objects of others that resemble those of npctl for a node and an upload: with similar names, or
	// like the remains of an interrupted call.
	Neighbours func(t *testing.T, node drivers.Spec, upload drivers.ImageSpec) []Foreign
	// Spoil are ways in which another user makes a ready instance unusable, by name: stops it, or takes its address.
	Spoil map[string]func(t *testing.T, i resources.Instance)
	// Calls returns the number of API calls so far.
	Calls func() int
	// Alone means that the project has no other users, so that tests can compare quota use.
	Alone bool

	// NoSnapshot is the configuration of an offer without snapshot support, if there is one.
	NoSnapshot cty.Value
	// Damage corrupts the next read of an image: "cut" ends it in the middle, "changed" alters its content.
	Damage func(t *testing.T, how string)

	// Lacks names abilities that the Cloud does not have: images, cloud images, resolver, sweeper, console, access,
	// snapshots, adopter, amounts (instances have no cores and RAM of their own).
	Lacks []string
	// Omits has the reason of each unset field without which the suite cannot run a test: why the rule cannot be broken in this
	// cloud, or which test checks it instead. Its keys are names of fields, from Rejected to Damage, and types that Leftovers lacks.
	Omits map[string]string
	// Settle is the time within which the cloud completes an accepted operation; default 30 s.
	Settle time.Duration
	// Many is the number of instances in the test of parallel calls; default 8.
	Many int
	// ImageSize is the size of test images in bytes; default 1 MiB.
	ImageSize int
	// ImageFormat is the format of test images, which contain random bytes; default raw.
	ImageFormat string
}

// NotCreated is the reason in Setup.Omits for types of leftovers that a driver never creates. It returns reasons, with others for some types.
func NotCreated(others map[string]string, types ...string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, others)
	for _, kind := range types {
		all[kind] = "the driver creates none"
	}
	return all
}

// Leftover describes a type of resources.LeftoverTypes in a project.
type Leftover struct {
	// Leave creates an object with these ownership tags. With zero tags it creates one of another user, which the test's end deletes.
	Leave func(t *testing.T, marks resources.OwnerTags) resources.Leftover
	// Use makes a new object of another user use a leftover, and returns the end of the use. Nil needs Unused.
	Use    func(t *testing.T, l resources.Leftover) (end func())
	Unused string // why nothing uses such an object
	OfAny  bool   // both nodes and uploads have objects of the type
	// Stays returns an error when an object is gone. It is for types that the cloud selects by ownership tags only: to DeleteLeftover,
	// an object without them does not exist.
	Stays func(t *testing.T, id string) error
}

// Foreign is an object in the project that npctl did not create.
type Foreign struct {
	ID    string
	Stays func() error // returns an error when it is gone, being deleted, or carries npctl's ownership tags
}

// BadOffer is an offer's configuration with one error.
type BadOffer struct {
	Config    cty.Value
	Attribute string // must be named by the problem
	Near      string // must be one of the suggestions; empty means any
}

// RunInBubble is Run with the time of testing/synctest. The cloud has to be in this process, without connections to it.
func RunInBubble(t *testing.T, setup func(t *testing.T) Setup, groups ...string) {
	run(t, setup, synctest.Test, groups)
}

// Run runs the suite, or only the named groups. It calls setup for every test.
func Run(t *testing.T, setup func(t *testing.T) Setup, groups ...string) {
	run(t, setup, func(t *testing.T, f func(*testing.T)) { f(t) }, groups)
}

func run(t *testing.T, setup func(t *testing.T) Setup, around func(*testing.T, func(*testing.T)), groups []string) {
	t.Helper()
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"Instances", instanceTests()},
		{"Images", imageTests()},
		{"Resolver", resolverTests()},
		{"Catalogue", catalogueTests()},
		{"Sweeper", sweeperTests()},
		{"Console", consoleTests()},
		{"Access", accessTests()},
		{"Snapshots", snapshotTests()},
		{"Adopter", adopterTests()},
		{"Copies", copyTests()},
		{"NodeUser", nodeUserTests()},
		{"Foreign", foreignTests()},
		{"Errors", errorTests()},
		{"Kills", killTests()},
		{"ImageKills", imageKillTests()},
	} {
		if len(groups) > 0 && !slices.Contains(groups, group.name) {
			continue
		}
		t.Run(group.name, func(t *testing.T) {
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) {
					around(t, func(t *testing.T) {
						s := newSuite(t, setup(t))
						if missing := s.missing(t, test.needs); missing != "" {
							t.Log("not run: " + missing)
							return
						}
						test.run(t, s)
					})
				})
			}
		})
	}
}

type test struct {
	name  string
	needs []string // abilities, and names of fields of the Setup
	run   func(*testing.T, *suite)
}

// missing returns what a test needs and the project does not have, with the reason, or "". An unset field without a reason is an error.
func (s *suite) missing(t *testing.T, needs []string) string {
	t.Helper()
	for _, need := range needs {
		field := reflect.ValueOf(s.Setup).FieldByName(need)
		switch {
		case !field.IsValid():
			if !s.has(need) {
				return "the driver has no " + need
			}
		case field.Kind() == reflect.Map && field.Len() > 0, field.Kind() != reflect.Map && !field.IsZero():
			if s.Omits[need] != "" {
				t.Errorf("Setup.Omits has a reason for %s, which is set", need)
			}
		case s.Omits[need] == "":
			t.Errorf("Setup.%s is unset, and Setup.Omits has no reason for it", need)
			return need
		default:
			return "Setup." + need + ": " + s.Omits[need]
		}
	}
	return ""
}

// has reports an ability of the Cloud.
func (s *suite) has(ability string) (ok bool) {
	switch ability {
	case "batches":
		return drivers.DeletesInBatches(s.Cloud)
	case "nodes":
		_, ok = drivers.NodeUserOf(s.Cloud)
		return ok
	case "catalogue":
		return s.FromCatalogue != nil
	}
	return !s.lacks(ability)
}

// suite is one test's project with a separate installation ID, so that tests do not see each other's objects.
type suite struct {
	Setup
	installation string
	nodes        atomic.Int64
	first        int64
}

func newSuite(t *testing.T, s Setup) *suite {
	t.Helper()
	s.Settle = orDefault(s.Settle, 30*time.Second)
	s.Many = orDefault(s.Many, 8)
	s.ImageSize = orDefault(s.ImageSize, 1<<20)
	s.ImageFormat = orDefault(s.ImageFormat, "raw")
	result := &suite{Setup: s, installation: orDefault(s.Installation, "drivertest-"+randomHex(8)), first: time.Now().UnixNano() % 1e9 * 10}
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

// spec returns the Spec of a new instance.
func (s *suite) spec() drivers.Spec {
	id := fmt.Sprintf("%010d", s.first+s.nodes.Add(1))
	return drivers.Spec{
		Marks: resources.OwnerTags{
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

// tidy removes the objects of the test and reports the remaining ones.
func (s *suite) tidy(t *testing.T) {
	ctx := t.Context()
	if ctx.Err() != nil {
		ctx = contextWithoutCancel(t)
	}
	s.deleteInstances(ctx, t)
	s.deleteImages(ctx, t)
	s.deleteLeftovers(ctx, t)
}

// content returns the bytes of a new image.
func (s *suite) content() []byte {
	b := make([]byte, s.ImageSize)
	_, _ = io.ReadFull(rand.Reader, b)
	return b
}
