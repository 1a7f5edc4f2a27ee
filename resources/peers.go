package resources

import "strings"

// Peer is a pool that a process serves, as it has made known to the others that serve the same requests.
type Peer struct {
	ID       string // of the pool in that process, from its start to its end; a request that it will not serve lists it
	Own      bool   // this process is the one that serves it
	Host     string // that the process runs on
	Program  string // of the process, and its version, as far as it says; see IsOurs
	Provider string
	Pool     string
	Labels   []string
	Priority int64 // lower goes first
	Paused   bool  // it waits for room and takes on no requests
}

// Presence is what a process registers where several processes work in one store.
type Presence struct {
	Pools   []Peer
	Builder string // id of the builder, of a process that makes images; empty: it makes none
}

// IsOurs reports whether the process that serves the pool is an npctl, which keeps out of the way of others that serve the
// same provider.
func (p *Peer) IsOurs() bool { return p.Own || strings.HasPrefix(p.Program, "npctl") }
