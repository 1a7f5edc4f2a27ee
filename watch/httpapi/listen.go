package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/netutil"

	"github.com/npctl/npctl/internal/connlimit"
	"github.com/npctl/npctl/internal/host"
)

// ErrInUse: another process listens at the socket.
var ErrInUse = errors.New("another process listens there already")

// socketPathAtMost is the maximum length of a unix socket path in bytes. The smallest limit of the supported systems is
// 104, with the terminating NUL.
const socketPathAtMost = 103

// ListenUnix listens at a unix socket with the given mode, 0600 or 0660. It replaces a stale socket; any other file at
// that path is kept and is an error.
func ListenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if mode.Perm()&0o007 != 0 {
		return nil, fmt.Errorf("listen at %s: mode %#o gives access to all users; use 0600 or 0660", path, mode.Perm())
	}
	if len(path) > socketPathAtMost {
		return nil, fmt.Errorf("listen at %s: the path has %d bytes; the path of a unix socket can have %d", path, len(path), socketPathAtMost)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	// The mode is set before bind creates the file, so that no other user can connect in between.
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var inner error
		err := raw.Control(func(fd uintptr) { inner = chmodUnbound(int(fd), uint32(mode.Perm())) })
		return errors.Join(err, inner)
	}}
	l, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = ErrInUse
		}
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	if err := os.Chmod(path, mode.Perm()); err != nil { // the umask may have removed the permissions of the group
		return nil, fmt.Errorf("listen at %s: %w", path, errors.Join(err, l.Close()))
	}
	return netutil.LimitListener(l, connections), nil
}

// removeStale removes a socket at which no process listens.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("the path exists and is not a socket (%s); remove it, or use another path", describeMode(info.Mode()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
		return ErrInUse
	}
	if !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot determine whether a process listens there: %w", err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func describeMode(mode fs.FileMode) string {
	switch {
	case mode.IsRegular():
		return "a file"
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeSymlink != 0:
		return "a link"
	default:
		return mode.Type().String()
	}
}

// TLS holds the paths of the PEM files of a listener. With ClientCA, clients need a certificate of that authority in
// addition to their token.
type TLS struct {
	Cert, Key, ClientCA string
}

// ListenTCP listens at an address such as 127.0.0.1:8989. Without TLS it accepts only a loopback address, since others
// could read the tokens in transit. The log reports reloads of the certificate; it may be nil.
func ListenTCP(ctx context.Context, address string, t TLS, log *slog.Logger) (net.Listener, error) {
	config, err := t.config(log)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", address, err)
	}
	if config == nil {
		if err := onlyHere(address); err != nil {
			return nil, fmt.Errorf("listen at %s: %w", address, err)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	l = connlimit.Listen(l, connections, connectionsOfOne)
	if config != nil { // the outermost listener, so that net/http detects TLS and limits the handshake
		l = tls.NewListener(l, config)
	}
	return l, nil
}

// onlyHere rejects addresses that are not loopback. It also rejects names, because they may later resolve to another
// address.
func onlyHere(address string) error {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(name); ip == nil || !ip.IsLoopback() {
		return errors.New("without TLS only a loopback address such as 127.0.0.1 or ::1 is allowed, because others could read the tokens in transit")
	}
	return nil
}

// config reads the files. It returns nil if no file is set.
func (t TLS) config(log *slog.Logger) (*tls.Config, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	if t.Cert == "" || t.Key == "" {
		return nil, errors.New("TLS needs a certificate and its key")
	}
	pair, err := readCertificate(t.Cert, t.Key, log)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: pair.get, NextProtos: []string{"http/1.1"}}
	if t.ClientCA == "" {
		return config, nil
	}
	text, err := host.ReadFile(t.ClientCA, fileSize)
	if err != nil {
		return nil, fmt.Errorf("client authority: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("client authority %s: the file contains no certificate", t.ClientCA)
	}
	return config, nil
}

// certificate is a TLS certificate with its key. Both files are read again when they are replaced.
type certificate struct{ reloadedFile[*tls.Certificate] }

// readCertificate reads a certificate and its key for the first time.
func readCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{}
	c.what, c.log = "the certificate", log
	c.read = func() (*tls.Certificate, []byte, error) { return readPair(cert, key) }
	return c, c.open()
}

func readPair(cert, key string) (pair *tls.Certificate, contents []byte, err error) {
	certText, err := host.ReadFile(cert, fileSize)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate: %w", err)
	}
	keyText, err := host.ReadFile(key, fileSize)
	if err != nil {
		return nil, nil, fmt.Errorf("key: %w", err)
	}
	read, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
	}
	return &read, bytes.Join([][]byte{certText, keyText}, []byte{0}), nil
}

// get implements tls.Config.GetCertificate.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current(), nil }

// fileSize is the maximum size in bytes of a certificate or token file.
const fileSize = 1 << 20

// readEvery is the minimum time between two reads of a file that may have been replaced.
const readEvery = 2 * time.Second

// reloadedFile is a value from files, which are read again every readEvery while the value is used. Contents are
// compared, not sizes and times, to detect a change within one tick of the file system's clock. A failed read keeps the
// value, unless onError changes it, and is repeated.
type reloadedFile[T any] struct {
	what    string                    // name of the value, for the log
	read    func() (T, []byte, error) // returns the value and the contents of its files
	onError func(error) (T, bool)     // the value after a failed read, if that changes it; may be nil
	log     *slog.Logger

	mu       sync.Mutex // guards the fields below
	value    T
	contents []byte
	failure  string // error of the newest read; empty: it succeeded
	checked  time.Time
}

// open reads the value for the first time. Its error is final.
func (r *reloadedFile[T]) open() (err error) {
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.value, r.contents, err = r.read()
	r.checked = time.Now()
	return err
}

// current returns the value, after reading the files if that is due.
func (r *reloadedFile[T]) current() T {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) < readEvery {
		return r.value
	}
	r.checked = time.Now()
	value, contents, err := r.read()
	if err != nil {
		r.fail(err)
		return r.value
	}
	if r.failure != "" || !bytes.Equal(contents, r.contents) {
		r.log.Info("reloaded "+r.what, "changed", !bytes.Equal(contents, r.contents))
		r.value, r.contents, r.failure = value, contents, ""
	}
	return r.value
}

// fail logs a failed read, once for each error.
func (r *reloadedFile[T]) fail(err error) {
	consequence := "the previous contents stay in effect"
	if r.onError != nil {
		if value, changed := r.onError(err); changed {
			r.value, r.contents, consequence = value, nil, "no token is valid now"
		}
	}
	if r.failure != err.Error() {
		r.log.Error("cannot read "+r.what+"; "+consequence, "error", err)
	}
	r.failure = err.Error()
}
