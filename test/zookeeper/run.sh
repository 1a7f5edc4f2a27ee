#!/bin/bash
# Runs what is tested against a real ZooKeeper: npctl's store in it, moves of a state there and back, and the lab itself with
# Zuul's own classes and a real nodepool-launcher. Installs the Debian packages that they need, as root, and Zuul and
# Nodepool from PyPI. Fails when anything is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

as_root_or_die
test/zookeeper/install.sh
NPCTL_TEST_ZUUL_VENV=$(test/zookeeper/install.sh --zuul)
NPCTL_TEST_NODEPOOL=$(test/zookeeper/install.sh --nodepool)
export NPCTL_TEST_ZUUL_VENV NPCTL_TEST_NODEPOOL
work=$(mktemp -d)
trap 'test/zookeeper/lab.sh kill "$work/lab" || true; rm -rf --one-file-system "$work"' EXIT
test/zookeeper/lab.sh start "$work/lab"
(. "$work/lab/env.sh" && go_test ./state/zookeeper/... ./test/zookeeper/... && go_test -run "^TestStateMove" ./cmd/npctl)
