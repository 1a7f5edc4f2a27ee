package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/npctl/npctl/examples"
	"github.com/npctl/npctl/internal/syntax"
)

// starter is a configuration to start from: the example of that name.
type starter struct {
	kind, file string
	cloud      string // its description and requirements
	next       string // the options of the first plan, if it needs any
}

var starterKinds = []starter{
	{"sandbox", "quickstart.hcl", "a cloud that lives inside npctl: no account, no root, nothing to install", ""},
	{"openstack", "openstack.hcl", "an OpenStack project, found by its entry in clouds.yaml",
		"-var cloud=NAME, with the NAME of an entry in your clouds.yaml"},
	{"aws", "aws.hcl", "an AWS account, with the credentials of the aws command", "-var key_name=NAME, with the NAME of an EC2 key pair"},
	{"azure", "azure.hcl", "an Azure subscription, with the credentials of the az command",
		"-var resource_group=GROUP -var network=NETWORK -var ssh_public_key=KEY"},
	{"gce", "gce.hcl", "a Google Cloud project, with the credentials of the gcloud command",
		"-var project=ID, with the ID of a Google Cloud project"},
	{"ibmvpc", "ibmvpc.hcl", "a VPC of IBM Cloud, with an API key in VPC_APIKEY",
		"-var vpc=NAME -var key=NAME, with the NAMEs of your VPC and of an SSH key in it"},
	{"kubernetes", "kubernetes.hcl", "a Kubernetes cluster, with the kubeconfig of kubectl",
		"-var context=NAME, with the NAME of a context of your kubeconfig"},
	{"qemu", "qemu.hcl", "virtual machines on this host",
		"-var image=PATH -var ssh_key=KEY, with an image that has cloud-init, and your public key"},
}

// starterNames lists the values of -from.
func starterNames() (names []string) {
	for _, s := range starterKinds {
		names = append(names, s.kind)
	}
	return names
}

func initDescription() string {
	var kinds strings.Builder
	for _, s := range starterKinds {
		fmt.Fprintf(&kinds, "  -from=%-11s %s\n", s.kind, s.cloud)
	}
	return `Writes a commented configuration to start from, and a .gitignore, into a directory that has none (the
current one, or that of -config). It overwrites no existing file.

` + kinds.String() + `
Examples:
  mkdir fleet && cd fleet && npctl init && npctl plan
  npctl init -from=openstack && npctl plan -var cloud=mycloud

Exit codes: 0, or 1 on an error.`
}

func newInitCommand(a *app) *cli.Command {
	from := ""
	return &cli.Command{
		Name: "init", Category: categoryMain, Usage: "write a configuration to start from", Description: initDescription(),
		Flags: []cli.Flag{&stringFlag{cli.StringFlag{Name: "from", Destination: &from, Value: "sandbox", Usage: "`KIND` of cloud: " + strings.Join(starterNames(), ", ")}, choices(starterNames()).source}},
		Action: func(_ context.Context, cmd *cli.Command) error {
			return a.init(from)
		},
	}
}

func (a *app) init(from string) error {
	i := slices.IndexFunc(starterKinds, func(s starter) bool { return s.kind == from })
	if i < 0 {
		return hint(fmt.Errorf("option -from: %q does not exist", from), "write one of: "+strings.Join(starterNames(), ", "))
	}
	dir := a.global.config
	if err := checkEmpty(dir); err != nil {
		return err
	}
	text, err := examples.Files.ReadFile(starterKinds[i].file)
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
	next := strings.TrimSpace("npctl plan " + starterKinds[i].next)
	return a.ui.Print("Wrote %s. Read %s, then: %s", wrote, path, next)
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
