package external

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/npctl/npctl/resources"
)

// version is the version of the protocol.
const version = 1

// The calls of the protocol.
const (
	callDescribe = "describe"
	callOpen     = "open"
	callCreate   = "create"
	callAdvance  = "advance"
	callDelete   = "delete"
	callList     = "list"
	callQuota    = "quota"
	callResolve  = "resolve_offer"
	callAccess   = "access"
	callConsole  = "console"
)

// optionalCalls are the calls that a program announces as abilities.
var optionalCalls = []string{callAdvance, callQuota, callResolve, callAccess, callConsole}

// caller makes a call of the protocol.
type caller interface {
	// do fills response. An error that is not a *callError has an unknown outcome.
	do(ctx context.Context, r request, response *response) error
}

// request is the document on stdin.
type request struct {
	Protocol int           `json:"npctl_protocol"`
	Call     string        `json:"call"`
	Provider providerJSON  `json:"provider"`
	ID       string        `json:"id,omitempty"`       // delete, access, console
	Expected *ownerJSON    `json:"expected,omitempty"` // delete
	Spec     *specJSON     `json:"spec,omitempty"`     // create, advance
	Instance *instanceJSON `json:"instance,omitempty"` // advance
	Offer    *offerJSON    `json:"offer,omitempty"`    // resolve_offer
}

type providerJSON struct {
	Name         string            `json:"name"`
	Installation string            `json:"installation"`
	Directory    string            `json:"directory"`
	Settings     map[string]string `json:"settings,omitempty"`
	Secrets      map[string]string `json:"secrets,omitempty"`
}

// ownerJSON are ownership tags with their short form.
type ownerJSON struct {
	Owner string               `json:"owner"`
	Tags  *resources.OwnerJSON `json:"tags,omitempty"`
}

type specJSON struct {
	ownerJSON
	Hostname     string            `json:"hostname"`
	Zone         string            `json:"zone,omitempty"`
	Settings     map[string]string `json:"settings,omitempty"`
	Properties   map[string]string `json:"properties,omitempty"`
	MaybeCreated bool              `json:"maybe_created"`
}

type offerJSON struct {
	Settings map[string]string `json:"settings,omitempty"`
	Zones    []string          `json:"zones,omitempty"`
}

// response is the document on stdout.
type response struct {
	listResponse
	description                 // describe
	Location    string          `json:"location,omitempty"` // open
	Instance    *instanceJSON   `json:"instance,omitempty"` // create, advance
	Quota       *quotaJSON      `json:"quota,omitempty"`
	Offer       *resolvedJSON   `json:"offer,omitempty"`
	Problems    []problemJSON   `json:"problems,omitempty"` // resolve_offer
	Access      json.RawMessage `json:"access,omitempty"`
	Console     *string         `json:"console,omitempty"`
}

// listResponse are the fields of a response to list.
type listResponse struct {
	Error     *errorJSON              `json:"error,omitempty"`
	Instances *listJSON[instanceJSON] `json:"instances,omitempty"`
}

// maxInstances is a number of instances that no provider has.
const maxInstances = 100_000

// listJSON is a list of instances. An instance takes hundreds of times the memory of its shortest text, so the decoding ends
// at the first invalid one, and at maxInstances.
type listJSON[T interface{ check() error }] []T

// UnmarshalJSON implements json.Unmarshaler.
func (l *listJSON[T]) UnmarshalJSON(doc []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(doc))
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return errors.New("the instances are no list")
	}
	*l = listJSON[T]{}
	for decoder.More() {
		if len(*l) == maxInstances {
			return fmt.Errorf("it has more than %d instances", maxInstances)
		}
		var one T
		if err := decoder.Decode(&one); err != nil {
			return err
		}
		if err := one.check(); err != nil {
			return err
		}
		*l = append(*l, one)
	}
	return nil
}

type instanceJSON struct {
	ID        string                    `json:"id"`
	Name      string                    `json:"name,omitempty"`
	Tags      *resources.OwnerJSON      `json:"tags,omitempty"`
	Status    resources.Status          `json:"status"`
	Fault     string                    `json:"fault,omitempty"`
	FaultKind resources.FaultKind       `json:"fault_kind,omitempty"`
	Addresses resources.Addresses       `json:"addresses,omitzero"`
	Zone      string                    `json:"zone,omitempty"`
	Region    string                    `json:"region,omitempty"`
	Cloud     string                    `json:"cloud,omitempty"`
	HostID    string                    `json:"host_id,omitempty"`
	Flavor    string                    `json:"flavor,omitempty"`
	Resources resources.ResourceAmounts `json:"resources,omitzero"`
	Created   time.Time                 `json:"created,omitzero"`
	HostKeys  []string                  `json:"host_keys,omitempty"`
	Login     resources.Login           `json:"login,omitzero"`
}

type quotaJSON struct {
	Limit json.RawMessage           `json:"limit,omitempty"`
	Used  resources.ResourceAmounts `json:"used,omitzero"`
}

type resolvedJSON struct {
	Flavor    string                    `json:"flavor"`
	Flavors   []string                  `json:"flavors,omitempty"`
	Resources resources.ResourceAmounts `json:"resources,omitzero"`
	Zones     []string                  `json:"zones,omitempty"`
}

type problemJSON struct {
	Setting     string   `json:"setting"`
	Value       string   `json:"value,omitempty"`
	Detail      string   `json:"detail"`
	Suggestions []string `json:"suggestions,omitempty"`
}

// ownerOf returns the short form of ownership tags; it names the record.
func ownerOf(marks resources.OwnerTags) ownerJSON {
	if marks == (resources.OwnerTags{}) {
		return ownerJSON{}
	}
	tags := resources.OwnerJSON(marks)
	return ownerJSON{Owner: strings.Join([]string{marks.Installation, string(marks.Kind), marks.ID}, "/"), Tags: &tags}
}

var statuses = []resources.Status{resources.StatusPending, resources.StatusReady, resources.StatusFailed, resources.StatusDeleting}

var faultKinds = []resources.FaultKind{"", resources.FaultQuota, resources.FaultCapacity, resources.FaultRejected, resources.FaultUnavailable}

// check returns an error for an invalid instance of a response.
func (i instanceJSON) check() error {
	switch {
	case i.ID == "":
		return errors.New("an instance has no id")
	case !slices.Contains(statuses, i.Status):
		return fmt.Errorf("instance %q has the status %q, want one of %q", i.ID, i.Status, statuses)
	case !slices.Contains(faultKinds, i.FaultKind):
		return fmt.Errorf("instance %q has the fault_kind %q, want one of %q", i.ID, i.FaultKind, faultKinds[1:])
	}
	return nil
}

// instance converts an instance of a response.
func (i *instanceJSON) instance() (resources.Instance, error) {
	if i == nil {
		return resources.Instance{}, errors.New(`the response has no "instance"`)
	}
	if err := i.check(); err != nil {
		return resources.Instance{}, err
	}
	result := resources.Instance{
		ID: i.ID, Name: i.Name, Status: i.Status, Fault: i.Fault, FaultKind: i.FaultKind, Addresses: i.Addresses, Zone: i.Zone,
		Region: i.Region, Cloud: i.Cloud, HostID: i.HostID, Flavor: i.Flavor, Resources: i.Resources, Created: i.Created,
		HostKeys: i.HostKeys, Login: i.Login,
	}
	result.Resources.Instances = max(result.Resources.Instances, 1)
	if i.Tags != nil {
		result.Marks = resources.OwnerTags(*i.Tags)
	}
	return result, nil
}

// wireInstance converts an instance for a request.
func wireInstance(i resources.Instance) *instanceJSON {
	return &instanceJSON{
		ID: i.ID, Name: i.Name, Tags: ownerOf(i.Marks).Tags, Status: i.Status, Fault: i.Fault, FaultKind: i.FaultKind,
		Addresses: i.Addresses, Zone: i.Zone, Region: i.Region, Cloud: i.Cloud, HostID: i.HostID, Flavor: i.Flavor,
		Resources: i.Resources, Created: i.Created, HostKeys: i.HostKeys, Login: i.Login,
	}
}
