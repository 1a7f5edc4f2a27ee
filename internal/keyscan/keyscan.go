// Package keyscan reads the host keys of an SSH server like ssh-keyscan: it connects, receives the key and
// disconnects before the login.
package keyscan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// families are the key types of which a server has at most one key each, the most common first.
func families() [][]string {
	return [][]string{
		{ssh.KeyAlgoED25519},
		{ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521},
		{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSA},
	}
}

var errSeen = errors.New("key seen")

// Scan returns the host keys of the server at address (host:port) as "type base64", in a fixed order. It makes one
// connection after the other, since servers limit unauthenticated connections per client. The limit applies to each
// connection. Scan returns an error if the server is unreachable or has no key.
func Scan(ctx context.Context, address string, limit time.Duration) ([]string, error) {
	var keys []string
	var last error
	for _, algorithms := range families() {
		key, err := scanOne(ctx, address, algorithms, limit)
		var unreachable *net.OpError
		switch {
		case err == nil:
			keys = append(keys, key)
		case errors.As(err, &unreachable) && unreachable.Op == "dial", ctx.Err() != nil:
			return nil, err
		default: // the server has no such key, or disconnected
			last = err
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s shows no SSH host key: %w", address, last)
	}
	return keys, nil
}

func scanOne(ctx context.Context, address string, algorithms []string, limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	found := ""
	_, _, _, err = ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User:              "keyscan",
		HostKeyAlgorithms: algorithms,
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			found = Text(key)
			return errSeen
		},
	})
	if found != "" {
		return found, nil
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("no SSH answer within %s", limit)
	}
	return "", err
}

// Text formats a key as "type base64".
func Text(key ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) }

// Normal converts a configured key to the same format: without comment, options or the host name at the start of
// known_hosts lines.
func Normal(line string) (string, error) {
	if key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line)); err == nil {
		return Text(key), nil
	}
	_, _, key, _, _, err := ssh.ParseKnownHosts([]byte(line))
	if err != nil {
		return "", fmt.Errorf("host key %q is neither \"type base64\" nor a line of known_hosts", line)
	}
	return Text(key), nil
}
