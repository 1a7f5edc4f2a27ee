package resources

// Peer is a pool that a process serves, as it has made known to the others that serve the same requests.
type Peer struct {
	ID       string // of the pool in that process, from its start to its end; a request that it will not serve lists it
	Own      bool   // this process is the one that serves it
	Host     string // that the process runs on
	Provider string
	Pool     string
	Labels   []string
	Priority int64 // lower goes first
	Paused   bool  // it waits for room and takes on no requests
}
