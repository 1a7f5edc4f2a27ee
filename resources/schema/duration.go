package schema

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	str2duration "github.com/xhit/go-str2duration/v2"
)

// durationShape matches durations of any size.
var durationShape = regexp.MustCompile(`^[-+]?([0-9]+(\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h|d|w))+$`)

// ParseDuration reads a string in the format FormatDuration: "90s", "24h", "7d12h" or "2w".
func ParseDuration(text string) (time.Duration, error) {
	d, err := str2duration.ParseDuration(text)
	switch {
	case err != nil && durationShape.MatchString(text):
		return 0, fmt.Errorf("the duration %q is too large; the largest is about 290 years", text)
	case err != nil && strings.Trim(text, "0123456789") == "" && text != "":
		return 0, fmt.Errorf("the duration %q has no unit; for seconds write %q", text, text+"s")
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration; write it like \"90s\", \"10m\", \"24h\", \"7d\" or \"2w\"", text)
	case d < 0:
		return 0, fmt.Errorf("the duration %q is negative", text)
	}
	return d, nil
}
