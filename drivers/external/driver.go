// Package external is a driver for programs: npctl runs a program for each call of a Cloud, with the request as JSON on
// stdin and the response as JSON on stdout. docs/drivers/external.md is the protocol.
//
// Rules:
//
//  1. Every call is a process of its own. Calls may run at the same time, also for the same instance.
//  2. Only a response with an error object is a known outcome. After a non-zero exit status, an invalid response or a
//     timeout, the program may have done its work.
//  3. The end of the context kills the process group of the program. After a normal end npctl kills nothing, so that a
//     program may leave processes behind.
package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
)

// Driver opens Clouds that are programs.
type Driver struct{}

var _ drivers.Driver = (*Driver)(nil)

// New returns the driver.
func New() *Driver { return &Driver{} }

// Kind implements drivers.Driver.
func (*Driver) Kind() string { return "external" }

// Open implements drivers.Driver. It runs the calls describe and open.
func (*Driver) Open(ctx context.Context, env drivers.Env, config cty.Value) (drivers.Cloud, error) {
	var s providerSettings
	if err := schema.Decode(config, &s); err != nil {
		return nil, fmt.Errorf("%w: %w", drivers.ErrRejected, err)
	}
	p, err := newProgram(env, s)
	if err != nil {
		return nil, rejectedf("%w", err)
	}
	var run caller = &native{p}
	if s.Protocol == protocolGARM {
		if run, err = newGARM(p, env, s); err != nil {
			return nil, rejectedf("%w", err)
		}
	}
	c := &cloud{run: run, mask: masker{process.NewMasker(p.secrets)}, provider: providerJSON{
		Name: env.Provider, Installation: env.Installation, Directory: p.dir, Settings: s.Settings, Secrets: s.Secrets,
	}}
	if err := c.open(ctx); err != nil {
		return nil, err
	}
	return c.withAbilities(), nil
}

// newProgram finds the program and creates its working directory.
func newProgram(env drivers.Env, s providerSettings) (*program, error) {
	if len(s.Command) == 0 {
		return nil, fmt.Errorf("command is empty: write a program and its arguments")
	}
	path, err := osexec.LookPath(s.Command[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; write a path such as \"${path.config}/driver.sh\", or install the program", err)
	}
	dir := env.Dir
	if dir == "" {
		return nil, fmt.Errorf("there is no directory for the files of %s", s.Command[0])
	}
	if dir, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, err
	}
	p := &program{path: path, args: s.Command, dir: dir, log: env.Log, secrets: secretsOf(s)}
	p.env = environment(os.Environ(), s)
	return p, nil
}

func wireSpec(spec drivers.Spec) (*specJSON, error) {
	s, err := decodeOffer(spec.Config)
	return &specJSON{ownerJSON: ownerOf(spec.Marks), Hostname: spec.Hostname, Zone: spec.Zone, Settings: s.Settings,
		Properties: spec.Properties, MaybeCreated: spec.MaybeCreated}, err
}

// Create implements drivers.Cloud.
func (c *cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	wire, err := wireSpec(spec)
	if err != nil {
		return resources.Instance{}, err
	}
	if problems := c.checkLabel(wire.Settings); len(problems) > 0 {
		return resources.Instance{}, rejectedf("%s", problemText(problems))
	}
	return c.instance(ctx, request{Call: callCreate, Spec: wire})
}

// instance makes a call with an instance as its response.
func (c *cloud) instance(ctx context.Context, r request) (i resources.Instance, err error) {
	err = c.call(ctx, r, func(got response) error {
		if i, err = got.Instance.instance(); err != nil {
			return fmt.Errorf("%s: %w", r.Call, err)
		}
		return nil
	})
	return i, err
}

// Advance implements drivers.Cloud.
func (c *cloud) Advance(ctx context.Context, spec drivers.Spec, seen resources.Instance) (resources.Instance, error) {
	if !c.description.can(callAdvance) || seen.Status != resources.StatusPending {
		return seen, nil
	}
	wire, err := wireSpec(spec)
	if err != nil {
		return resources.Instance{}, err
	}
	return c.instance(ctx, request{Call: callAdvance, Spec: wire, Instance: wireInstance(seen)})
}

// Delete implements drivers.Cloud. The program compares the ownership tags.
func (c *cloud) Delete(ctx context.Context, id string, expected resources.OwnerTags) error {
	owner := ownerOf(expected)
	return c.call(ctx, request{Call: callDelete, ID: id, Expected: &owner}, func(response) error { return nil })
}

// List implements drivers.Cloud.
func (c *cloud) List(ctx context.Context) ([]resources.Instance, error) {
	var list []resources.Instance
	err := c.call(ctx, request{Call: callList}, func(got response) error {
		if got.Instances == nil {
			return fmt.Errorf(`list: the response has no "instances"; without instances it is []`)
		}
		list = make([]resources.Instance, 0, len(*got.Instances))
		seen := make(map[string]bool, len(*got.Instances))
		for _, wire := range *got.Instances {
			i, err := wire.instance()
			if err == nil && seen[i.ID] {
				err = fmt.Errorf("two instances have the id %q", i.ID)
			}
			if err != nil {
				return fmt.Errorf("list: %w", err)
			}
			seen[i.ID] = true
			list = append(list, i)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// Quota implements drivers.Cloud. A program without this call has no limits.
func (c *cloud) Quota(ctx context.Context) (resources.Quota, error) {
	if err := ctx.Err(); err != nil {
		return resources.Quota{}, err
	}
	if !c.description.can(callQuota) {
		return resources.Quota{Limit: resources.NoLimits()}, nil
	}
	var quota resources.Quota
	err := c.call(ctx, request{Call: callQuota}, func(got response) (err error) {
		if quota, err = got.Quota.quota(); err != nil {
			return fmt.Errorf("quota: %w", err)
		}
		return nil
	})
	return quota, err
}

// quota converts the quota of a response. A limit without a value is unlimited.
func (q *quotaJSON) quota() (resources.Quota, error) {
	result := resources.Quota{Limit: resources.NoLimits()}
	if q == nil {
		return result, errors.New(`the response has no "quota"`)
	}
	result.Used = q.Used
	if len(q.Limit) > 0 {
		if err := json.Unmarshal(q.Limit, &result.Limit); err != nil {
			return result, fmt.Errorf("limit: %w", err)
		}
	}
	return result, nil
}

// consoleReader adds drivers.Console.
type consoleReader struct{ of *cloud }

var _ drivers.Console = consoleReader{}

// ConsoleLog implements drivers.Console.
func (o consoleReader) ConsoleLog(ctx context.Context, id string) (string, error) {
	var log string
	err := o.of.call(ctx, request{Call: callConsole, ID: id}, func(got response) error {
		if got.Console == nil {
			return errors.New(`console: the response has no "console"`)
		}
		log = *got.Console
		return nil
	})
	return cloudkit.Console(log), err
}

// accessor adds drivers.Accessor.
type accessor struct{ of *cloud }

var _ drivers.Accessor = accessor{}

// Access implements drivers.Accessor.
func (a accessor) Access(ctx context.Context, id string) (string, error) {
	var access string
	err := a.of.call(ctx, request{Call: callAccess, ID: id}, func(got response) error {
		if access = string(got.Access); access == "" {
			return errors.New(`access: the response has no "access"`)
		}
		return nil
	})
	return access, err
}
