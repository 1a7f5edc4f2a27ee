#!/bin/bash
# Runs the tests of image builds with the real diskimage-builder and qemu-img: the builders', the converter's, and those
# of npctl as a whole that build a Debian, upload it to the sandbox cloud and boot it in QEMU. Installs the Debian packages it needs, as
# root. Fails when anything is missing.
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
