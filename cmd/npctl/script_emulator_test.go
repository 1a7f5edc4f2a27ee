package main

import (
	"fmt"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"
)

// scriptServers lists the servers in the file of an emulator with their status: servers FILE.
func scriptServers(ts *testscript.TestScript, _ bool, args []string) {
	cloud, err := emulator.Open(emulator.Options{File: ts.MkAbs(args[0])})
	ts.Check(err)
	defer cloud.Close() //nolint:errcheck // it is only read
	things, err := cloud.Inventory()
	ts.Check(err)
	none := true
	for _, thing := range things {
		if thing.Type == "server" {
			none = false
			_, _ = fmt.Fprintln(ts.Stdout(), thing.Name, thing.Status)
		}
	}
	if none {
		_, _ = fmt.Fprintln(ts.Stdout(), "no servers")
	}
}
