#!/bin/bash
# Runs the gearman tests against real servers: Debian's gearmand, the same behind stunnel with client certificates, and the
# server of the Python library gear. Runs the tests of build hosts against the client and worker of that library, which
# the original Nodepool used, and the tests of whole npctl processes, which kill some of them. Installs the required Debian
# packages, as root, and the library from PyPI. Fails if anything is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

as_root_or_die
test/gearman/install.sh
NPCTL_GEAR_PYTHON=$(test/gearman/install.sh --python)
export NPCTL_GEAR_PYTHON
GO_TEST_TAGS=gearman go_test ./internal/gearman/... ./builders/gearman
# Most of these tests mainly wait, one of them for two minutes.
GO_TEST_TAGS=gearman go_test -parallel 8 -run '^TestRealBuildHosts' ./cmd/npctl
