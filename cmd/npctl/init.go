package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/internal/syntax"
)

// starters are the configurations to start from: the examples of the same names.
//
//go:embed starter/*.hcl
var starters embed.FS

const initDescription = `Writes a commented configuration to start from, and a .gitignore, into a directory that has none (the
current one, or that of -config). It overwrites no existing file.

  -from=sandbox     a cloud that lives inside npctl: no account, no root, nothing to install
  -from=openstack   an OpenStack project, found by its entry in clouds.yaml
  -from=aws         an AWS account, with the credentials of the aws command
  -from=ibmvpc      a VPC of IBM Cloud, with an API key in VPC_APIKEY
  -from=gce         a Google Cloud project, with the credentials of the gcloud command
  -from=qemu        virtual machines on this host
  -from=kubernetes  a Kubernetes cluster, with the kubeconfig of kubectl

Examples:
  mkdir fleet && cd fleet && npctl init && npctl plan
  npctl init -from=openstack && npctl plan -var cloud=mycloud

Exit codes: 0, or 1 on an error.`

// starterFiles maps the values of -from to the starters.
var starterFiles = map[string]string{"sandbox": "quickstart.hcl", "openstack": "openstack.hcl", "aws": "aws.hcl", "gce": "gce.hcl", "ibmvpc": "ibmvpc.hcl", "kubernetes": "kubernetes.hcl", "qemu": "qemu.hcl"}

func newInitCommand(a *app) *cli.Command {
	from := ""
	return &cli.Command{
		Name: "init", Category: categoryMain, Usage: "write a configuration to start from", Description: initDescription,
		Flags: []cli.Flag{&cli.StringFlag{Name: "from", Destination: &from, Value: "sandbox", Usage: "`KIND` of cloud: sandbox, openstack, aws, gce, ibmvpc, kubernetes or qemu"}},
		Action: func(_ context.Context, cmd *cli.Command) error {
			return a.init(from)
		},
	}
}

func (a *app) init(from string) error {
	name, ok := starterFiles[from]
	if !ok {
		return hint(fmt.Errorf("option -from: %q does not exist", from), "write sandbox, openstack, aws, gce, ibmvpc, kubernetes or qemu")
	}
	dir := a.global.config
	if err := checkEmpty(dir); err != nil {
		return err
	}
	text, err := starters.ReadFile("starter/" + name)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "npctl.hcl")
	if err := createFile(path, text); err != nil {
		return err
	}
	wrote, ignore := path, filepath.Join(dir, ".gitignore")
	switch err := createFile(ignore, []byte(".npctl/\n")); {
	case err == nil:
		wrote += " and " + ignore
	case !errors.Is(err, fs.ErrExist):
		return err
	}
	next := "npctl plan"
	switch from {
	case "openstack":
		next = "npctl plan -var cloud=NAME, with the NAME of an entry in your clouds.yaml"
	case "qemu":
		next = "npctl plan -var image=PATH -var ssh_key=KEY, with an image that has cloud-init, and your public key"
	case "aws":
		next = "npctl plan -var key_name=NAME, with the NAME of an EC2 key pair"
	case "ibmvpc":
		next = "npctl plan -var vpc=NAME -var key=NAME, with the NAMEs of your VPC and of an SSH key in it"
	case "gce":
		next = "npctl plan -var project=ID, with the ID of a Google Cloud project"
	case "kubernetes":
		next = "npctl plan -var context=NAME, with the NAME of a context of your kubeconfig"
	}
	return a.ui.print("Wrote %s. Read %s, then: %s", wrote, path, next)
}

// checkEmpty returns an error if the directory contains a configuration.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return hint(fmt.Errorf("init: %w", err), "create the directory first")
	}
	for _, entry := range entries {
		if syntax.IsSource(entry.Name()) {
			return hint(fmt.Errorf("init: there is a configuration here already: %s", filepath.Join(dir, entry.Name())),
				"start in an empty directory, or continue with npctl plan")
		}
	}
	return nil
}

// createFile writes a file that must not exist.
func createFile(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("init: %w", err)
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}
