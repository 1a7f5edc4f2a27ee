#!/bin/bash
# Runs the units of packaging/systemd on a real systemd, installed with the commands of docs/operations.md, in separate machines
# (see lab.sh). Installs systemd and a gearman server, as root, and starts both only in those machines. Fails if anything is
# missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh
. test/openstack/lib/apt.sh

as_root_or_die
apt_install systemd dbus iproute2 util-linux passwd gearman-job-server gearman-tools
go_test -run '^TestSystemd' ./packaging
go_test ./test/systemd
