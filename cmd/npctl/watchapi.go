package main

import (
	"context"
	"net"
)

// api answers at the listeners of the API.
type api interface {
	Serve(ctx context.Context, l net.Listener) error
}

func (w *watching) newAPI() (api, error) { return nil, nil }

func (w *watching) bindSocket(*front, api) error { _, _, err := w.ownSocket(); return err }

func (w *watching) bindTCP(context.Context, *front, api) error { return nil }
