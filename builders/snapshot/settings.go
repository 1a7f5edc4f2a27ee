package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"
	"golang.org/x/crypto/ssh"

	"github.com/npctl/npctl/internal/block"
	"github.com/npctl/npctl/internal/keyscan"
)

// settings is the decoded block.
type settings struct {
	provider, pool, label string
	script                script
	env                   map[string]string
	inputs                []string
	login                 login
	connectTimeout        time.Duration
	shutdown              string // empty: the instance keeps running
	secrets               []string
}

// login configures how to log in to the instance. Empty fields are taken from its image.
type login struct {
	username string
	keyFile  string // absolute
	port     int64
	hostKeys []string // "type base64"
}

// read checks the configuration as far as possible without an instance.
func (b *Builder) read(config cty.Value, baseDir string) (settings, error) {
	c, err := block.Read(config, b.Schema())
	if err != nil {
		return settings{}, err
	}
	s := settings{
		provider: c.String("provider"), pool: c.String("pool"), label: c.String("label"),
		script: script{inline: c.String("inline"), interpreter: c.String("interpreter")},
		env:    block.Merge(c.Map("env"), c.Map("secret_env")),
		login:  login{username: c.String("username"), keyFile: absolute(baseDir, c.String("private_key_file"))},
		inputs: c.Strings("inputs"), secrets: c.Secrets(),
	}
	if file := c.String("script"); file != "" {
		s.script.file = absolute(baseDir, file)
	}
	if c.Bool("shutdown") {
		s.shutdown = c.String("shutdown_command")
	}
	if _, err := fmt.Sscan(c.String("port"), &s.login.port); err != nil {
		s.login.port = 0
	}
	for _, line := range c.Strings("host_keys") {
		key, err := keyscan.Normal(line)
		if err != nil {
			return settings{}, err
		}
		s.login.hostKeys = append(s.login.hostKeys, key)
	}
	if s.connectTimeout, err = c.Duration("connect_timeout"); err != nil {
		return settings{}, err
	}
	return s, s.check()
}

// InstanceOffer returns the provider, pool and label of the instance that a build boots. An empty pool means the first
// that offers the label. The planner calls it, so that the image of the instance exists before the build.
func (b *Builder) InstanceOffer(config cty.Value) (provider, pool, label string, err error) {
	c, err := block.Read(config, b.Schema())
	if err != nil {
		return "", "", "", err
	}
	return c.String("provider"), c.String("pool"), c.String("label"), nil
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
func (l login) signer() (ssh.Signer, error) {
	text, err := readFile(l.keyFile, maxKey)
	if err != nil {
		return nil, fmt.Errorf("private_key_file: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch {
	case errors.As(err, &locked):
		return nil, fmt.Errorf("private_key_file %s has a passphrase: use a key without one (ssh-keygen -N '')", l.keyFile)
	case err != nil:
		return nil, fmt.Errorf("private_key_file %s is not a private key in OpenSSH or PEM format: %w", l.keyFile, err)
	}
	return signer, nil
}
