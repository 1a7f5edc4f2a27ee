// Package examples holds the example configurations, from which npctl init writes the first one of a user.
package examples

import "embed"

// Files contains the examples that stand alone, by file name.
//
//go:embed *.hcl
var Files embed.FS
