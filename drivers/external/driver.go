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
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/process"
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
