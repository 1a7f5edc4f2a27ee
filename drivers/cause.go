package drivers

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// CauseFirst returns an error with the cause of a failed HTTP request before its URL. net/http begins with the URL, behind
// which a table or a narrow terminal cuts the cause off.
func CauseFirst(err error) error {
	var request *url.Error
	if !errors.As(err, &request) {
		return err
	}
	text := fmt.Sprintf("%s (%s %s)", request.Err, request.Op, request.URL)
	return &reordered{err, strings.Replace(err.Error(), request.Error(), text, 1)}
}

type reordered struct {
	error
	text string
}

func (r *reordered) Error() string { return r.text }

func (r *reordered) Unwrap() error { return r.error }
