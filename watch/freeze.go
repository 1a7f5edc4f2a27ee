package watch

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/npctl/npctl/resources"
)

// A provider that is frozen is left alone by command, until that is taken back: nothing is planned for it. Where the store is
// shared, it is so for all processes, and the store alone knows it; otherwise the provider's record does. It has nothing to do
// with the providers that a daemon was told to serve.

// Freeze leaves a provider alone, or takes care of it again. It lasts until it is undone, also over a restart.
func (d *Daemon) Freeze(ctx context.Context, provider string, frozen bool) error {
	d.mu.Lock()
	known := slices.ContainsFunc(d.current.Desired.Providers, func(p resources.Provider) bool { return p.Name == provider })
	d.mu.Unlock()
	if !known {
		return fmt.Errorf("there is no provider %s", provider)
	}
	// a step may be writing the provider's record for the first time
	if err := Again(ctx, func() error { return d.runner.FreezeProvider(ctx, provider, frozen) }); err != nil {
		return err
	}
	d.nudge()
	return nil
}

// Frozen lists the providers that are left alone, by command or because this daemon was told not to serve them.
func (d *Daemon) Frozen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.leftAlone()))
}

// leftAlone is Frozen for who holds mu.
func (d *Daemon) leftAlone() map[string]bool {
	names := d.frozenNow()
	maps.Copy(names, d.others)
	return names
}

// frozenNow are the providers that are frozen, by whomever.
func (d *Daemon) frozenNow() map[string]bool {
	names := map[string]bool{}
	if shared := d.runner.Shared(); shared != nil {
		for _, name := range shared.ProvidersFrozen() {
			names[name] = true
		}
		return names
	}
	for _, p := range d.runner.Remembered() {
		if p.Frozen {
			names[p.Name] = true
		}
	}
	return names
}
