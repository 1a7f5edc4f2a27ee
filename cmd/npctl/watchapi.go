package main

import (
	"context"
	"net"

	"github.com/npctl/npctl/watch/httpapi"
)

// api serves the API on its listeners.
type api interface {
	Serve(ctx context.Context, l net.Listener) error
}

func (w *service) newAPI() (api, error) {
	options := httpapi.Options{Version: version(), State: w.place.File, Metrics: w.metrics.Handler(), InvalidToken: w.metrics.InvalidToken, Log: w.log}
	if store, shared := w.session.store.(*sharedStore); shared {
		options.Unlock = store.Store.ForceUnlock // the daemon holds the lock in the file itself
	}
	if w.tokens != "" {
		tokens, err := httpapi.ReadTokens(w.tokens, w.log)
		if err != nil {
			return nil, err
		}
		options.Tokens = tokens
	}
	return httpapi.New(w.daemon, options), nil
}

func (w *service) bindSocket(f *listeners, api api) error {
	path, link, err := w.ownSocket()
	if err != nil {
		return err
	}
	mode, err := w.mode()
	if err != nil {
		return err
	}
	l, err := httpapi.ListenUnix(path, mode)
	if err != nil {
		return hint(err, "-socket names another path")
	}
	f.add(l, api.Serve)
	remove, err := link()
	if err != nil {
		return err
	}
	f.closers = append(f.closers, remove)
	return nil
}

func (w *service) bindTCP(ctx context.Context, f *listeners, api api) error {
	if w.listen == "" {
		return nil
	}
	l, err := httpapi.ListenTCP(ctx, w.listen, httpapi.TLS{Cert: w.cert, Key: w.key, ClientCA: w.clientCA}, w.log)
	if err != nil {
		return hint(err, "-listen needs an address of this machine and a free port, such as :8443")
	}
	f.add(l, api.Serve)
	return nil
}
