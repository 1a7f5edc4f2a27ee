// Package hints attaches the next step of the user to an error.
package hints

import "errors"

// hinted is an error with a hint.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

// Add attaches a hint to an error. The text of the error stays the same.
func Add(err error, hint string) error { return &hinted{err, hint} }

// Of returns the outermost hint of an error, and whether it has one.
func Of(err error) (string, bool) {
	if h, ok := errors.AsType[*hinted](err); ok {
		return h.hint, true
	}
	return "", false
}
