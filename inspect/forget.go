package inspect

import (
	"fmt"
	"slices"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// ForgetInput is the input of the decision whether records of a shared store may be forgotten.
type ForgetInput struct {
	Chosen   plan.Records                // the records to forget
	Recorded []*resources.ProviderRecord // the providers that this npctl has or had
	Pools    []resources.RegisteredPool  // of all processes; those with Own are served by this npctl
	Holders  map[string]string           // by provider: the holder of its lock
}

// Providers returns the providers of the chosen nodes and uploads, sorted.
func (in ForgetInput) Providers() (names []string) {
	for _, n := range in.Chosen.Nodes {
		names = append(names, n.Provider)
	}
	for _, u := range in.Chosen.Uploads {
		names = append(names, u.Provider)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Foreign returns the providers of chosen records that this npctl never had.
func (in ForgetInput) Foreign() []string {
	return slices.DeleteFunc(in.Providers(), func(name string) bool {
		return slices.ContainsFunc(in.Recorded, func(p *resources.ProviderRecord) bool { return p.Name == name })
	})
}

// Refusal returns why the records cannot be forgotten, or "": another process manages one of the providers.
func (in ForgetInput) Refusal() string {
	for _, name := range in.Providers() {
		served := false
		for i := range in.Pools {
			p := &in.Pools[i]
			if served = served || p.Provider == name && p.Own; p.Provider == name && !p.Own {
				return fmt.Sprintf("provider %s is registered by %s on %s", name, p.Program, p.Host)
			}
		}
		if holder := in.Holders[name]; holder != "" && !served {
			return fmt.Sprintf("the lock of provider %s is held by %s", name, holder)
		}
	}
	return ""
}
