package sandboxcloud

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/internal/sandboxssh"
)

// Operations that are no calls of an API: somebody dials a server's SSH port, somebody has a command run there.
const (
	serverSSH      = "server.ssh"
	serverCommands = "server.command"
)

// What is kept of what comes by SSH.
const (
	heardBytes   = 8 << 10 // in all, of one server
	commandBytes = 1 << 20 // of one command's input, which is read to its end
)

// ServeSSH answers for every active server on the listener, until ctx ends. The listener gets the connections to all of
// 127.0.0.0/8, see sandboxssh.Listen. A server shows a host key of its own, the same in every process, and lets everybody
// in. Commands are not run: what was asked for shows in the server's console, and the exit status is 0.
func ServeSSH(ctx context.Context, listener net.Listener, cloud *Cloud) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(cloud.closing, cancel)
	defer stop()
	server := &sandboxssh.Server{Find: cloud.machineAt, Log: cloud.options.Log}
	return server.Serve(ctx, listener)
}

// machineAt is the active server that has the address, as its own or as a floating one.
func (c *Cloud) machineAt(ctx context.Context, local net.Addr) (sandboxssh.Machine, bool) {
	at, ok := local.(*net.TCPAddr)
	if !ok || !at.IP.IsLoopback() {
		return sandboxssh.Machine{}, false
	}
	var id, name string
	var key ed25519.PrivateKey
	err := c.store.view(c.now(), func(w *world) error {
		s := w.serverAt(at.AddrPort().Addr().Unmap())
		if s != nil && s.Status == "ACTIVE" {
			id, name, key = s.ID, s.Name, w.hostKey(s)
		}
		return nil
	})
	if err != nil || id == "" || c.sshFault(ctx, serverSSH, id, func(verdict) {}) != nil {
		return sandboxssh.Machine{}, false
	}
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		return sandboxssh.Machine{}, false
	}
	return sandboxssh.Machine{Name: name, HostKeys: []ssh.Signer{signer}, Run: func(ctx context.Context, command sandboxssh.Command) int {
		return c.command(ctx, id, command)
	}}, true
}

// serverAt finds the owner of an address.
func (w *world) serverAt(a netip.Addr) *server {
	owner := w.addresses[a]
	if f, floating := w.FloatingIPs.byID[owner]; floating {
		owner = f.Port
	}
	p, found := w.Ports.byID[owner]
	if !found {
		return nil
	}
	return w.Servers.byID[p.Device]
}

// hostKey follows from the cloud and the server, so that nothing is kept and every process shows the same.
func (w *world) hostKey(s *server) ed25519.PrivateKey {
	seed := hmac.New(sha256.New, w.Secret)
	_, _ = io.WriteString(seed, "ssh host key "+s.ID)
	return ed25519.NewKeyFromSeed(seed.Sum(nil))
}

var goesDown = regexp.MustCompile(`\b(shutdown|poweroff|halt)\b`)

// command takes what was to be run, and answers as a machine on which all went well.
func (c *Cloud) command(ctx context.Context, id string, command sandboxssh.Command) (status int) {
	input, _ := io.ReadAll(io.LimitReader(command.Stdin, commandBytes))
	rest, _ := io.Copy(io.Discard, command.Stdin)
	text := fmt.Sprintf("sandbox: %s asked for: %s\n%s", command.User, command.Line, input)
	down := goesDown.MatchString(command.Line)
	err := c.sshFault(ctx, serverCommands, id, func(met verdict) {
		for _, f := range met {
			if f.Action == ServerError {
				_, _ = fmt.Fprintln(command.Stderr, "sandbox:", f.Message)
				status = 1
			}
		}
		c.hear(id, text, down)
		_, _ = fmt.Fprintf(command.Stdout, "sandbox: nothing is run here; took %d bytes of input\n", int64(len(input))+rest)
	})
	if err != nil || down {
		return sandboxssh.HangUp
	}
	return status
}

// hear keeps what a command was, and powers the server off when it asks for that.
func (c *Cloud) hear(id, text string, down bool) {
	now := c.now()
	err := c.store.update(now, func(w *world) error {
		s, found := w.Servers.get(id, now)
		if !found {
			return nil
		}
		s.Heard += strings.TrimSuffix(text, "\n") + "\n"
		s.Heard = strings.ToValidUTF8(s.Heard[max(0, len(s.Heard)-heardBytes):], "")
		if down && s.Status == "ACTIVE" {
			s.Status, s.Power = "SHUTOFF", powerOff
			s.touch(now)
		}
		return nil
	})
	if err != nil {
		c.options.Log.Error("what a sandbox server was told by SSH is lost", "server", id, "error", err)
	}
}

// errHungUp is how a fault ends a connection.
var errHungUp = fmt.Errorf("a fault: %w", errCut)

// sshFault does something the way the faults of an operation have it: later, not at all, without an end.
func (c *Cloud) sshFault(ctx context.Context, operation, server string, do func(verdict)) (err error) {
	request := (&http.Request{Method: "SSH", URL: &url.URL{Path: "/servers/" + server}}).WithContext(ctx)
	request.SetPathValue("id", server)
	call := &call{cloud: c, request: request, route: &route{service: compute, operation: operation}, now: c.now()}
	c.count(operation)
	met, err := call.judge()
	if err != nil {
		return err
	}
	defer func() {
		if trouble := recover(); trouble == http.ErrAbortHandler { //nolint:errorlint // the very value is what is thrown
			err = errHungUp
		} else if trouble != nil {
			panic(trouble)
		}
	}()
	if err := met.before(call); err != nil {
		return errHungUp
	}
	do(met)
	return met.afterDeed(call)
}

// afterDeed is after, for what has no answer to send.
func (v verdict) afterDeed(c *call) error {
	for _, f := range v {
		switch f.Action {
		case LostAfter, LateEffect, Truncate:
			return errHungUp
		case HangAfter:
			c.hang()
		}
	}
	return nil
}
