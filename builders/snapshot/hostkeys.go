package snapshot

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/internal/keyscan"
)

// hostKeys verifies that a server is the booted instance. It compares the host key with those of the configuration or
// the cloud; if none is known, it trusts the first one and logs its fingerprint.
type hostKeys struct {
	known   []string // "type base64"; empty if none is known
	shown   ssh.PublicKey
	refused error // why the last key was rejected
}

func newHostKeys(lists ...[]string) *hostKeys {
	k := &hostKeys{}
	for _, list := range lists {
		for _, line := range list {
			if key, err := keyscan.Normal(line); err == nil {
				k.known = append(k.known, key)
			}
		}
	}
	return k
}

// check implements ssh.HostKeyCallback.
func (k *hostKeys) check(_ string, address net.Addr, key ssh.PublicKey) error {
	k.shown = key
	if len(k.known) == 0 || slices.Contains(k.known, keyscan.Text(key)) {
		return nil
	}
	k.refused = fmt.Errorf("the instance at %s has the host key %s %s, which is not one of its known keys: another computer answers at this address, or host_keys is wrong",
		address, key.Type(), ssh.FingerprintSHA256(key))
	return k.refused
}

// algorithms restricts the key types, so that a server with several host keys presents a known one.
func (k *hostKeys) algorithms() []string {
	var all []string
	for _, key := range k.known {
		kind, _, _ := strings.Cut(key, " ")
		if kind == ssh.KeyAlgoRSA {
			all = append(all, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256)
			continue
		}
		all = append(all, kind)
	}
	return all
}

// description describes the host key of a successful login.
func (k *hostKeys) description() string {
	how := "its host key is a known one"
	if len(k.known) == 0 {
		how = "its host key is unknown, so npctl trusts the first one"
	}
	return fmt.Sprintf("%s: %s %s", how, k.shown.Type(), ssh.FingerprintSHA256(k.shown))
}
