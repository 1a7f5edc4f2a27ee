#!/bin/bash
# Runs the tests of npctl review against published descriptions: its requests match the OpenAPI descriptions of GitHub and Gitea and
# those of GitLab's own client, and its SARIF log matches the schema. Fetches them from npm and from the proxy of Go modules. Fails if anything is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

settings=$(test/review/install.sh)
eval "$settings"
go_test ./internal/review
