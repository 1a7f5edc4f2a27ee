#!/bin/bash
# Runs npctl watch as a process on the sandbox cloud, whose servers answer SSH at addresses of loopback, and on machines
# with a real sshd, and looks at it with OpenSSH's own tools. Installs openssh-server and openssh-client, as root; sshd is
# started by the tests on ports of loopback. Fails when anything is missing. Ends within 7 minutes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh
. test/openstack/lib/apt.sh

as_root_or_die
apt_install openssh-server openssh-client
go_test ./test/watch
