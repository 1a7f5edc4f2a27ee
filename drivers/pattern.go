package drivers

import (
	"regexp"
	"sync"
)

// Pattern returns a regular expression that is compiled at its first use: npctl links all drivers, and a command needs the
// patterns of few of them.
func Pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
