package emulator

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

	"github.com/npctl/npctl/test/sshserver"
)

// Operations that are no API calls: a connection to a server's SSH port, and a command on a server.
const (
	serverSSH      = "server.ssh"
	serverCommands = "server.command"
)

// Limits of stored SSH input.
const (
	heardBytes   = 8 << 10 // in total, per server
	commandBytes = 1 << 20 // input of one command, which is read to its end
)

// ServeSSH serves SSH for all active servers on the listener until ctx ends. The listener receives the connections to
// all of 127.0.0.0/8, see sshserver.Listen. Each server has its own host key, the same in every process, and accepts
// every login. Commands are not run: the server's console shows them, and the exit status is 0.
func ServeSSH(ctx context.Context, listener net.Listener, cloud *Cloud) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(cloud.closing, cancel)
	defer stop()
	server := &sshserver.Server{Find: cloud.machineAt, Log: cloud.options.Log}
	return server.Serve(ctx, listener)
}

// machineAt returns the active server with the address, fixed or floating.
func (c *Cloud) machineAt(ctx context.Context, local net.Addr) (sshserver.Machine, bool) {
	at, ok := local.(*net.TCPAddr)
	if !ok || !at.IP.IsLoopback() {
		return sshserver.Machine{}, false
	}
	var id, name string
	var key ed25519.PrivateKey
	err := c.store.view(c.now(), func(w *cloudState) error {
		s := w.serverAt(at.AddrPort().Addr().Unmap())
		if s != nil && s.Status == "ACTIVE" {
			id, name, key = s.ID, s.Name, w.hostKey(s)
		}
		return nil
	})
	if err != nil || id == "" || c.sshFault(ctx, serverSSH, id, func(faultDecision) {}) != nil {
		return sshserver.Machine{}, false
	}
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		return sshserver.Machine{}, false
	}
	return sshserver.Machine{Name: name, HostKeys: []ssh.Signer{signer}, Run: func(ctx context.Context, command sshserver.Command) int {
		return c.command(ctx, id, command)
	}}, true
}

// serverAt finds the owner of an address.
func (w *cloudState) serverAt(a netip.Addr) *server {
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

// hostKey derives the key from the cloud and the server, so that no key is stored and every process has the same one.
func (w *cloudState) hostKey(s *server) ed25519.PrivateKey {
	seed := hmac.New(sha256.New, w.Secret)
	_, _ = io.WriteString(seed, "ssh host key "+s.ID)
	return ed25519.NewKeyFromSeed(seed.Sum(nil))
}

var goesDown = regexp.MustCompile(`\b(shutdown|poweroff|halt)\b`)

// command records a command and its input and returns the exit status of a success.
func (c *Cloud) command(ctx context.Context, id string, command sshserver.Command) (status int) {
	input, _ := io.ReadAll(io.LimitReader(command.Stdin, commandBytes))
	rest, _ := io.Copy(io.Discard, command.Stdin)
	text := fmt.Sprintf("emulator: %s asked for: %s\n%s", command.User, command.Line, input)
	down := goesDown.MatchString(command.Line)
	err := c.sshFault(ctx, serverCommands, id, func(met faultDecision) {
		for _, f := range met {
			if f.Action == ServerError {
				_, _ = fmt.Fprintln(command.Stderr, "emulator:", f.Message)
				status = 1
			}
		}
		c.hear(id, text, down)
		_, _ = fmt.Fprintf(command.Stdout, "emulator: commands are not executed; read %d bytes of input\n", int64(len(input))+rest)
	})
	if err != nil || down {
		return sshserver.HangUp
	}
	return status
}

// hear records a command, and powers the server off if the command requests that.
func (c *Cloud) hear(id, text string, down bool) {
	now := c.now()
	err := c.store.update(now, func(w *cloudState) error {
		s, found := w.Servers.get(id, now)
		if !found {
			return nil
		}
		s.ConsoleInput += strings.TrimSuffix(text, "\n") + "\n"
		s.ConsoleInput = strings.ToValidUTF8(s.ConsoleInput[max(0, len(s.ConsoleInput)-heardBytes):], "")
		if down && s.Status == "ACTIVE" {
			s.Status, s.Power = "SHUTOFF", powerOff
			s.touch(now)
		}
		return nil
	})
	if err != nil {
		c.options.Log.Error("SSH input of an emulator server not recorded", "server", id, "error", err)
	}
}

// errHungUp is the error of a connection that a fault ends.
var errHungUp = fmt.Errorf("a fault: %w", errCut)

// sshFault applies the faults of an operation: a delay, no execution, or no end.
func (c *Cloud) sshFault(ctx context.Context, operation, server string, do func(faultDecision)) (err error) {
	request := (&http.Request{Method: "SSH", URL: &url.URL{Path: "/servers/" + server}}).WithContext(ctx)
	request.SetPathValue("id", server)
	call := &call{cloud: c, request: request, route: &route{service: compute, operation: operation}, scope: scope{now: c.now()}}
	c.count(operation)
	met, err := call.decideFault()
	if err != nil {
		return err
	}
	defer func() {
		if trouble := recover(); trouble == http.ErrAbortHandler { //nolint:errorlint // panics with this exact value
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

// afterDeed is like after, for operations without a response.
func (v faultDecision) afterDeed(c *call) error {
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
