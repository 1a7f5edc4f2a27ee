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

	"github.com/npctl/npctl/builders"
	"github.com/npctl/npctl/internal/keyscan"
	"github.com/npctl/npctl/resources/schema"
)

const doc = "Creates the image on an instance: boots an instance from an offer of a pool, runs a script on it over SSH, takes a " +
	"snapshot of its disk, fetches the snapshot, and deletes the instance. Flavor, base image, networks and key are those of the label, so " +
	"this block contains no attributes of the cloud. See builders/snapshot.md."

// Schema implements builders.Builder.
func (*Builder) Schema() schema.Block {
	env := builders.CheckVariables(builders.ReservedVariable)
	return schema.Of[settings](doc, map[string]schema.Check{
		"provider": notEmpty, "label": notEmpty, "private_key_file": notEmpty, "interpreter": checkInterpreter, "env": env, "secret_env": env,
		"host_keys": checkHostKeys, "connect_timeout": checkTimeout,
	})
}

// settings is the decoded block.
type settings struct {
	Provider        string            `config:"provider,required,replacing" doc:"Name of the provider to boot the instance in. Its driver must support snapshots, such as 'openstack'."`
	Pool            string            `config:"pool,replacing" doc:"Pool of that provider; default is the first that offers the label."`
	Label           string            `config:"label,required,replacing" doc:"Label that provides flavor, image, networks, key and user data of the instance. Its 'min_ready' may be 0; it must not boot from a volume."`
	Script          string            `config:"script,replacing" doc:"File with the script to run on the instance, relative to the directory of the configuration. A change of its content rebuilds the image. Either this or 'inline'."`
	Inline          string            `config:"inline,replacing" doc:"The script to run on the instance, as text."`
	Interpreter     string            `config:"interpreter,replacing" default:"/bin/sh -e" doc:"Command that runs the script; npctl appends the path of the script. Example: 'sudo -E /bin/bash -eux'."`
	Inputs          []string          `config:"inputs" doc:"Additional files that become part of the image, as in builder 'exec': a change of one of them rebuilds it. npctl does not send them to the instance."`
	Env             map[string]string `config:"env,replacing" doc:"Environment variables of the script."`
	SecretEnv       map[string]string `config:"secret_env,new,sensitive" doc:"More environment variables, with values that npctl masks in logs and errors. A change does not rebuild the image. Values that the script writes to the disk are in the image."`
	Shutdown        bool              `config:"shutdown,replacing" default:"true" doc:"Whether npctl shuts the instance down before it creates the snapshot, so that no file is partly written."`
	ShutdownCommand string            `config:"shutdown_command,replacing" default:"sync; if [ \"$(id -u)\" = 0 ]; then shutdown -h now; else sudo -n shutdown -h now; fi" doc:"Shell command that shuts the instance down. If it fails, or the instance runs for another minute, npctl creates the snapshot anyway."`
	PrivateKeyFile  string            `config:"private_key_file,required" doc:"Private key to log in with, without a passphrase, relative to the directory of the configuration. The instance gets its public key from 'key_name' of the label, its user data or its image."`
	Username        string            `config:"username" doc:"User to log in as; default is the username of the label's image."`
	Port            int64             `config:"port,port" doc:"SSH port; default is 'connection_port' of the label's image, or 22."`
	HostKeys        []string          `config:"host_keys" doc:"Accepted host keys of the instance, each as 'type base64', if its image or user data sets fixed ones. Without them, and if the cloud does not report the keys, npctl trusts the first key and logs its fingerprint."`
	ConnectTimeout  time.Duration     `config:"connect_timeout" default:"5m" doc:"Time limit for the login after the instance is active."`

	script   script
	hostKeys []string // HostKeys in the form "type base64"
	secrets  []string
}

func notEmpty(v cty.Value) error {
	if strings.TrimSpace(v.AsString()) == "" {
		return errors.New("it is empty")
	}
	return nil
}

func checkInterpreter(v cty.Value) error {
	if s := v.AsString(); strings.TrimSpace(s) == "" || strings.ContainsAny(s, "\n\r\x00") {
		return fmt.Errorf("interpreter %q is not a command: write one on one line, such as \"/bin/bash -e\"", s)
	}
	return nil
}

func checkHostKeys(v cty.Value) error {
	for _, line := range v.AsValueSlice() {
		if line.IsNull() || !line.IsKnown() {
			continue
		}
		if _, err := keyscan.Normal(line.AsString()); err != nil {
			return err
		}
	}
	return nil
}

func checkTimeout(v cty.Value) error {
	if s := strings.TrimSpace(v.AsString()); s == "0" || s == "0s" {
		return errors.New("connect_timeout must be greater than zero: write one such as \"5m\"")
	}
	return nil
}

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
