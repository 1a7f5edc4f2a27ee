#!/bin/bash
# Runs the tests of the builder zuul against real versions of Zuul: zuul-web of the newest version, and of the last version
# with the older form of builds in its API. Installs the required Debian packages, as root, and Zuul from PyPI. Fails if
# anything is missing.
#
#   NPCTL_ZUUL_VERSIONS   the versions to test
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

as_root_or_die
test/zuul/install.sh
work=$(mktemp -d)
trap 'test/zuul/lab.sh stop "$work/lab" || true; rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"
for version in ${NPCTL_ZUUL_VERSIONS:-14.3.0 9.5.0}; do
  venv=$(test/zuul/install.sh --venv "$version")
  began=$SECONDS
  "$venv/bin/python3" test/zuul/check_comments.py internal/review/testdata/zuul-return.json # see review.Zuul
  test/zuul/lab.sh start "$work/lab" "$venv"
  echo "run.sh: Zuul $version is up after $((SECONDS - began)) s"
  (. "$work/lab/env.sh" && NPCTL_TEST_ZUUL_VERSION=$version GO_TEST_TAGS=zuul go_test -run '^TestReal' ./builders/zuul)
  test/zuul/lab.sh stop "$work/lab"
  rm -rf --one-file-system "$work/lab"
done
