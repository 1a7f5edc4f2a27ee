package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/builders/dib"
	"github.com/npctl/npctl/builders/exec"
	"github.com/npctl/npctl/builders/gearman"
	"github.com/npctl/npctl/builders/snapshot"
	"github.com/npctl/npctl/builders/zuul"
	"github.com/npctl/npctl/drivers"
	"github.com/npctl/npctl/drivers/aws"
	"github.com/npctl/npctl/drivers/azure"
	"github.com/npctl/npctl/drivers/external"
	"github.com/npctl/npctl/drivers/gce"
	"github.com/npctl/npctl/drivers/ibmvpc"
	"github.com/npctl/npctl/drivers/kubernetes"
	"github.com/npctl/npctl/drivers/metastatic"
	"github.com/npctl/npctl/drivers/openstack"
	"github.com/npctl/npctl/drivers/qemu"
	"github.com/npctl/npctl/drivers/sandbox"
	"github.com/npctl/npctl/drivers/static"
	wire "github.com/npctl/npctl/internal/gearman"
	"github.com/npctl/npctl/reconcile"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/resources/schema"
	"github.com/npctl/npctl/state/location"
	"github.com/npctl/npctl/watch/metrics"
)

// registry holds every driver, builder and store that a configuration can select.
type registry struct {
	drivers  map[string]drivers.Driver
	builders map[string]builders.Builder
	states   map[string]schema.Block
}

// newRegistry registers the drivers, builders and stores of this npctl. A new one is one line here.
func newRegistry() registry {
	r := registry{
		drivers:  map[string]drivers.Driver{},
		builders: map[string]builders.Builder{},
		states:   location.Schemas(),
	}
	for _, d := range []drivers.Driver{
		aws.New(),
		ibmvpc.New(),
		gce.New(),
		azure.New(),
		openstack.New(),
		qemu.New(),
		kubernetes.New(),
		kubernetes.NewOpenShift(),
		kubernetes.NewOpenShiftPods(),
		sandbox.New(),
		static.New(),
		metastatic.New(),
		external.New(),
	} {
		r.drivers[d.Kind()] = d
	}
	for _, b := range []builders.Builder{
		&dib.Builder{},
		&exec.Builder{},
		gearman.New(gearman.Settings{}), // only its schema; buildersFor adds a working builder
		&snapshot.Builder{},
		&zuul.Builder{},
	} {
		r.builders[b.Kind()] = b
	}
	return r
}

// buildersFor returns the builders that these settings allow.
func (r registry) buildersFor(settings resources.Settings, log *slog.Logger) (map[string]builders.Builder, error) {
	able := maps.Clone(r.builders)
	const kind = "gearman"
	if settings.Gearman == nil {
		delete(able, kind)
		return able, nil
	}
	servers, err := gearmanOptions(settings, log)
	if err != nil {
		return nil, err
	}
	able[kind] = gearman.New(gearman.Settings{Gearman: servers, Kinds: errorKinds})
	return able, nil
}

// errorKinds maps names to the errors that gearman transmits from a build host.
var errorKinds = map[string]error{"quota": drivers.ErrQuota, "capacity": drivers.ErrCapacity, "rejected": drivers.ErrRejected,
	"throttled": drivers.ErrThrottled, "unavailable": drivers.ErrUnavailable, "not-supported": drivers.ErrNotSupported}

// gearmanOptions returns the options to connect to the job servers. Paths are relative to the directory of the
// configuration.
func gearmanOptions(settings resources.Settings, log *slog.Logger) (wire.Options, error) {
	o := wire.Options{Servers: settings.Gearman.Servers, Log: log}
	t := settings.Gearman.TLS
	if t == nil {
		return o, nil
	}
	at := func(path string) string {
		if path == "" {
			return ""
		}
		return settings.Path(path)
	}
	var err error
	if o.TLS, err = wire.LoadTLS(at(t.CA), at(t.Cert), at(t.Key)); err != nil {
		return o, fmt.Errorf("gearman: %w", err)
	}
	return o, nil
}

func (r registry) driverSchemas() map[string]schema.Driver {
	schemas := make(map[string]schema.Driver, len(r.drivers))
	for kind, d := range r.drivers {
		schemas[kind] = d.Schema()
	}
	return schemas
}

func (r registry) builderSchemas() map[string]schema.Block {
	schemas := make(map[string]schema.Block, len(r.builders))
	for kind, b := range r.builders {
		schemas[kind] = b.Schema()
	}
	return schemas
}

func (r registry) driverKinds() []string  { return slices.Sorted(maps.Keys(r.drivers)) }
func (r registry) builderKinds() []string { return slices.Sorted(maps.Keys(r.builders)) }
func (r registry) stateKinds() []string   { return slices.Sorted(maps.Keys(r.states)) }

// errorKind returns the kind of a cloud error for the metrics.
func errorKind(err error) string {
	for _, kind := range metrics.Reasons {
		timeout := kind == "timeout" && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, reconcile.ErrLaunchTimeout) || errors.Is(err, reconcile.ErrBootTimeout))
		if known := errorKinds[kind]; timeout || known != nil && errors.Is(err, known) {
			return kind
		}
	}
	return "other"
}
