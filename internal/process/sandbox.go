package process

import "errors"

// Sandbox lists the files that a program may open, besides the programs and libraries of the system in /usr, /lib and
// the like, and /dev/null, zero and urandom. Paths are absolute, and the same inside the sandbox.
type Sandbox struct {
	Read  []string // files
	Write []string // existing files
}

// errNoSandbox is wrapped by the error of a system that does not permit sandboxes.
var errNoSandbox = errors.New("this system does not permit a sandbox")
