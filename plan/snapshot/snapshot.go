// Package snapshot stores an observed state in a file, for plans without access to the state and the clouds.
package snapshot

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// A snapshot has no secrets: neither keys of the state nor credentials of clouds and nodes nor user data. It has what npctl state pull
// prints, and the listings of the clouds without the objects of others.

// format is the version of the document. It increases when an older npctl would misread a snapshot.
const format = 1

// SizeLimit is the maximum size of a snapshot, in bytes: about 200,000 nodes.
const SizeLimit = 256 << 20

// ErrNotSnapshot: the document is not a snapshot that this npctl can read.
var ErrNotSnapshot = errors.New("not a snapshot")

// Snapshot is an observed state with the names of the clouds.
type Snapshot struct {
	Format  int       `json:"snapshot_format"`
	Meta    plan.Meta `json:"meta"` // Created is the time of the observed state
	Records []Record  `json:"records"`
	// Providers are the configured and recorded providers by name.
	Providers map[string]Provider `json:"providers"`
	// Blocks are the blocks of the configuration in force.
	Blocks []resources.Block `json:"blocks"`

	Files     []plan.ImageFile           `json:"image_files,omitempty"`
	Versions  map[string]plan.SourceView `json:"versions,omitempty"`
	Hosts     map[string]plan.HostsView  `json:"build_hosts,omitempty"`
	Builders  []string                   `json:"builders,omitempty"`
	Tools     map[string]plan.Tools      `json:"tools,omitempty"`
	Converter []plan.Program             `json:"missing_converters,omitempty"`

	Activity Activity `json:"activity"`
}

// Activity is the work of npctl and of the other processes with the same state.
type Activity struct {
	Busy             []resources.Key                     `json:"busy,omitempty"`
	Serving          []plan.Step                         `json:"serving,omitempty"`
	Frozen           map[string]bool                     `json:"frozen,omitempty"`
	LaunchFailures   map[plan.Address]*resources.Failure `json:"launch_failures,omitempty"`
	FailingSteps     map[string]*resources.Failure       `json:"failing_steps,omitempty"`
	Reloaded         time.Time                           `json:"reloaded,omitzero"`
	LockHolder       *plan.LockHolder                    `json:"lock_holder,omitempty"`
	Shared           bool                                `json:"shared,omitempty"`
	RegisteredPools  []resources.RegisteredPool          `json:"registered_pools,omitempty"`
	BuilderID        string                              `json:"builder_id,omitempty"`
	OtherBuilders    map[string]bool                     `json:"other_builders,omitempty"`
	NodepoolBuilders []string                            `json:"nodepool_builders,omitempty"`
	StoreReconnected bool                                `json:"store_reconnected,omitempty"`
	MaxListingAge    time.Duration                       `json:"max_listing_age,omitempty"`
	ForeignClaims    []resources.Key                     `json:"foreign_claims,omitempty"`
	RequestedBuilds  []string                            `json:"requested_builds,omitempty"`
	OwnClaims        []resources.Key                     `json:"own_claims,omitempty"`
	StepEpoch        uint64                              `json:"step_epoch,omitempty"`
}

// Record is a record as stored.
type Record struct {
	Kind     resources.Kind  `json:"kind"`
	Revision uint64          `json:"revision"`
	Record   json.RawMessage `json:"record"`
}

// Provider is the observed state of one provider.
type Provider struct {
	Driver string            `json:"driver,omitempty"` // empty if the provider is not configured
	Format string            `json:"image_format,omitempty"`
	View   plan.ProviderView `json:"view"` // without Offers, CloudImages, Others and Imports
	// Offers and CloudImages are the resolved blocks of the configuration in force.
	Offers      []Offer      `json:"offers,omitempty"`
	CloudImages []CloudImage `json:"cloud_images,omitempty"`
	// Catalogue has the names that a configuration may use; it is nil if the driver has none.
	Catalogue resources.Catalogue `json:"catalogue,omitempty"`
}

// Offer is a resolved offer with the settings that were resolved.
type Offer struct {
	Values map[string]string `json:"settings"`
	View   plan.OfferView    `json:"view"`
}

// CloudImage is a resolved cloud_image block with the settings that were resolved.
type CloudImage struct {
	ID      string                     `json:"image_id,omitempty"`
	Name    string                     `json:"image_name,omitempty"`
	Filters map[string]resources.AnyOf `json:"filters,omitempty"`
	View    plan.CloudImageView        `json:"view"`
}

// New returns a snapshot of an observed state, without Providers.
func New(meta plan.Meta, blocks []resources.Block, seen *plan.Observed) (*Snapshot, error) {
	s := &Snapshot{Format: format, Meta: meta, Blocks: blocks, Providers: map[string]Provider{},
		Files: seen.Files, Versions: seen.Versions, Hosts: seen.Hosts, Builders: seen.Builders, Tools: seen.Tools, Converter: seen.Converter,
		Activity: Activity{
			Busy: sortedKeys(maps.Keys(seen.Busy)), Serving: seen.Serving, Frozen: seen.Frozen, LaunchFailures: seen.LaunchFailures, FailingSteps: seen.FailingSteps,
			Reloaded: seen.Reloaded, LockHolder: seen.LockHolder, Shared: seen.Shared, RegisteredPools: seen.RegisteredPools,
			BuilderID: seen.BuilderID, OtherBuilders: seen.OtherBuilders, NodepoolBuilders: seen.NodepoolBuilders,
			StoreReconnected: seen.StoreReconnected, MaxListingAge: seen.MaxListingAge, ForeignClaims: sortedKeys(maps.Keys(seen.ForeignClaims)),
			RequestedBuilds: seen.RequestedBuilds, OwnClaims: sortedKeys(maps.Keys(seen.OwnClaims)), StepEpoch: seen.StepEpoch,
		}}
	for _, key := range sortedKeys(maps.Keys(seen.Records.Revisions)) {
		record := public(seen.Records.Get(key))
		if record == nil {
			continue // of the journal
		}
		content, err := json.Marshal(record)
		if err != nil {
			return nil, fmt.Errorf("snapshot of %s: %w", key, err)
		}
		s.Records = append(s.Records, Record{key.Kind, seen.Records.Revisions[key], content})
	}
	return s, nil
}

// public returns a record without the data of users.
func public(record resources.Record) resources.Record {
	switch r := record.(type) {
	case *resources.Node:
		n := *r
		n.UserData, n.DriverData = "", ""
		return &n
	case *resources.Request:
		q := *r
		q.Data = nil
		return &q
	default:
		return record
	}
}

// Observed returns the observed state. It has neither providers nor the fields that depend on the configuration of a plan.
func (s *Snapshot) Observed() (plan.Observed, error) {
	a := &s.Activity
	seen := plan.Observed{Now: s.Meta.Created, Installation: s.Meta.Lineage,
		Files: s.Files, Versions: s.Versions, Hosts: s.Hosts, Builders: s.Builders, Tools: s.Tools, Converter: s.Converter,
		Busy: setOf(a.Busy), Serving: a.Serving, Frozen: a.Frozen, LaunchFailures: a.LaunchFailures, FailingSteps: a.FailingSteps,
		Reloaded: a.Reloaded, LockHolder: a.LockHolder, Shared: a.Shared, RegisteredPools: a.RegisteredPools,
		BuilderID: a.BuilderID, OtherBuilders: a.OtherBuilders, NodepoolBuilders: a.NodepoolBuilders,
		StoreReconnected: a.StoreReconnected, MaxListingAge: a.MaxListingAge, ForeignClaims: setOf(a.ForeignClaims),
		RequestedBuilds: a.RequestedBuilds, OwnClaims: setOf(a.OwnClaims), StepEpoch: a.StepEpoch}
	seen.Records.Revisions = make(map[resources.Key]uint64, len(s.Records))
	for i, r := range s.Records {
		record := resources.NewRecord(r.Kind)
		if record == nil {
			return seen, fmt.Errorf("%w: record %d has the kind %q, which this npctl does not know", ErrNotSnapshot, i, text.Line(string(r.Kind)))
		}
		if err := json.Unmarshal(r.Record, record); err != nil {
			return seen, fmt.Errorf("%w: record %d: %w", ErrNotSnapshot, i, err)
		}
		seen.Records.Put(record, r.Revision)
	}
	if unknown := plan.RestoreKinds(seen.Serving); unknown != nil {
		return seen, fmt.Errorf("%w: step %q has the action %q, which this npctl does not support", ErrNotSnapshot, unknown.ID, unknown.Action)
	}
	return seen, nil
}

// JSON returns the snapshot as one JSON document.
func (s *Snapshot) JSON() ([]byte, error) {
	doc, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return append(text.JSON(doc), '\n'), nil
}

// Read reads a snapshot. The error is an ErrNotSnapshot.
func Read(doc []byte) (*Snapshot, error) {
	var s Snapshot
	switch err := json.Unmarshal(doc, &s); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrNotSnapshot, err)
	case s.Format == 0:
		return nil, fmt.Errorf("%w: it has no snapshot_format", ErrNotSnapshot)
	case s.Format != format:
		return nil, fmt.Errorf("%w: npctl %s wrote it in format %d, and this npctl reads format %d", ErrNotSnapshot, text.Line(s.Meta.NpctlVersion), s.Format, format)
	}
	return &s, nil
}

func sortedKeys(keys iter.Seq[resources.Key]) []resources.Key {
	return slices.SortedFunc(keys, func(a, b resources.Key) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID)) })
}

func setOf(keys []resources.Key) map[resources.Key]bool {
	if keys == nil {
		return nil
	}
	set := make(map[resources.Key]bool, len(keys))
	for _, key := range keys {
		set[key] = true
	}
	return set
}

// Offer returns an offer with the same settings as the cloud has resolved it.
func (p *Provider) Offer(o *resources.Offer) (plan.OfferView, bool) {
	i := slices.IndexFunc(p.Offers, func(known Offer) bool { return maps.Equal(known.Values, o.Values) })
	if i < 0 {
		return plan.OfferView{}, false
	}
	return p.Offers[i].View, true
}

// CloudImage returns a cloud_image block with the same settings as the cloud has resolved it.
func (p *Provider) CloudImage(spec resources.CloudImageSpec) (plan.CloudImageView, bool) {
	i := slices.IndexFunc(p.CloudImages, func(known CloudImage) bool {
		return known.ID == spec.ImageID && known.Name == cmp.Or(spec.Image, spec.Name) && maps.EqualFunc(known.Filters, spec.Filters, slices.Equal[resources.AnyOf])
	})
	if i < 0 {
		return plan.CloudImageView{}, false
	}
	return p.CloudImages[i].View, true
}
