package cloudkit

import (
	"net/http"

	"github.com/npctl/npctl/drivers"
)

// Transport returns a transport of a Cloud that applies WrapTransport of the environment and drivers.BoundBodies, and the function
// that closes its idle connections. tune, if not nil, changes the settings of net/http.
func Transport(env drivers.Env, tune func(*http.Transport)) (http.RoundTripper, func()) {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // of package net/http
	if tune != nil {
		tune(transport)
	}
	used := http.RoundTripper(transport)
	if env.WrapTransport != nil {
		used = env.WrapTransport(transport)
	}
	return drivers.BoundBodies(used), transport.CloseIdleConnections
}

// CloseIdle closes the idle connections of a Cloud, which embeds it.
type CloseIdle func()

// Close implements drivers.Cloud.
func (c CloseIdle) Close() error {
	c()
	return nil
}
