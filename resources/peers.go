package resources

import "strings"

// RegisteredPool is a pool that a process serves and has registered for the other processes that serve the same
// requests.
type RegisteredPool struct {
	ID       string // valid while the process runs; a request that the pool declined lists it
	Own      bool   // served by this process
	Host     string // host of the process
	Program  string // name and version of the program, as registered; see IsNpctl
	Provider string
	Pool     string
	Labels   []string
	Priority int64 // lower goes first
	Paused   bool  // it accepts no requests: it waits for capacity, its process is a standby, or its provider does not respond
}

// Presence is the pools and the builder that a process registers for other processes in a shared store.
type Presence struct {
	Pools   []RegisteredPool
	Builder string // builder ID of the process; empty if it does not build images
}

// IsNpctl reports whether the process that serves the pool is an npctl. Processes of npctl elect a leader for each
// provider; other programs do not.
func (p *RegisteredPool) IsNpctl() bool { return p.Own || strings.HasPrefix(p.Program, "npctl") }
