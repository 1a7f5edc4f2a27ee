#!/bin/bash
# Runs the tests that need a real OpenStack (see README.md): those of the lab, the driver contract suite, the comparison of
# the sandbox cloud with the real one, and those of whole npctl processes. Installs the requirements, as root on Debian 12,
# and starts the lab. Stops and deletes the lab unless it was running before. Fails if anything is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

as_root_or_die
began=$SECONDS
took() { echo "run.sh: $* took $((SECONDS - began)) s"; began=$SECONDS; }

# Compiles the tests while apt and the lab leave a core idle.
go vet -tags integration ./test/openstack/lab ./drivers/openstack ./drivers/sandbox/sandboxcloud ./test/integration ./cmd/npctl &
vet=$!

test/dib/install.sh # examples/openstack.hcl builds its image
eval "$(test/dib/env.sh)"
took "installing diskimage-builder"
running=$(test/openstack/faults.sh list 2>/dev/null || true)
[ -n "$running" ] || trap 'test/openstack/down.sh --purge' EXIT
test/openstack/up.sh
. "${NPCTL_OPENSTACK_WORK:-${TMPDIR:-/tmp}/npctl-openstack}/env.sh"
test/openstack/faults.sh clear
wait "$vet"
took "bringing up the lab"

go_test ./test/openstack/lab
took "testing the lab"
go_test -run '^TestReal' ./drivers/openstack
took "the driver contract suite"
go_test ./drivers/sandbox/sandboxcloud
took "comparing the sandbox cloud"
builders/dib/testdata/own-dev.sh bash -euo pipefail -c '. test/lib/gotest.sh; go_test "$@"' - -run '^TestOpenStack' ./test/integration ./cmd/npctl
took "npctl as a whole"
