package gearman

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// serverError is an error of one server.
type serverError struct {
	Server string
	Err    error
}

func (e *serverError) Error() string { return "gearman server " + e.Server + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *serverError) Unwrap() error { return e.Err }

// dial connects to a server. With TLS it never falls back to plain text.
func (o Options) dial(ctx context.Context, server string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, o.DialTimeout, fmt.Errorf("no answer within %s", o.DialTimeout))
	defer cancel()
	dialer := net.Dialer{KeepAlive: o.KeepAlive}
	plain, err := dialer.DialContext(ctx, "tcp", server)
	if err != nil {
		return nil, &serverError{server, because(ctx, err)}
	}
	if o.TLS == nil {
		return plain, nil
	}
	secure := tls.Client(plain, o.tlsFor(server))
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = plain.Close()
		return nil, &serverError{server, handshake(ctx, err)}
	}
	return secure, nil
}

func (o Options) tlsFor(server string) *tls.Config {
	if o.TLS.ServerName != "" {
		return o.TLS
	}
	config := o.TLS.Clone()
	config.ServerName, _, _ = net.SplitHostPort(server)
	return config
}

// because returns the cause of an ended context in place of the error that results from it.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

const plainText = "; npctl does not fall back to plain text: use a gearman server that is built with TLS, or put stunnel in front " +
	"(Debian's gearmand takes --ssl and speaks plain text anyway)"

// handshake explains a failed handshake.
func handshake(ctx context.Context, err error) error {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record):
		return fmt.Errorf("it answers a TLS handshake in plain text (%q)%s", record.RecordHeader[:], plainText)
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled):
		return context.Cause(ctx)
	case ctx.Err() != nil:
		return fmt.Errorf("TLS handshake: %w, so it probably speaks plain text%s", context.Cause(ctx), plainText)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("it closed the connection at the TLS handshake%s", plainText)
	default:
		return fmt.Errorf("TLS handshake: %w", err)
	}
}

// timedOut reports whether a read failed because of its deadline.
func timedOut(err error) bool {
	var failed net.Error
	return errors.As(err, &failed) && failed.Timeout()
}

// transfer limits the duration of a single packet or listing.
const transfer = 2 * time.Minute
