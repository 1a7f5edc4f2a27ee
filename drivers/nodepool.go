package drivers

import (
	"slices"

	"github.com/npctl/npctl/resources/schema"
)

// The keys that several drivers of Nodepool have, for the tables of schema.Nodepool.

// everyProvider is the section of docs/coming-from-nodepool.md that describes them.
const everyProvider = "every-provider-and-pool"

// NodepoolLaunch returns the keys of a provider that limit launches.
func NodepoolLaunch() []schema.NodepoolKey {
	return []schema.NodepoolKey{
		{Key: "launch-timeout", Attr: "launch_timeout", Default: "3600", Guide: everyProvider},
		{Key: "launch-retries", Attr: "launch_attempts", Default: "3", Guide: everyProvider},
	}
}

// NodepoolLogin returns the keys of an image that describe the login.
func NodepoolLogin() []schema.NodepoolKey {
	return append([]schema.NodepoolKey{
		{Key: "username", Attr: "username", Guide: everyProvider},
		{Key: "python-path", Attr: "python_path", Default: "auto", Guide: everyProvider},
		{Key: "shell-type", Attr: "shell_type", Guide: everyProvider},
	}, NodepoolConnection()...)
}

// NodepoolConnection returns the keys of an image that describe the connection. The default of the port depends on the type.
func NodepoolConnection() []schema.NodepoolKey {
	return []schema.NodepoolKey{
		{Key: "connection-type", Attr: "connection_type", Default: "ssh", Guide: everyProvider},
		{Key: "connection-port", Attr: "connection_port", Guide: everyProvider},
	}
}

// NodepoolLimits returns the limits of a pool, which may be those of its provider too.
func NodepoolLimits() []schema.NodepoolKey {
	limits := schema.SameNodepoolKeys("max-servers", "max-cores", "max-ram", "max-resources")
	for i := range limits {
		limits[i].Guide = everyProvider
	}
	return limits
}

// NodepoolRequest returns the key of a label with a map of templates, which have placeholders for values of the request.
func NodepoolRequest(key string) schema.NodepoolKey {
	return schema.NodepoolKey{Key: key, Attr: "request_properties", Note: "labels are separated by commas, requestor data is JSON, times are whole seconds"}
}

// ForPools returns keys of a provider that are the defaults of its pools. The keys of the pools have the defaults of Nodepool.
func ForPools(keys ...schema.NodepoolKey) []schema.NodepoolKey {
	keys = slices.Clone(keys)
	for i := range keys {
		keys[i].For, keys[i].Default = "pool", ""
	}
	return keys
}

// ForLabels returns keys of an image that are attributes of the labels that use it.
func ForLabels(keys ...schema.NodepoolKey) []schema.NodepoolKey {
	keys = slices.Clone(keys)
	for i := range keys {
		keys[i].For = "label"
	}
	return keys
}
