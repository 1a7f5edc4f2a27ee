package qemu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
	"github.com/npctl/npctl/resources"
)

// Create implements drivers.Cloud. The ID of a machine follows from that of its record, so a repeated call finds the
// machine, and starts it if an earlier call was interrupted before that.
func (c *Cloud) Create(ctx context.Context, spec drivers.Spec) (resources.Instance, error) {
	doing := "create machine " + spec.Hostname
	if err := ctx.Err(); err != nil {
		return resources.Instance{}, drivers.Unsent(fmt.Errorf("%s: %w", doing, err))
	}
	b, err := c.bootOf(spec)
	if err != nil {
		return resources.Instance{}, fmt.Errorf("%s: %w", doing, err)
	}
	m, lock, err := c.reserve(ctx, b)
	if err != nil {
		return resources.Instance{}, fmt.Errorf("%s: %w", doing, err)
	}
	if lock == nil { // it starts, runs or has ended
		return c.instance(m), nil
	}
	b.machine = m
	err = c.start(ctx, &b, lock)
	if err := errors.Join(err, lock.Close()); err != nil {
		return resources.Instance{}, fmt.Errorf("%s: %w", doing, err)
	}
	return c.instance(b.machine), nil
}

// boot is a machine with all that its start needs.
type boot struct {
	machine machine
	offer   poolSettings
	image   imageFile
	// sandboxed means that QEMU blocks system calls that it does not need.
	sandboxed bool
}

// bootOf checks the Spec and returns the machine that it asks for.
func (c *Cloud) bootOf(spec drivers.Spec) (boot, error) {
	o, err := offerOf(spec.Config)
	if err != nil {
		return boot{}, err
	}
	image, err := c.imageFile(spec.ImageID)
	if err != nil {
		return boot{}, err
	}
	if size := o.Disk << 30; size > 0 && size < image.VirtualSize {
		return boot{}, drivers.Rejectf("disk is %d GB, the disk in image %s has %d bytes; enlarge disk", o.Disk, spec.ImageID, image.VirtualSize)
	}
	if p := c.offerProblem(o); p != nil {
		return boot{}, drivers.Rejectf("%s: %s", p.Attribute, p.Detail)
	}
	return boot{offer: o, image: image, machine: machine{
		ID: idOf(spec.Marks), Name: spec.Hostname, Tags: resources.OwnerJSON(spec.Marks), Created: time.Now().UTC().Round(0),
		Cores: o.Cores, RAM: o.RAM, Username: o.User, Image: spec.ImageID,
	}}, nil
}

// reserve adds a machine to the directory, with its port, and returns it with its lock. It returns no lock if the machine
// starts or was started before.
func (c *Cloud) reserve(ctx context.Context, b boot) (machine, *os.File, error) {
	unlock, err := c.lockDirectory(ctx)
	if err != nil {
		return machine{}, nil, drivers.Unsent(err)
	}
	defer unlock()
	m := b.machine
	there, found, err := c.read(m.ID)
	if err != nil {
		return machine{}, nil, err
	}
	if found && c.hasRun(m.ID) {
		return there, nil, nil
	}
	c.removeInterrupted()
	all, err := c.all()
	if err != nil {
		return machine{}, nil, drivers.Unsent(err)
	}
	if found {
		m.Created, m.Port = there.Created, there.Port
	} else if err := cloudkit.CheckQuota(c.limits, used(all).Plus(m.amounts())); err != nil {
		return machine{}, nil, err
	} else if m.Port, err = freePort(all); err != nil {
		return machine{}, nil, drivers.Unsent(err)
	}
	if err := makeDirectory(c.directoryOf(m.ID)); err != nil {
		return machine{}, nil, drivers.Unsent(err)
	}
	lock, err := c.lockMachine(m.ID)
	if err != nil {
		return machine{}, nil, drivers.Unsent(err)
	}
	if lock == nil {
		return there, nil, nil // another npctl starts it
	}
	if err := c.write(m); err != nil {
		return machine{}, nil, errors.Join(err, lock.Close())
	}
	return m, lock, nil
}

// makeDirectory creates a directory, or accepts an existing one: of an interrupted call, or with files that others have added.
func makeDirectory(path string) error {
	err := os.Mkdir(path, 0o700)
	if info, statErr := os.Lstat(path); errors.Is(err, fs.ErrExist) && statErr == nil && info.IsDir() {
		return nil
	}
	return err
}
