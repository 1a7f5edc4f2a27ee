package review

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"github.com/cenkalti/backoff/v5"

	"github.com/npctl/npctl/internal/hints"
)

// Target names a change, and the credentials to comment on it.
type Target struct {
	URL     string // of the server or its API
	Project string
	Change  int    // the number of the change, pull request or merge request
	Commit  string // the newest commit of the change, which was planned
	Name    string // distinguishes the posts of several fleets on one change
	User    string // the account of the token; "": the server knows it
	Robot   string // the account if the server does not say
	Token   string

	Transport http.RoundTripper // nil is the network
}

// Place posts a report to a change.
type Place interface {
	// Post posts a report unless the change has it already, or has newer commits. It may be called again after an error.
	Post(ctx context.Context, r Report) (Outcome, error)
	// Message returns the text that Post posts.
	Message(r Report) (string, error)
}

// Result says what Post did.
type Result string

const (
	Posted    Result = "posted"
	Updated   Result = "updated"
	Unchanged Result = "unchanged" // the change has this report already
	Outdated  Result = "outdated"  // the change has a newer commit, or is closed
)

// Outcome is the result of a post.
type Outcome struct {
	Result Result
	URL    string // of the post or the change; "" if the server does not say
}

var commitPattern = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// check returns an error if a part that every place needs is missing.
func (t Target) check(tokenName string) error {
	missing := func(what, option string) error {
		return hints.Add(errors.New("the "+what+" is not known"), "set "+option)
	}
	switch {
	case t.URL == "":
		return missing("address of the server", "-url=https://SERVER")
	case t.Project == "":
		return missing("project", "-project=NAME")
	case !commitPattern.MatchString(t.Commit):
		return missing("commit of the change", "-commit to all hexadecimal digits of the newest commit of the change")
	case t.Token == "":
		return missing("token", tokenName+" in the environment, or -token-file=FILE")
	}
	return nil
}

// change returns the number for a path, or an error.
func (t Target) change() (string, error) {
	if t.Change < 1 {
		return "", hints.Add(errors.New("the number of the change is not known"), "set -change=NUMBER")
	}
	return strconv.Itoa(t.Change), nil
}

// permanentf returns an error that a retry cannot fix.
func permanentf(hint, format string, args ...any) error {
	return backoff.Permanent(hints.Add(fmt.Errorf(format, args...), hint))
}
