#!/bin/bash
# Runs the tests of npctl review against a real Gitea, which it builds at its first run. Fails if anything is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

work=$(mktemp -d)
trap 'test/gitea/lab.sh purge "$work/lab" || true; rm -rf --one-file-system "$work"' EXIT
test/gitea/lab.sh start "$work/lab"
(. "$work/lab/env.sh" && go_test ./test/gitea)
