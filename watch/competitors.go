package watch

import (
	"fmt"
	"log/slog"

	"github.com/npctl/npctl/plan"
	"github.com/npctl/npctl/resources"
)

// competitors reports programs that serve a provider of this process and do not know its lock: each may treat instances
// of the other as leaks. Only passes use it.
type competitors struct {
	log     *slog.Logger
	journal *Journal
	logged  map[competitor]bool // competitors of the newest pass
}

// competitor is another program that serves a provider that this process leads.
type competitor struct{ provider, host, program string }

// warn logs competitors, each once while it is registered.
func (c *competitors) warn(seen plan.Observed, leads func(provider string) bool) {
	now := map[competitor]bool{}
	for i := range seen.RegisteredPools {
		p := &seen.RegisteredPools[i]
		if p.IsNpctl() || !leads(p.Provider) {
			continue
		}
		other := competitor{p.Provider, p.Host, p.Program}
		if !now[other] && !c.logged[other] {
			c.log.Error("another program serves a provider of this process; stop one of them, or assign the provider to only one",
				"provider", p.Provider, "host", p.Host, "program", p.Program)
			c.journal.add(resources.Event{Time: seen.Now, Subject: "provider/" + p.Provider, Code: "provider-conflict",
				Text: fmt.Sprintf("%s on %s serves this provider too; stop one of them, or assign the provider to only one", p.Program, p.Host)})
		}
		now[other] = true
	}
	c.logged = now
}
