package snapshot

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/internal/keyscan"
)

// hostKeys decides whether a machine is the one that was booted. Keys that the configuration names, or the cloud, are
// compared; where nobody knows any, the first one shown is trusted and its fingerprint told.
type hostKeys struct {
	known   []string // "type base64"; empty: nobody knows
	shown   ssh.PublicKey
	refused error // why the last key shown is not the machine's
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
	k.refused = fmt.Errorf("the machine at %s shows the host key %s %s, which is not among those known of it: somebody else answers at this address, or host_keys is not right",
		address, key.Type(), ssh.FingerprintSHA256(key))
	return k.refused
}

// algorithms keeps a server that has keys of several kinds from showing one that nobody knows.
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

// told says what became of the key of a login that worked.
func (k *hostKeys) told() string {
	how := "its host key is the one that is known"
	if len(k.known) == 0 {
		how = "nobody knows its host key, so the first one shown is trusted"
	}
	return fmt.Sprintf("%s: %s %s", how, k.shown.Type(), ssh.FingerprintSHA256(k.shown))
}
