package emulator

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"
)

// Cloud is an open cloud. Several goroutines may call its methods.
type Cloud struct {
	options   Options
	store     *store
	contents  *contents
	faults    *faultBook
	handler   http.Handler
	transport *transport

	closing context.Context // ends with Close and ends hanging calls
	stop    context.CancelFunc

	countMu sync.Mutex
	counts  map[string]int // calls by operation; guarded by countMu
}

// Open opens the cloud, or creates it if its file does not exist.
func Open(options Options) (*Cloud, error) {
	if err := options.check(); err != nil {
		return nil, err
	}
	options.fill()
	now := options.Now()
	store, err := openStore(options.File, func() *cloudState { return newCloudState(options.Zones, options.Range, now) })
	if err != nil {
		return nil, err
	}
	contents := newContents(options.File, options.KeepBytes)
	if err := errors.Join(contents.keepPublicImages(options.Images), store.seed(options, now)); err != nil {
		return nil, err
	}
	c := &Cloud{
		options:  options,
		store:    store,
		contents: contents,
		faults:   newFaultBook(options.Faults, options.FaultFile, options.Seed),
		counts:   map[string]int{},
	}
	c.closing, c.stop = context.WithCancel(context.Background())
	c.handler = newRouter(c)
	c.transport = &transport{cloud: c}
	return c, nil
}

// Handler serves the whole cloud: /identity, /image, /compute, /networking and /volume.
func (c *Cloud) Handler() http.Handler { return c.handler }

// Transport sends requests to the cloud without a socket, regardless of the host. A response that a fault cuts off is
// a transport error, as on a real connection.
func (c *Cloud) Transport() http.RoundTripper { return c.transport }

// Close ends hanging calls and waits for those of the Transport. All changes are in the file already.
func (c *Cloud) Close() error {
	c.stop()
	c.transport.wait()
	return nil
}

// SetFaults replaces the scripted faults. Their counts restart.
func (c *Cloud) SetFaults(faults ...Fault) error {
	for _, f := range faults {
		if err := f.check(); err != nil {
			return err
		}
	}
	c.faults.set(faults)
	return c.store.update(c.options.Now(), func(w *cloudState) error {
		clear(w.FaultHits)
		return nil
	})
}

// Calls returns the number of calls by operation, such as server.list; "total" is their sum.
func (c *Cloud) Calls() map[string]int {
	c.countMu.Lock()
	defer c.countMu.Unlock()
	return maps.Clone(c.counts)
}

// ResetCalls sets all call counts to zero.
func (c *Cloud) ResetCalls() {
	c.countMu.Lock()
	defer c.countMu.Unlock()
	clear(c.counts)
}

func (c *Cloud) count(operation string) {
	c.countMu.Lock()
	defer c.countMu.Unlock()
	c.counts[operation]++
	c.counts["total"]++
}

func (c *Cloud) now() time.Time { return c.options.Now() }

// Access is the access to npctl's own project through the Transport or, with another URL, through Serve.
type Access struct {
	AuthURL, Region, Username, Password, Project, Domain string
}

// Access returns the credentials of npctl's own project.
func (c *Cloud) Access() Access {
	return Access{
		AuthURL: "http://emulator.invalid/identity/v3", Region: Region, Username: User, Password: Password, Project: User, Domain: Domain,
	}
}
