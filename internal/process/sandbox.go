package process

import "errors"

// Sandbox is what a program may open, besides the programs and libraries of the system in /usr, /lib and the like, and
// /dev/null, zero and urandom. Paths are absolute, and the same inside.
type Sandbox struct {
	Read  []string // files
	Write []string // files that are there
}

// errNoSandbox is wrapped by the error of a system that allows none.
var errNoSandbox = errors.New("no sandbox is allowed here")
