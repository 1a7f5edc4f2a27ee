package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/npctl/npctl/resources"
	"github.com/npctl/npctl/watch/httpapi/wire"
)

// route is one operation of the API. The OpenAPI description is generated from it.
type route struct {
	method, path string
	need         role
	name         string // operationId in the description
	summary      string
	query        []param
	body         any  // zero value of the body's type; nil: no body
	bodyless     bool // the body is optional
	answer       any  // zero value of the response's type; nil: no response body
	status       int  // on success; 200 when zero
	media        string
	longPoll     bool // the call may wait for a change
	bodySize     int64
	do           func(*call) (any, error) // returns the response body; nil when do wrote it or none exists
}

// param is a query parameter.
type param struct {
	name, kind string // kind: string, integer, boolean, duration, subject, requestStates, nodeStates
	summary    string
}

// call is one call of a route, with the caller and the parsed query.
type call struct {
	*Server
	route  *route
	w      http.ResponseWriter
	r      *http.Request
	role   role
	who    string // name of the token, or "local"
	values url.Values
	ending <-chan struct{}
}

func (c *call) ctx() context.Context { return c.r.Context() }

// id returns the path segment that names the object.
func (c *call) id() string { return c.r.PathValue("id") }

// checkQuery rejects unknown, repeated and malformed query parameters.
func (c *call) checkQuery() error {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return invalid("the query string is invalid")
	}
	for name, given := range values {
		i := slices.IndexFunc(c.route.query, func(p param) bool { return p.name == name })
		if i < 0 {
			return withHint(invalid("unknown parameter %s", quoted(name)), c.paramHint())
		}
		if len(given) != 1 {
			return invalid("parameter %s is given %d times", name, len(given))
		}
		if err := c.route.query[i].check(given[0]); err != nil {
			return err
		}
	}
	c.values = values
	return nil
}

func (c *call) paramHint() string {
	if len(c.route.query) == 0 {
		return "this path has no parameters"
	}
	names := make([]string, len(c.route.query))
	for i, p := range c.route.query {
		names[i] = p.name
	}
	return "known parameters: " + strings.Join(names, ", ")
}

func (p param) check(value string) (err error) {
	switch p.kind {
	case "integer":
		_, err = strconv.ParseUint(value, 10, 31)
	case "boolean":
		_, err = strconv.ParseBool(value)
	case "duration":
		_, err = parseWait(value)
	default:
		if count := utf8.RuneCountInString(value); count > idLength {
			return invalid("parameter %s has %d characters; at most %d are allowed", p.name, count, idLength)
		}
	}
	if err != nil {
		return invalid("parameter %s must be %s, not %s", p.name, article(p.kind), quoted(value))
	}
	return nil
}

func article(kind string) string {
	if kind == "integer" {
		return "an integer"
	}
	if kind == "duration" {
		return "a duration such as 30s"
	}
	return "a " + kind
}

// parseWait parses a duration, or a number of seconds.
func parseWait(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("%s is negative", d)
	}
	return d, err
}

// wait returns how long a call may wait for a change, at most longestWait.
func (c *call) wait() time.Duration {
	d, err := parseWait(c.values.Get("wait"))
	if err != nil {
		return 0
	}
	return min(d, longestWait)
}

func (c *call) number(name string, otherwise int) int {
	n, err := strconv.ParseUint(c.values.Get(name), 10, 31)
	if err != nil {
		return otherwise
	}
	return int(n)
}

func (c *call) boolParam(name string) bool {
	b, err := strconv.ParseBool(c.values.Get(name))
	return err == nil && b
}

// listParam splits a comma-separated parameter.
func (c *call) listParam(name string) []string {
	if c.values.Get(name) == "" {
		return nil
	}
	return strings.Split(c.values.Get(name), ",")
}

// states returns the values of the parameter state. It rejects states that the kind of record cannot have.
func (c *call) states(kind resources.Kind) ([]string, error) {
	states := c.listParam("state")
	if err := wire.CheckStates(kind, states); err != nil {
		return nil, invalid("parameter state: %s", err)
	}
	return states, nil
}

// Kinds of parameters that are lists of states.
const (
	requestStates = "request states"
	nodeStates    = "node states"
)

// Parameters of several routes.
var (
	waitParam = param{"wait", "duration", "Responds when the condition holds, or after this time, at most 60s."}
	pageParam = param{"after", "string", "Only objects after this ID."}
	sizeParam = param{"limit", "integer", "Maximum number of objects. Default: 1000. Maximum: 10000."}
)
