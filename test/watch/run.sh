#!/bin/bash
# Runs npctl watch as a process on emulated clouds, whose servers answer SSH at addresses of loopback, and on machines
# with a real sshd, and checks it with OpenSSH's tools. Installs openssh-server and openssh-client, as root; the tests start
# sshd on ports of loopback. Fails if anything is missing. Takes about two minutes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh
. test/openstack/lib/apt.sh

as_root_or_die
apt_install openssh-server openssh-client
go_test ./test/watch
