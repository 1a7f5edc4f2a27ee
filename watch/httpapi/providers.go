package httpapi

import (
	"net/http"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// fleet returns the configuration, the listings of the last pass and the current records.
func (s *Server) fleet() inspect.Fleet {
	w := inspect.Fleet{Desired: s.daemon.Desired(), Observed: s.daemon.Last().Observed}
	w.Observed.Records, w.Observed.Busy = s.records()
	return w
}

// providers returns the configured and recorded providers.
func (s *Server) providers() []wire.Provider {
	w := s.fleet()
	return w.Providers(inspect.Service{Only: s.daemon.Providers, Frozen: s.daemon.Frozen(), NotListed: s.daemon.ProvidersNotListed(), Leader: s.daemon.Leader})
}

func (c *call) listProviders() (any, error) { return wire.Providers{Providers: c.providers()}, nil }

func (c *call) showProvider() (any, error) {
	all := c.providers()
	names := make([]string, len(all))
	for i := range all {
		if all[i].Name == c.id() {
			return all[i], nil
		}
		names[i] = all[i].Name
	}
	return nil, unknown("provider", c.id(), names)
}

func (c *call) freezeProvider() (any, error) { return c.freeze(true) }
func (c *call) thawProvider() (any, error)   { return c.freeze(false) }

func (c *call) freeze(frozen bool) (any, error) {
	found, err := c.showProvider()
	if err != nil {
		return nil, err
	}
	before := found.(wire.Provider)
	if !before.Configured {
		return nil, withHint(notFound("provider %s is no longer configured", quoted(c.id())), "only providers of the configuration can be frozen")
	}
	if !before.Served {
		return nil, &apiError{status: http.StatusConflict, code: wire.CodeInvalidState, detail: "provider " + before.Name + " is not served by this daemon",
			hint: "npctl watch runs with -provider and does not include it"}
	}
	if err = c.daemon.Freeze(c.ctx(), before.Name, frozen); err != nil {
		return nil, err
	}
	if before.Frozen != frozen {
		code, text := "thawed", "managed again"
		if frozen {
			code, text = "frozen", "not managed until it is thawed"
		}
		c.daemon.Journal.Add(resources.Event{Time: c.daemon.Engine.Now(), Subject: "provider/" + before.Name, Code: code, Text: text})
	}
	return c.showProvider()
}
