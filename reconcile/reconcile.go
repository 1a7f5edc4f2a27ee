// Package reconcile executes a plan: it observes the providers and the store, and runs the steps of the plan.
//
// Every step writes its intent with its final ID, does its work under that ID, and writes the result. A process may
// therefore be killed at any time, and the step may run again. A failed listing is never taken for a deletion.
package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/internal/process"
	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/state"
)

// Options configures an Engine. Store, Drivers and Desired are required.
type Options struct {
	Desired  resources.Desired
	HashKey  resources.HashKey // derived from the state
	Store    state.Store
	Drivers  map[string]drivers.Driver   // by kind
	Builders map[string]builders.Builder // by kind
	DataDir  string                      // for files of drivers; one directory per provider
	Builds   int                         // limit of concurrent local builds; 0: the limit of the configuration
	Log      *slog.Logger
	Now      func() time.Time
	// Report, if set, receives the events of running steps. It is called from many goroutines, one call at a time.
	Report func(Event)
	// OnCall, if set, receives a report of every call of a cloud. Several goroutines may call it at the same time.
	OnCall func(drivers.Report)
	// ListOthers adds to listings the servers and images without ownership tags of npctl, as far as the drivers can.
	ListOthers bool
	// ReadOnly blocks the calls that change something in a cloud.
	ReadOnly bool
	// WrapTransport, if set, wraps every HTTP transport.
	WrapTransport func(http.RoundTripper) http.RoundTripper
	// RunQemuImg runs qemu-img. The default is process.Run.
	RunQemuImg func(context.Context, process.Spec) error
}

// Engine observes and executes for one configuration and one store. Close it after use.
type Engine struct {
	Options
	host        string
	keys        map[string]cloudKey // of the configured providers
	sources     *sourceRecords      // engines for newer configurations share it
	connections *connections        // engines for newer configurations share it
	reporting   *sync.Mutex         // held while Report runs
}

// New returns an engine. It does not connect to any provider.
func New(o Options) *Engine {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Desired = o.Desired.WithHashKey(o.HashKey)
	e := &Engine{Options: o, host: state.HostName(), connections: &connections{clouds: map[cloudKey]*openCloud{}}, reporting: &sync.Mutex{}, sources: &sourceRecords{store: o.Store}}
	e.sources.activate(&e.Desired)
	e.keys = cloudKeys(o.Desired.Providers)
	e.connections.activate(e.keys)
	return e
}

// With returns an engine for another configuration that shares the open connections of e. Connections that only another
// configuration needs are closed some time after Runner.UseEngine has activated one.
func (e *Engine) With(desired resources.Desired) *Engine {
	next := *e
	next.Desired, next.keys = desired.WithHashKey(e.HashKey), cloudKeys(desired.Providers)
	return &next
}

// Close disconnects from every provider.
func (e *Engine) Close() error { return e.connections.close() }

// Installation returns the ID that the ownership tags of this installation carry: the lineage of the store.
func (e *Engine) Installation(ctx context.Context) (string, error) {
	identified, ok := e.Store.(state.Identified)
	if !ok {
		return "", errors.New("the store has no installation ID, so npctl cannot recognize its own objects in a cloud")
	}
	identity, err := identified.Identity(ctx)
	return identity.Lineage, err
}

// imageBuilder returns a configured image and its builder. It also returns an image without a builder, with an error.
func (e *Engine) imageBuilder(name string) (*resources.Image, builders.Builder, error) {
	img := e.Desired.Image(name)
	if img == nil {
		return nil, nil, fmt.Errorf("image %s is not configured", name)
	}
	builder := e.Builders[img.Builder]
	if builder == nil {
		return img, nil, fmt.Errorf("%s: this npctl has no builder %q", img.Ref(), img.Builder)
	}
	return img, builder, nil
}

// imagesDir returns the directory of the image files.
func (e *Engine) imagesDir() string { return e.Desired.Settings.Path(e.Desired.Settings.ImagesDir) }

// EventKind is the kind of an Event.
type EventKind string

// The kinds of events.
const (
	EventStart    EventKind = "start"
	EventProgress EventKind = "progress"
	EventRetry    EventKind = "retry" // a launch attempt failed, and another one follows
	EventDone     EventKind = "done"
	EventFailed   EventKind = "failed"
	EventSkipped  EventKind = "skipped"
)

// Event reports the progress of one step while a plan is executed.
type Event struct {
	Time  time.Time
	Kind  EventKind
	Step  plan.Step
	Phase string        // the current activity, such as "waiting for the server to become active"
	Done  int64         // bytes or percent, as Total; of a retry, the number of the attempt that failed
	Total int64         // 0 when unknown
	Took  time.Duration // of done and failed steps
	Err   error         // why it failed, was skipped or is retried
	ID    string        // of the record that the step created
	// Return is the older build from which the next attempt of a launch boots, because launches from the newer one fail.
	Return string
}

// ExitCode returns the exit code of the program that ended the step: 0 if the step is done, 1 if it failed without one.
func (e *Event) ExitCode() int {
	if e.Err == nil {
		return 0
	}
	if exit, ok := errors.AsType[interface {
		error
		ExitCode() int
	}](e.Err); ok {
		return exit.ExitCode()
	}
	return 1
}

func (e *Engine) report(event Event) {
	if e.Report == nil {
		return
	}
	event.Time = e.Now()
	e.reporting.Lock()
	defer e.reporting.Unlock()
	e.Report(event)
}
