package httpapi

import (
	"context"
	"net/http"

	"github.com/npctl/npctl/inspect"
	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/text"
	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch"
)

// providerRoutes answers the calls about providers and the labels that they offer.
type providerRoutes struct{ daemon *watch.Daemon }

// fleet returns the configuration, the listings of the last pass and the current records.
func (p providerRoutes) fleet() inspect.Fleet {
	w := inspect.Fleet{Desired: p.daemon.Desired(), Observed: p.daemon.Last().Observed}
	w.Observed.Records, w.Observed.Busy = p.daemon.Runner().Records()
	return w
}

func (p providerRoutes) list(context.Context, *none) (wire.Providers, error) {
	w := p.fleet()
	return wire.Providers{Providers: w.Providers(inspect.Service{Only: p.daemon.Providers, Frozen: p.daemon.Frozen(), NotListed: p.daemon.ProvidersNotListed(), Leader: p.daemon.Leader})}, nil
}

func (p providerRoutes) show(ctx context.Context, in *Named) (wire.Provider, error) {
	all, _ := p.list(ctx, nil)
	return find("provider", in.ID, all.Providers, func(one wire.Provider) string { return one.Name })
}

// freeze returns the operation that freezes a provider, or thaws it.
func (p providerRoutes) freeze(frozen bool) func(context.Context, *Named) (wire.Provider, error) {
	return func(ctx context.Context, in *Named) (wire.Provider, error) {
		before, err := p.show(ctx, in)
		if err != nil {
			return before, err
		}
		if !before.Configured {
			return before, notFound("only providers of the configuration can be frozen", "provider %s is no longer configured", text.Quote(in.ID))
		}
		if !before.Served {
			return before, failure(http.StatusConflict, wire.CodeInvalidState, "npctl watch runs with -provider and does not include it",
				"provider %s is not served by this daemon", before.Name)
		}
		if err = p.daemon.Freeze(ctx, before.Name, frozen); err != nil {
			return before, err
		}
		if before.Frozen != frozen {
			code, what := "thawed", "managed again"
			if frozen {
				code, what = "frozen", "not managed until it is thawed"
			}
			p.daemon.Journal.Add(resources.Event{Time: p.daemon.Engine.Now(), Subject: "provider/" + before.Name, Code: code, Text: what})
		}
		return p.show(ctx, in)
	}
}

func (p providerRoutes) listLabels(context.Context, *none) (wire.Labels, error) {
	w := p.fleet()
	return wire.Labels{Labels: w.Labels()}, nil
}

func (p providerRoutes) showLabel(_ context.Context, in *Named) (wire.Label, error) {
	w := p.fleet()
	if _, err := find("label", in.ID, inspect.KnownLabels(w.Desired), func(name string) string { return name }); err != nil {
		return wire.Label{}, err
	}
	return w.Label(in.ID), nil
}
