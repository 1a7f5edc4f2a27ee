#!/bin/bash
# Runs the tests that need a real ZooKeeper: those of npctl's store, of state migration in both directions, and of the lab with
# Zuul's classes and a real nodepool-launcher. Installs the required Debian packages, as root, and Zuul and Nodepool from PyPI.
# Fails if anything is missing.
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
(. "$work/lab/env.sh" && go_test ./state/zookeeper/... ./test/zookeeper/... && go_test -run Migration ./cmd/npctl)
