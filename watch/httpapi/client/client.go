// Package client calls the API of a running npctl watch, over its unix socket or over TLS.
//
// Client is the API for requestors and people. Store gives access to the daemon's state as if this process had opened
// it.
package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/npctl/npctl/inspect/wire"
	"github.com/npctl/npctl/internal/waits"
	"github.com/npctl/npctl/state"
)

// ErrNoDaemon: no process listens at the socket or address.
var ErrNoDaemon = errors.New("npctl watch is not running")

const (
	dialTime    = 5 * time.Second
	answerTime  = 2 * time.Minute // for a response, in addition to a long poll's wait
	longestWait = time.Minute     // of one long poll
	answerSize  = 256 << 20
	problemSize = 1 << 20
	retryEvery  = 300 * time.Millisecond
	retryFor    = time.Minute // maximum downtime of a daemon, such as an upgrade, during a wait
)

// Options selects the daemon: by a Socket, or by a URL such as https://host:8443, which needs a Token.
type Options struct {
	Socket string
	URL    string
	Token  string
	CA     string // path of a PEM file with authorities; empty: those of the system
	Cert   string // paths of a client certificate and its key, if the daemon requires one
	Key    string
	Agent  string // User-Agent, such as npctl/1.0
}

// Client calls a daemon. It is safe for concurrent use.
type Client struct {
	http  *http.Client
	base  string
	where string // for people
	token string
	agent string
}

// New returns a client. It opens no connection yet.
func New(o Options) (*Client, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: dialTime, DisableCompression: true}
	c := &Client{http: &http.Client{Transport: transport, CheckRedirect: neverRedirect}, token: o.Token, agent: o.Agent}
	if o.Socket != "" {
		c.base, c.where = "http://npctl", o.Socket
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "unix", o.Socket)
		}
		return c, nil
	}
	at, err := url.Parse(o.URL)
	if err != nil || at.Host == "" || at.Scheme != "https" && at.Scheme != "http" {
		return nil, fmt.Errorf("%q is not an address of a daemon; use the path of a socket, or a URL such as https://host:8443", o.URL)
	}
	if at.Scheme == "http" && !isLoopback(at.Hostname()) {
		return nil, fmt.Errorf("%s: without TLS others could read the token in transit; use https", o.URL)
	}
	c.base, c.where = at.Scheme+"://"+at.Host, at.Host
	transport.DialContext = (&net.Dialer{Timeout: dialTime}).DialContext
	transport.TLSClientConfig, err = o.tls()
	return c, err
}

func neverRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func isLoopback(name string) bool {
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

func (o Options) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		text, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("authorities: %s contains no certificate", o.CA)
		}
	}
	if o.Cert != "" || o.Key != "" {
		pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Error is an error response of the daemon.
type Error struct{ wire.Problem }

// Error returns the daemon's description of the error.
func (e *Error) Error() string {
	if e.Detail != "" {
		return e.Detail
	}
	return fmt.Sprintf("the daemon responds %d %s", e.Status, http.StatusText(e.Status))
}

// Unwrap returns the matching error of package state, for errors.Is and errors.As.
func (e *Error) Unwrap() error {
	switch e.Code {
	case wire.CodeNotFound:
		return state.ErrNotFound
	case wire.CodeConflict:
		return state.ErrConflict
	case wire.CodeLost:
		return state.ErrLost
	case wire.CodeLocked:
		if e.Lock != nil {
			return &state.LockedError{Name: e.Lock.Name, Holder: e.Lock.Holder}
		}
		return state.ErrLocked
	default:
		return nil
	}
}

// IsCode reports whether an error is an error response with the given code.
func IsCode(err error, code wire.Code) bool {
	var no *Error
	return errors.As(err, &no) && no.Code == code
}

// call sends a request, with send as its body unless nil, and decodes the response into answer unless nil.
func (c *Client) call(ctx context.Context, method, path string, query url.Values, send, answer any) error {
	wait, err := time.ParseDuration(query.Get("wait"))
	if err != nil {
		wait = 0
	}
	ctx, cancel := context.WithTimeout(ctx, wait+answerTime)
	defer cancel()
	response, err := c.send(ctx, method, path, query, send)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	if answer == nil {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, answerSize+1))
	switch {
	case err != nil:
		return c.connectionError(ctx, err)
	case len(text) > answerSize:
		return fmt.Errorf("daemon at %s: a response has more than %d bytes", c.where, answerSize)
	}
	if raw, ok := answer.(*json.RawMessage); ok {
		*raw = text
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("daemon at %s: invalid response: %w", c.where, err)
	}
	return nil
}

// fetch is call with a result.
func fetch[T any](ctx context.Context, c *Client, method, path string, query url.Values, send any) (answer T, err error) {
	err = c.call(ctx, method, path, query, send, &answer)
	return answer, err
}

// send sends a request and returns the response. An error response becomes an Error.
func (c *Client) send(ctx context.Context, method, path string, query url.Values, send any) (*http.Response, error) {
	var content io.Reader
	if send != nil {
		text, err := json.Marshal(send)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	at := c.base + path
	if len(query) > 0 {
		at += "?" + query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, at, content)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", c.agent)
	if send != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.connectionError(ctx, err)
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	defer response.Body.Close() //nolint:errcheck // only read
	return nil, decodeError(response)
}

// decodeError decodes an error response.
func decodeError(response *http.Response) error {
	no := &Error{}
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	text, err := io.ReadAll(io.LimitReader(response.Body, problemSize))
	if err != nil || media != wire.MediaProblem || json.Unmarshal(text, &no.Problem) != nil {
		no.Problem = wire.Problem{Code: wire.CodeInternal} // not the daemon's response, for example a proxy's
	}
	no.Status = response.StatusCode
	return no
}

// connectionError describes a call without a response.
func (c *Client) connectionError(ctx context.Context, err error) error {
	var inner *url.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w: no process listens at %s", ErrNoDaemon, c.where)
	default:
		return fmt.Errorf("daemon at %s: %w", c.where, err)
	}
}

// isRestarting reports whether an error may be due to a restart of the daemon.
func isRestarting(err error) bool {
	var no *Error
	if errors.As(err, &no) {
		return no.Status == http.StatusServiceUnavailable || no.Status == http.StatusBadGateway
	}
	return err != nil && !errors.Is(err, context.Canceled)
}

// retryWhileRestarting repeats call until done is true, also across a restart of the daemon. The first call must reach
// a daemon.
func retryWhileRestarting(ctx context.Context, call func() (done bool, err error)) error {
	var since time.Time
	for first := true; ; first = false {
		done, err := call()
		switch {
		case done:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			since = time.Time{}
			continue
		case first && !reached(err) || !isRestarting(err) || !since.IsZero() && time.Since(since) > retryFor:
			return err
		case since.IsZero():
			since = time.Now()
		}
		if err := waits.Sleep(ctx, retryEvery); err != nil {
			return err
		}
	}
}

// reached reports whether the daemon was running when a call without a response started.
func reached(err error) bool {
	var no *Error
	return !errors.As(err, &no) && !errors.Is(err, ErrNoDaemon)
}

// at returns the path of an object.
func at(parts ...string) string {
	path := "/" + wire.Version
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

func waiting(query url.Values, wait time.Duration) url.Values {
	if query == nil {
		query = url.Values{}
	}
	query.Set("wait", wait.String())
	return query
}

// socketPathAtMost is the maximum length of a unix socket path in bytes.
const socketPathAtMost = 103

// SocketPath returns the default path of the socket of npctl watch for a state file: beside the file, or if that path
// is too long for a socket, below $XDG_RUNTIME_DIR or the directory for temporary files, in a directory that only this
// user may enter.
func SocketPath(statePath string, lookupEnv func(string) (string, bool)) string {
	beside := statePath + ".sock"
	if len(beside) <= socketPathAtMost {
		return beside
	}
	sum := sha256.Sum256([]byte(statePath))
	name := hex.EncodeToString(sum[:8]) + ".sock"
	if dir, ok := lookupEnv("XDG_RUNTIME_DIR"); ok && filepath.IsAbs(dir) && len(dir) < socketPathAtMost-len(name)-len("/npctl/") {
		return filepath.Join(dir, "npctl", name)
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("npctl-%d", os.Getuid()), name)
}

// CheckSocket rejects a socket unless its owner, and that of its directory, is this user, root, or the owner of an
// existing state file. Any other owner could read the calls and return false responses.
func CheckSocket(path, statePath string) error {
	for _, at := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(at)
		if err != nil {
			return err
		}
		owner, known := ownerOf(info)
		if !known || owner == 0 || owner == os.Getuid() {
			continue
		}
		if of, err := os.Stat(statePath); err == nil {
			if mine, known := ownerOf(of); known && mine == owner {
				continue
			}
		}
		return fmt.Errorf("%s belongs to user %d, who does not own the state", at, owner)
	}
	return nil
}

// CheckNamedSocket checks a socket at a path from the user. A socket of another user, except root, must be in a
// directory that belongs to the same user or root, and that no group or other user can write to. Otherwise a third user
// may have created it.
func CheckNamedSocket(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	owner, known := ownerOf(info)
	if !known || owner == 0 || owner == os.Getuid() {
		return nil
	}
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if of, _ := ownerOf(dir); of != owner && of != 0 || dir.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s belongs to user %d, and other users can write to its directory", path, owner)
	}
	return nil
}
