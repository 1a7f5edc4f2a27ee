#!/bin/bash
# Runs npctl as a process with the reference driver program examples/external/driver.sh, and kills npctl at every call of the
# program, before and after its effect. Needs Go and nothing else.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

go_test ./test/external
