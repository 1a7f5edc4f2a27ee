#!/bin/bash
# Runs the tests of the driver ibmvpc with the program, and those that read and write the shapes of the VPC API with IBM's library.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh
go_test ./drivers/ibmvpc/... ./test/ibmvpc "$@"
