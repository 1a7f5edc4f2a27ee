package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/keyscan"
)

// read checks the configuration as far as possible without an instance, and makes its paths absolute.
func (b *Builder) read(config cty.Value, baseDir string) (s settings, err error) {
	if s.secrets, err = builders.Decode(config, b.Schema(), &s); err != nil {
		return settings{}, err
	}
	s.PrivateKeyFile = absolute(baseDir, s.PrivateKeyFile)
	s.script = script{inline: s.Inline, interpreter: s.Interpreter}
	if s.Script != "" {
		s.script.file = absolute(baseDir, s.Script)
	}
	for _, line := range s.HostKeys {
		key, err := keyscan.Normal(line)
		if err != nil {
			return settings{}, err
		}
		s.hostKeys = append(s.hostKeys, key)
	}
	return s, s.check()
}

// InstanceOffer returns the provider, pool and label of the instance that a build boots. An empty pool means the first
// that offers the label. The planner calls it, so that the image of the instance exists before the build.
func (b *Builder) InstanceOffer(config cty.Value) (provider, pool, label string, err error) {
	var s settings
	_, err = builders.Decode(config, b.Schema(), &s)
	return s.Provider, s.Pool, s.Label, err
}

func (s settings) check() error {
	switch {
	case s.script.file == "" && s.script.inline == "":
		return errors.New("the block has no script: write script = \"setup.sh\", or the commands as inline")
	case s.script.file != "" && s.script.inline != "":
		return errors.New("script and inline are both set: remove one of them")
	}
	return nil
}

func absolute(base, path string) string {
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(path, "~/") {
		return filepath.Join(home, path[2:])
	}
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(base, path)
}

// maxKey is larger than any private key, in bytes.
const maxKey = 64 << 10

// signer reads the private key.
func (s settings) signer() (ssh.Signer, error) {
	text, err := readFile(s.PrivateKeyFile, maxKey)
	if err != nil {
		return nil, fmt.Errorf("private_key_file: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, fmt.Errorf("private_key_file %s has a passphrase: use a key without one (ssh-keygen -N '')", s.PrivateKeyFile)
	case err != nil:
		return nil, fmt.Errorf("private_key_file %s is not a private key in OpenSSH or PEM format: %w", s.PrivateKeyFile, err)
	}
	return signer, nil
}
