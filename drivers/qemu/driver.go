// Package qemu runs nodes as virtual machines of QEMU on the host of npctl.
//
// The state is files. Each machine has a directory with its description (machine.go), disk, seed and console. Rules:
//
//   - The description with the ownership tags is written before the process starts and removed after it has ended, as the
//     last file but the lock. A directory, file or link without a description of its own name is foreign, and stays.
//   - Only Create, Advance, Delete and the changes of images change files, and only files with names of npctl. Create also
//     removes the directories that interrupted calls have left, with nothing but a lock.
//   - The process of a machine inherits the locked file "lock" of its directory. The kernel releases the lock when the last
//     process that has it ends, so "locked" means "starts or runs", also right after npctl was killed between two steps.
//   - QEMU holds a lock on its pidfile, for which the kernel reports the process ID. npctl signals only such a process,
//     through a handle that it has opened before it asks, so it cannot hit another process with a reused ID.
//   - Lock order: the lock of the provider's directory, then that of a machine. The first is held only while a machine is
//     added, not while one starts.
package qemu

import (
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/cloudkit"
)

// New returns the driver.
func New() drivers.Driver { return cloudkit.NewDriver("qemu", driverSchema, open) }
