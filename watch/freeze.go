package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/npctl/npctl/reconcile"
)

// The daemon plans nothing for a frozen provider. In a shared store a freeze applies to all processes and only the
// store records it; otherwise the provider's record does. A freeze is independent of Options.Providers.

// Freeze freezes or thaws a provider. A freeze lasts until it is undone and survives a restart.
func (d *Daemon) Freeze(ctx context.Context, provider string, frozen bool) error {
	if !hasProvider(d.observer.Engine().Desired, provider) {
		return fmt.Errorf("there is no provider %s", provider)
	}
	// a step may be writing the provider's record for the first time
	if err := RetryConflict(ctx, func() error { return d.runner.FreezeProvider(ctx, provider, frozen) }); err != nil {
		return err
	}
	d.triggerPass()
	return nil
}

// Frozen returns the sorted names of the providers that are frozen or that Options.Providers excludes.
func (d *Daemon) Frozen() []string { return slices.Sorted(maps.Keys(d.skippedProviders())) }

// skippedProviders returns the providers that Frozen lists.
func (d *Daemon) skippedProviders() map[string]bool {
	names := frozenProviders(d.runner)
	for name := range d.pollers.known() {
		if !d.duties.hasProvider(name) {
			names[name] = true
		}
	}
	return names
}

// notPlanned returns the providers for which the daemon plans nothing now: those that Frozen lists and those that other
// processes manage.
func (d *Daemon) notPlanned() map[string]bool {
	names := d.skippedProviders()
	for _, name := range d.pollers.providers() {
		if !d.duties.manages(name) {
			names[name] = true
		}
	}
	return names
}

// frozenProviders returns the frozen providers; any process of a shared store may have frozen them.
func frozenProviders(runner *reconcile.Runner) map[string]bool {
	names := map[string]bool{}
	if shared := runner.Shared(); shared != nil {
		for _, name := range shared.FrozenProviders() {
			names[name] = true
		}
		return names
	}
	for _, p := range runner.ProviderRecords() {
		if p.Frozen {
			names[p.Name] = true
		}
	}
	return names
}
