#!/bin/bash
# Runs the tests of npctl review against a real Gerrit. Installs the required Debian packages, as root, and Gerrit from Maven Central.
# Fails if anything is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

as_root_or_die
test/gerrit/install.sh
work=$(mktemp -d)
trap 'test/gerrit/lab.sh purge "$work/lab" || true; rm -rf --one-file-system "$work"' EXIT
test/gerrit/lab.sh start "$work/lab"
(. "$work/lab/env.sh" && go_test ./test/gerrit)
