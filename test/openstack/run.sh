#!/bin/bash
# Runs the tests that need a real OpenStack (see README.md): the driver contract suite, the comparison of the emulator with
# the real one, and those of whole npctl processes. Installs the requirements, as root on Debian 12, and starts the lab. Stops and
# deletes the lab unless it was running before. Fails if anything is missing.
#   ./run.sh --lab   runs the tests of the lab itself instead, after a change of it: that each of its faults occurs. The other
#                    tests fail, too, when a fault that they need does not occur.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

as_root_or_die
began=$SECONDS
took() { echo "run.sh: $* took $((SECONDS - began)) s"; began=$SECONDS; }

test/dib/install.sh # examples/openstack.hcl builds its image
eval "$(test/dib/env.sh)"
took "installing diskimage-builder"
running=$(test/openstack/faults.sh list 2>/dev/null || true)
[ -n "$running" ] || trap 'test/openstack/down.sh --purge' EXIT
test/openstack/up.sh
. "${NPCTL_OPENSTACK_WORK:-${TMPDIR:-/tmp}/npctl-openstack}/env.sh"
test/openstack/faults.sh clear
took "bringing up the lab"

if [ "${1:-}" = --lab ]; then
  go_test ./test/openstack/lab
  exit
fi
go_test -run '^TestReal' ./drivers/openstack
took "the driver contract suite"
go_test ./drivers/openstack/openstacktest/emulator
took "comparing the emulator"
builders/dib/testdata/own-dev.sh bash -euo pipefail -c '. test/lib/gotest.sh; go_test "$@"' - -parallel 4 -run '^TestOpenStack' ./test/integration ./cmd/npctl
took "npctl as a whole"
