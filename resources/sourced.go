package resources

import "strings"

// sourcePrefix is the start of the requestor of requests that a provider makes for nodes of other providers.
const sourcePrefix = "npctl:"

// SourceRequestor returns the requestor of the requests that a provider makes for nodes of other providers.
func SourceRequestor(driver, provider string) string { return sourcePrefix + driver + ":" + provider }

// SourceOf returns the driver and the provider of such a requestor. A client may have a name of the same form.
func SourceOf(requestor string) (driver, provider string, ok bool) {
	rest, own := strings.CutPrefix(requestor, sourcePrefix)
	driver, provider, found := strings.Cut(rest, ":")
	return driver, provider, own && found
}
