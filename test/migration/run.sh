#!/bin/bash
# Runs the tests of a move from Nodepool.
#   ./run.sh [PATTERN]   run the tests with this pattern, by default both: npctl convert for the OpenStack providers of a running
#                        Nodepool (TestMigration…), and the walk of docs/coming-from-nodepool.md with a real Nodepool, a complete
#                        Zuul and a real OpenStack, while jobs run (TestRehearsedMigration)
# Installs the requirements, as root on Debian 12. Stops and deletes the OpenStack lab unless it was running before. Fails if
# anything is missing. Zuul's jobs are isolated with bubblewrap, which has /tmp only, so all files are below /tmp.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export TMPDIR=/tmp
. test/lib/gotest.sh

as_root_or_die
test/zuul/whole/install.sh
test/zookeeper/install.sh
version=14.3.0
venv=$(test/zuul/whole/install.sh --zuul "$version")
ansible=$(test/zuul/whole/install.sh --ansible "$version")
NPCTL_TEST_NODEPOOL=$(test/zookeeper/install.sh --nodepool)
export NPCTL_TEST_NODEPOOL
work=$(mktemp -d)
chmod 755 "$work"
running=$(test/openstack/faults.sh list 2>/dev/null || true)
end() {
  test/zuul/whole/lab.sh stop "$work/lab" || true
  rm -rf --one-file-system "$work"
  [ -n "$running" ] || test/openstack/down.sh --purge
}
trap end EXIT
test/openstack/up.sh
test/zuul/whole/lab.sh start "$work/lab" "$venv" "$ansible"
. "${NPCTL_OPENSTACK_WORK:-$TMPDIR/npctl-openstack}/env.sh"
. "$work/lab/env.sh"
go_test -run "${1:-^Test(Rehearsed)?Migration}" ./test/integration
