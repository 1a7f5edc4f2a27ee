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

const doc = "Makes the image on an instance: boots a machine the way a pool offers a label, runs a script on it over SSH, takes a " +
	"snapshot of its disk, fetches that, and deletes the machine. Flavor, base image, networks and key are those of the label, so " +
	"nothing of the cloud is said here. See builders/snapshot.md."

// Schema implements builders.Builder.
func (*Builder) Schema() schema.Block {
	return schema.Block{Doc: doc, Attributes: append(append(machineAttributes(), scriptAttributes()...), loginAttributes()...)}
}

func machineAttributes() []schema.Attribute {
	return []schema.Attribute{
		{Name: "provider", Type: cty.String, Required: true, Class: schema.Replacing, Check: notEmpty,
			Doc: "Name of the provider to boot the machine in. Its driver has to be one that makes snapshots, such as `openstack`."},
		{Name: "pool", Type: cty.String, Class: schema.Replacing,
			Doc: "Pool of that provider; default is the first that offers the label."},
		{Name: "label", Type: cty.String, Required: true, Class: schema.Replacing, Check: notEmpty,
			Doc: "Label whose flavor, image, networks, key and user data the machine gets. One with `min_ready = 0` will do; it must not boot from a volume."},
	}
}

func scriptAttributes() []schema.Attribute {
	texts := cty.Map(cty.String)
	return []schema.Attribute{
		{Name: "script", Type: cty.String, Class: schema.Replacing,
			Doc: "File with what is to be run on the machine, relative to the directory of the configuration. A change of its content rebuilds the image. Either this or `inline`."},
		{Name: "inline", Type: cty.String, Class: schema.Replacing, Doc: "What is to be run on the machine, written here."},
		{Name: "interpreter", Type: cty.String, Class: schema.Replacing, Default: cty.StringVal("/bin/sh -e"), Check: checkInterpreter,
			Doc: "Command that runs the script, whose path is put behind it; such as `sudo -E /bin/bash -eux`."},
		{Name: "inputs", Type: cty.List(cty.String), Class: schema.InPlace,
			Doc: "Further files whose content goes into the image, as in builder `exec`: a change in one of them rebuilds it. They are not sent to the machine."},
		{Name: "env", Type: texts, Class: schema.Replacing, Check: checkEnv, Doc: "Environment variables of the script."},
		{Name: "secret_env", Type: texts, Class: schema.AppliedToNew, Sensitive: true, Check: checkEnv,
			Doc: "More environment variables, whose values are masked in logs and errors. A change rebuilds nothing. What the script leaves of them on the disk is in the image."},
		{Name: "shutdown", Type: cty.Bool, Class: schema.Replacing, Default: cty.True,
			Doc: "Whether the machine is shut down before the snapshot is made, so that nothing is half written."},
		{Name: "shutdown_command", Type: cty.String, Class: schema.Replacing, Default: cty.StringVal(defaultShutdown),
			Doc: "Shell command that shuts the machine down. When it fails, or the machine stays up for a minute, the snapshot is made all the same."},
	}
}

const defaultShutdown = `sync; if [ "$(id -u)" = 0 ]; then shutdown -h now; else sudo -n shutdown -h now; fi`

func loginAttributes() []schema.Attribute {
	return []schema.Attribute{
		{Name: "private_key_file", Type: cty.String, Required: true, Class: schema.InPlace, Check: notEmpty,
			Doc: "Private key to log in with, without a passphrase, relative to the directory of the configuration. Its public half gets into the machine by `key_name` of the label, its user data or its image."},
		{Name: "username", Type: cty.String, Class: schema.InPlace, Doc: "User to log in as; default is the one of the label's image."},
		{Name: "port", Type: cty.Number, Class: schema.InPlace, Check: checkPort,
			Doc: "SSH port; default is `connection_port` of the label's image, or else 22."},
		{Name: "host_keys", Type: cty.List(cty.String), Class: schema.InPlace, Check: checkHostKeys,
			Doc: "Host keys that the machine may show, `type base64` each, where its image or user data gives it fixed ones. Without them the first key shown is trusted, unless the cloud knows better, and its fingerprint is in the log."},
		{Name: "connect_timeout", Type: cty.String, Class: schema.InPlace, Format: schema.FormatDuration, Default: cty.StringVal("5m"), Check: checkTimeout,
			Doc: "How long after it is active the machine may take to let npctl in."},
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
		return fmt.Errorf("interpreter %q is no command: write one on one line, such as \"/bin/bash -e\"", s)
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
		return fmt.Errorf("%d is not a TCP port; write one from 1 to 65535", n)
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
		return errors.New("connect_timeout has to be longer than nothing: write one such as \"5m\"")
	}
	return nil
}
