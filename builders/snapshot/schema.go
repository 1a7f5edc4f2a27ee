package snapshot

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/npctl/npctl/internal/block"
	"github.com/npctl/npctl/internal/keyscan"
	"github.com/npctl/npctl/resources/schema"
)

const doc = "Creates the image on an instance: boots an instance from an offer of a pool, runs a script on it over SSH, takes a " +
	"snapshot of its disk, fetches the snapshot, and deletes the instance. Flavor, base image, networks and key are those of the label, so " +
	"this block contains no attributes of the cloud. See builders/snapshot.md."

// Schema implements builders.Builder.
func (*Builder) Schema() schema.Block {
	return schema.Block{Doc: doc, Attributes: append(append(machineAttributes(), scriptAttributes()...), loginAttributes()...)}
}

func machineAttributes() []schema.Attribute {
	return []schema.Attribute{
		{Name: "provider", Type: cty.String, Required: true, Class: schema.Replacing, Check: notEmpty,
			Doc: "Name of the provider to boot the instance in. Its driver must support snapshots, such as `openstack`."},
		{Name: "pool", Type: cty.String, Class: schema.Replacing,
			Doc: "Pool of that provider; default is the first that offers the label."},
		{Name: "label", Type: cty.String, Required: true, Class: schema.Replacing, Check: notEmpty,
			Doc: "Label that provides flavor, image, networks, key and user data of the instance. Its `min_ready` may be 0; it must not boot from a volume."},
	}
}

func scriptAttributes() []schema.Attribute {
	texts := cty.Map(cty.String)
	return []schema.Attribute{
		{Name: "script", Type: cty.String, Class: schema.Replacing,
			Doc: "File with the script to run on the instance, relative to the directory of the configuration. A change of its content rebuilds the image. Either this or `inline`."},
		{Name: "inline", Type: cty.String, Class: schema.Replacing, Doc: "The script to run on the instance, as text."},
		{Name: "interpreter", Type: cty.String, Class: schema.Replacing, Default: cty.StringVal("/bin/sh -e"), Check: checkInterpreter,
			Doc: "Command that runs the script; npctl appends the path of the script. Example: `sudo -E /bin/bash -eux`."},
		{Name: "inputs", Type: cty.List(cty.String), Class: schema.InPlace,
			Doc: "Additional files that become part of the image, as in builder `exec`: a change of one of them rebuilds it. npctl does not send them to the instance."},
		{Name: "env", Type: texts, Class: schema.Replacing, Check: checkEnv, Doc: "Environment variables of the script."},
		{Name: "secret_env", Type: texts, Class: schema.AppliedToNew, Sensitive: true, Check: checkEnv,
			Doc: "More environment variables, with values that npctl masks in logs and errors. A change does not rebuild the image. Values that the script writes to the disk are in the image."},
		{Name: "shutdown", Type: cty.Bool, Class: schema.Replacing, Default: cty.True,
			Doc: "Whether npctl shuts the instance down before it creates the snapshot, so that no file is partly written."},
		{Name: "shutdown_command", Type: cty.String, Class: schema.Replacing, Default: cty.StringVal(defaultShutdown),
			Doc: "Shell command that shuts the instance down. If it fails, or the instance runs for another minute, npctl creates the snapshot anyway."},
	}
}

const defaultShutdown = `sync; if [ "$(id -u)" = 0 ]; then shutdown -h now; else sudo -n shutdown -h now; fi`

func loginAttributes() []schema.Attribute {
	return []schema.Attribute{
		{Name: "private_key_file", Type: cty.String, Required: true, Class: schema.InPlace, Check: notEmpty,
			Doc: "Private key to log in with, without a passphrase, relative to the directory of the configuration. The instance gets its public key from `key_name` of the label, its user data or its image."},
		{Name: "username", Type: cty.String, Class: schema.InPlace, Doc: "User to log in as; default is the username of the label's image."},
		{Name: "port", Type: cty.Number, Class: schema.InPlace, Check: checkPort,
			Doc: "SSH port; default is `connection_port` of the label's image, or 22."},
		{Name: "host_keys", Type: cty.List(cty.String), Class: schema.InPlace, Check: checkHostKeys,
			Doc: "Accepted host keys of the instance, each as `type base64`, if its image or user data sets fixed ones. Without them, and if the cloud does not report the keys, npctl trusts the first key and logs its fingerprint."},
		{Name: "connect_timeout", Type: cty.String, Class: schema.InPlace, Format: schema.FormatDuration, Default: cty.StringVal("5m"), Check: checkTimeout,
			Doc: "Time limit for the login after the instance is active."},
	}
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

func checkEnv(v cty.Value) error {
	return block.CheckVariables(v, func(name string) error {
		if strings.HasPrefix(name, "NPCTL_") {
			return fmt.Errorf("%s is set by npctl: choose a name without NPCTL_", name)
		}
		return nil
	})
}

func checkPort(v cty.Value) error {
	if n, _ := v.AsBigFloat().Int64(); n < 1 || n > 65535 {
		return fmt.Errorf("%d is not a TCP port: write one from 1 to 65535", n)
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
