#!/bin/bash
# Runs the tests of the driver azure that start npctl, against the simulated Azure of drivers/azure/azuretest.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

go_test ./drivers/azure/... ./test/azure "$@"
