// Package conformance checks a Cloud against the contract of package drivers, for authors of external drivers. It is the
// part of the suite drivertest that needs no test program and no knowledge of the cloud.
package conformance

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/resources"
)

// Options describe the provider to check. The checks create at most eight instances, delete them, and change nothing
// else.
type Options struct {
	// Open opens the provider; the checks open it twice.
	Open         func(context.Context) (drivers.Cloud, error)
	Installation string        // that of the environment with which Open opens the provider
	Config       cty.Value     // a valid offer
	Settle       time.Duration // in which the cloud completes an accepted operation
	Poll         time.Duration // between two lists
}

// Status is the outcome of a check.
type Status string

// The outcomes of checks.
const (
	OK      Status = "ok"
	Failed  Status = "failed"
	Omitted Status = "omitted" // the program lacks the ability, or an earlier check failed
)

// Result is the outcome of one check.
type Result struct {
	Check   string  `json:"check"`
	Status  Status  `json:"status"`
	Seconds float64 `json:"seconds"`
	Detail  string  `json:"detail,omitempty"` // the error, or why it was omitted
}

// run is one run of the checks.
type run struct {
	Options
	cloud drivers.Cloud
	count int

	// The instance of most checks.
	spec  drivers.Spec
	ready resources.Instance
	offer resources.ResolvedOffer
}

// check is one check. needed means that later checks make no sense without it.
type check struct {
	name   string
	needed bool
	run    func(context.Context, *run) error
}

// errOmitted is the error of a check that does not apply.
var errOmitted = errors.New("the program does not have this ability")

var checks = []check{
	{"the program describes itself and opens the provider", true, open},
	{"the settings are valid", true, settings},
	{"list returns all instances", true, func(ctx context.Context, r *run) error { _, err := r.cloud.List(ctx); return err }},
	{"the quota has limits", false, quota},
	{"create returns an instance with its tags", true, create},
	{"the instance becomes ready", true, becomesReady},
	{"the instance uses the resources of the offer", false, resourcesMatch},
	{"another process lists the same instance", false, listedAgain},
	{"a repeated create returns the same instance", false, createAgain},
	{"a killed create leaves at most one instance", false, killedCreate},
	{"creates at the same time do not disturb each other", false, parallel},
	{"an offer with an unknown setting is rejected before a call", false, unknownSetting},
	{"the console can be read", false, console},
	{"access is a JSON object", false, access},
	{"delete refuses other owners", false, otherOwners},
	{"delete of a missing instance is no error", false, deleteMissing},
	{"delete removes the instance and may be repeated", false, deleteTwice},
}

// Run runs all checks and reports each result. It deletes its instances at the end, also after ctx has ended.
func Run(ctx context.Context, o Options, report func(Result)) {
	r := &run{Options: o}
	missing := ""
	for _, c := range checks {
		result := Result{Check: c.name, Status: Omitted, Detail: missing}
		if missing == "" {
			start := time.Now()
			err := c.run(ctx, r)
			result = resultOf(c.name, err, time.Since(start))
			if result.Status == Failed && c.needed {
				missing = fmt.Sprintf("because of the failed check %q", c.name)
			}
		}
		report(result)
	}
	if r.cloud == nil {
		return
	}
	start := time.Now()
	err := r.tidy(context.WithoutCancel(ctx))
	report(resultOf("nothing remains", err, time.Since(start)))
	_ = r.cloud.Close()
}

func resultOf(name string, err error, took time.Duration) Result {
	result := Result{Check: name, Status: OK, Seconds: took.Seconds()}
	switch {
	case errors.Is(err, errOmitted):
		result.Status, result.Detail = Omitted, err.Error()
	case err != nil:
		result.Status, result.Detail = Failed, err.Error()
	}
	return result
}

// newSpec returns the Spec of a new instance.
func (r *run) newSpec() drivers.Spec {
	r.count++
	id := fmt.Sprintf("%010d", r.count)
	return drivers.Spec{
		Marks: resources.OwnerTags{Installation: r.Installation, Kind: resources.KindNode, ID: id, Provider: "conformance", Pool: "main",
			Label: "small", Hash: "v1:0123456789abcdef0123456789abcdef"},
		Hostname: "npctl-check-" + id, Config: r.Config, Properties: map[string]string{"purpose": "conformance"},
	}
}

// NewInstallation returns the ID of an installation that nothing else has.
func NewInstallation() string { return "conformance-" + strings.ToLower(rand.Text()[:12]) }

// listed returns the only instance of a record.
func (r *run) listed(ctx context.Context, c drivers.Cloud, marks resources.OwnerTags) (resources.Instance, error) {
	list, err := c.List(ctx)
	if err != nil {
		return resources.Instance{}, err
	}
	list = slices.DeleteFunc(list, func(i resources.Instance) bool { return !i.Marks.SameRecord(marks) })
	if len(list) != 1 {
		return resources.Instance{}, fmt.Errorf("list has %d instances with the tags of record %s, want 1", len(list), marks.ID)
	}
	return list[0], nil
}

// eventually repeats a function until it returns no error, for at least the settle time after its first attempt: programs
// may need longer than that for one attempt.
func (r *run) eventually(ctx context.Context, do func() error) error {
	err := do()
	for deadline := time.Now().Add(r.Settle); err != nil; err = do() {
		if time.Now().After(deadline) {
			return fmt.Errorf("after %s: %w", r.Settle, err)
		}
		if ended := waits.Sleep(ctx, r.Poll); ended != nil {
			return errors.Join(ended, err)
		}
	}
	return nil
}

// tidy deletes all instances of the run.
func (r *run) tidy(ctx context.Context) error {
	return r.eventually(ctx, func() error {
		list, err := r.cloud.List(ctx)
		if err != nil {
			return err
		}
		remaining := map[string]resources.Status{}
		for _, i := range list {
			if i.Marks.Installation != r.Installation {
				continue
			}
			remaining[i.ID] = i.Status
			if i.Status != resources.StatusDeleting {
				err = errors.Join(err, r.cloud.Delete(ctx, i.ID, i.Marks))
			}
		}
		if len(remaining) > 0 {
			err = errors.Join(err, fmt.Errorf("these instances remain: %v", slices.Sorted(maps.Keys(remaining))))
		}
		return err
	})
}
