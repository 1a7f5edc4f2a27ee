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

// route is one thing that can be asked for. The description of the API is made from the same table.
type route struct {
	method, path string
	need         role
	name         string // of the operation, in the description
	summary      string
	query        []param
	body         any  // a zero value of what is sent; nil: nothing
	bodyless     bool // the body may be left out
	answer       any  // a zero value of what comes back; nil: nothing
	status       int  // of success; 200 when zero
	media        string
	lasting      bool // it may wait for something to happen
	bodySize     int64
	do           func(*call) (any, error) // returns what to answer; nil when it wrote that itself, or there is nothing
}

// param is a parameter behind the question mark.
type param struct {
	name, kind string // kind: string, integer, boolean, duration, subject
	summary    string
}

// call is one call of a route.
type call struct {
	*Server
	route  *route
	w      http.ResponseWriter
	r      *http.Request
	role   role
	who    string // name of the token, or local
	values url.Values
	ending <-chan struct{}
}

func (c *call) ctx() context.Context { return c.r.Context() }

// id is the part of the path that names a thing.
func (c *call) id() string { return c.r.PathValue("id") }

// checkQuery refuses parameters that the route does not know, or that are not what they should be.
func (c *call) checkQuery() error {
	values, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return invalid("the part behind the question mark cannot be understood")
	}
	for name, given := range values {
		i := slices.IndexFunc(c.route.query, func(p param) bool { return p.name == name })
		if i < 0 {
			return hinted(invalid("there is no parameter %s here", quoted(name)), c.paramHint())
		}
		if len(given) != 1 {
			return invalid("parameter %s is there %d times", name, len(given))
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
		return "it takes none"
	}
	names := make([]string, len(c.route.query))
	for i, p := range c.route.query {
		names[i] = p.name
	}
	return "it takes " + strings.Join(names, ", ")
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
			return invalid("parameter %s has %d characters, at most %d are read", p.name, count, idLength)
		}
	}
	if err != nil {
		return invalid("parameter %s takes %s, not %s", p.name, article(p.kind), quoted(value))
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

// parseWait reads a duration, or a number of seconds.
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

// wait is how long a call may wait for something to happen.
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

func (c *call) yes(name string) bool {
	b, err := strconv.ParseBool(c.values.Get(name))
	return err == nil && b
}

// words splits a parameter that is a list.
func (c *call) words(name string) []string {
	if c.values.Get(name) == "" {
		return nil
	}
	return strings.Split(c.values.Get(name), ",")
}

// states splits the parameter state. What is no state of that kind of record is refused.
func (c *call) states(kind resources.Kind) ([]string, error) {
	states := c.words("state")
	if err := wire.CheckStates(kind, states); err != nil {
		return nil, invalid("parameter state: %s", err)
	}
	return states, nil
}

// The parameters that several routes have.
var (
	waitParam = param{"wait", "duration", "Answer when it has happened, or after this time, of which at most 60s are waited."}
	pageParam = param{"after", "string", "Only what comes after this id."}
	sizeParam = param{"limit", "integer", "At most so many; 1000 when it is not given, and never more than 10000."}
)
