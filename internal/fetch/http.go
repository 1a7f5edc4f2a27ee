package fetch

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	mostRedirects = 5
	dialTimeout   = 15 * time.Second
)

// NewTransport returns a transport with time limits for connecting. The caller limits the time of responses. It uses
// HTTP/1.1, because a large file uses a connection better than an HTTP/2 stream with its own window.
func NewTransport(config *tls.Config) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    15 * time.Second,
		DisableCompression:     true, // checksums and ranges refer to the stored bytes
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        time.Minute,
		ReadBufferSize:         64 << 10,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// NewClient returns a client that follows redirects by CheckRedirect.
func NewClient(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: CheckRedirect}
}

// redirectError is permanent: a retry has the same result.
type redirectError struct{ text string }

func (e *redirectError) Error() string { return e.text }

// CheckRedirect is for http.Client. It permits a few redirects, only to web addresses, and never from https to http.
// It removes the Referer header, because the previous address may contain a signature.
func CheckRedirect(next *http.Request, via []*http.Request) error {
	next.Header.Del("Referer")
	switch {
	case len(via) > mostRedirects:
		return &redirectError{fmt.Sprintf("the server redirects more than %d times", mostRedirects)}
	case checkAddress(next.URL) != nil:
		return &redirectError{fmt.Sprintf("the server redirects to %s, which is not a web address", Redacted(next.URL))}
	case via[len(via)-1].URL.Scheme == "https" && next.URL.Scheme != "https":
		return &redirectError{fmt.Sprintf("the server redirects from https to %s, which is not encrypted", Redacted(next.URL))}
	}
	return nil
}

func checkAddress(u *url.URL) error {
	if u == nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("%q is not a web address; it must start with https:// or http://", Redacted(u))
	}
	return nil
}

// IsTransient reports whether a request that failed with this error is worth retrying. It is for errors of
// http.Client.Do.
func IsTransient(err error) bool {
	var certificate *tls.CertificateVerificationError
	var redirect *redirectError
	var place *ForbiddenAddressError
	return !errors.As(err, &certificate) && !errors.As(err, &redirect) && !errors.As(err, &place)
}

// IsTransientStatus reports whether a status may change soon.
func IsTransientStatus(code int) bool {
	switch code {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return code >= 500
}

// RetryAfter returns the time that a server asks to wait, or 0.
func RetryAfter(header http.Header) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second //nolint:gosec // 31 bits
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(time.Until(date), 0)
	}
	return 0
}
