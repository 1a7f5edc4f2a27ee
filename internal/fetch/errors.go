package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/npctl/npctl/internal/text"
)

var (
	// ErrGone is the error for a file that the server does not have (404, 410).
	ErrGone = errors.New("the server does not have the file")
	// errWebPage is the error for an HTML page in place of a file.
	errWebPage = errors.New("the server sends a web page instead of the file; open the address in a browser to read it")
	// ErrTooLarge is wrapped by the error for a file over its limit.
	ErrTooLarge = errors.New("too large")
)

// errRestart means that the bytes read so far are invalid and the download starts from the beginning.
var errRestart = errors.New("the download must start from the beginning")

// sumError is the error for a file with a wrong checksum.
type sumError struct {
	Kind      string // sha256 or md5
	Got, Want string // hex
}

func (e *sumError) Error() string {
	return fmt.Sprintf("wrong checksum: the file has %s %s, expected %s", e.Kind, e.Got, e.Want)
}

// statusError is a response without a file.
type statusError struct {
	status string
	code   int
}

func (e *statusError) Error() string {
	switch e.code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Sprintf("the server refuses (%s); npctl downloads files without credentials", e.status)
	default:
		return "the server answers " + e.status
	}
}

// Is reports whether the status means ErrGone.
func (e *statusError) Is(target error) bool {
	return target == ErrGone && (e.code == http.StatusNotFound || e.code == http.StatusGone)
}

func tooLarge(what string, size, limit int64) error {
	return fmt.Errorf("%w: %s %s, and the limit is %s", ErrTooLarge, what, text.Bytes(size), text.Bytes(limit))
}

// Redacted returns an address without the parts that may contain secrets.
func Redacted(u *url.URL) string {
	if u == nil {
		return "(no address)"
	}
	plain := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath, Opaque: u.Opaque}
	text := plain.String()
	if u.RawQuery != "" {
		text += "?…"
	}
	return text
}

// WithoutURL removes the URL from an error of package net/http.
func WithoutURL(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	if err != nil && strings.Contains(err.Error(), "Location header") { // which it quotes
		return &redirectError{"the server redirects to an address that cannot be read"}
	}
	return err
}
