package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"net"
	"os"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/test/sshserver"
)

// scriptFreePort sets a variable to a port on which the servers of an emulator can serve SSH: freeport NAME.
func scriptFreePort(ts *testscript.TestScript, _ bool, args []string) {
	listener, err := sshserver.Listen(context.Background(), 0)
	ts.Check(err)
	ts.Setenv(args[0], strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	ts.Check(listener.Close())
}

// scriptSSHKey writes a private key: sshkey FILE.
func scriptSSHKey(ts *testscript.TestScript, _ bool, args []string) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	ts.Check(err)
	block, err := ssh.MarshalPrivateKey(key, "")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), pem.EncodeToMemory(block), 0o600))
}
