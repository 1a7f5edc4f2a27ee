#!/bin/bash
# Runs the tests of image builds with the real diskimage-builder and qemu-img: those of the builders and the converter, and
# those of whole npctl processes that build a Debian, upload it to the sandbox cloud and boot it in QEMU. Installs the
# required Debian packages, as root. Fails if anything is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

as_root_or_die
test/dib/install.sh
eval "$(test/dib/env.sh)"
go_test_in_own_dev() { builders/dib/testdata/own-dev.sh bash -euo pipefail -c '. test/lib/gotest.sh; go_test "$@"' - "$@"; }
go_test_in_own_dev ./builders/... ./internal/qemuimg ./internal/mounts ./internal/process
go_test_in_own_dev -run '^TestDib' ./test/integration ./cmd/npctl
