#!/bin/bash
# Runs the tests of gearman against the real servers: Debian's gearmand, the same behind stunnel with client certificates,
# and the server of the Python library gear; and of build hosts against that library's client and worker, which the
# original Nodepool used; and of whole npctl processes, of which some are killed. Installs the Debian packages it needs, as root, and the library from PyPI. Fails when anything
# is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

as_root_or_die
test/gearman/install.sh
NPCTL_GEAR_PYTHON=$(test/gearman/install.sh --python)
export NPCTL_GEAR_PYTHON
GO_TEST_TAGS=gearman go_test ./internal/gearman/... ./builders/gearman
# Most of these tests wait for something most of the time, one of them for two minutes.
GO_TEST_TAGS=gearman go_test -parallel 8 -run '^TestRealBuildHosts' ./cmd/npctl
