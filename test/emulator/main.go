// Emulator serves an OpenStack for tests on a loopback address, for scripts of tests and for tries by hand. It prints a
// clouds.yaml with two entries: "emulator" is the project of npctl, and "emulator-other" is a foreign project.
//
//	go run ./test/emulator -write-clouds=clouds.yaml -image=debian-12 &
//	OS_CLIENT_CONFIG_FILE=clouds.yaml openstack --os-cloud=emulator server list
package main

import "github.com/npctl/npctl/drivers/openstack/openstacktest/emulator"

func main() { emulator.Main() }
