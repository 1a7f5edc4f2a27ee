// Package reconcile brings the world in line with a plan: it observes what is, and executes steps.
//
// Every step writes its intent with its final id, does the deed, tagged with that id, and writes the result. Everything
// may therefore be killed anywhere and run again. "Could not look" is never taken for "gone".
package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Options is what an Engine works with. Store, Drivers and Desired are needed.
type Options struct {
	Desired  resources.Desired
	HashKey  resources.HashKey // of the state
	Store    state.Store
	Drivers  map[string]drivers.Driver   // by kind
	Builders map[string]builders.Builder // by kind
	DataDir  string                      // for files of drivers; one folder a provider
	Builds   int                         // local builds at a time, in place of what the configuration says; 0: what it says
	Log      *slog.Logger
	Now      func() time.Time
	// Report, when set, is told what happens while steps run. It is called from many goroutines, one call at a time.
	Report func(Event)
	// WrapTransport, when set, is put around every HTTP transport.
	WrapTransport func(http.RoundTripper) http.RoundTripper
	// RunQemuImg runs qemu-img; process.Run when nil.
	RunQemuImg func(context.Context, process.Spec) error
}

// Engine observes and executes for one configuration and one store. Close it after use.
type Engine struct {
	Options
	host string
	keys map[string]cloudKey // of the configured providers
	*connections

	reporting *sync.Mutex // held while Report runs
}

// New returns an engine. It connects to nothing yet.
func New(o Options) *Engine {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Desired = o.Desired.WithHashKey(o.HashKey)
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	e := &Engine{Options: o, host: host, connections: &connections{clouds: map[cloudKey]*openCloud{}}, reporting: &sync.Mutex{}}
	e.keys = cloudKeys(o.Desired.Providers)
	e.takeForce()
	return e
}

// With returns an engine for another configuration that shares what the first one has open. What only another configuration
// needs is closed some time after Runner.Use has put one in force.
func (e *Engine) With(desired resources.Desired) *Engine {
	next := *e
	next.Desired, next.keys = desired.WithHashKey(e.HashKey), cloudKeys(desired.Providers)
	return &next
}

// Close disconnects from every provider.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var first error
	for _, c := range e.clouds {
		if c.ready.Load() {
			if err := c.cloud.Close(); err != nil && first == nil {
				first = err
			}
		}
	}
	e.clouds = map[cloudKey]*openCloud{}
	return first
}

// installation is the id that marks carry: the lineage of the store.
func (e *Engine) installation(ctx context.Context) (string, error) {
	identified, ok := e.Store.(state.Identified)
	if !ok {
		return "", errors.New("the store does not say which installation it is of, so nothing in a cloud can be told to be ours")
	}
	identity, err := identified.Identity(ctx)
	return identity.Lineage, err
}

// provider returns the configured provider of that name.
func (e *Engine) provider(name string) (*resources.Provider, bool) {
	for i := range e.Desired.Providers {
		if e.Desired.Providers[i].Name == name {
			return &e.Desired.Providers[i], true
		}
	}
	return nil, false
}

// imagesDir is where image files are.
func (e *Engine) imagesDir() string {
	dir := e.Desired.Settings.ImagesDir
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(e.Desired.Settings.Dir, dir)
}
