package emulator

import (
	"maps"
	"net/url"
	"strconv"
)

// query holds the query parameters of a call.
type query struct {
	url.Values
	service service
}

// limit returns the requested page length, at most max. A max of zero means no limit.
func (q query) limit(otherwise, max int) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		if q.service == imaging {
			return 0, badRequest("limit param must be an integer")
		}
		return 0, badRequest("Invalid input for query parameters limit. Value: %s. '%s' does not match '^[0-9]*$'", text, text)
	}
	if max > 0 && (n > max || n == 0) {
		n = max
	}
	return n, nil
}

// nextURL returns the URL of the request with another marker.
func (q query) nextURL(path, marker string) string {
	values := maps.Clone(q.Values)
	values.Set("marker", marker)
	return path + "?" + values.Encode()
}

// number returns a numeric parameter, or 0.
func (q query) number(name string) int64 {
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
