#!/bin/bash
# Runs jobs of a complete Zuul on machines of npctl. Installs the required Debian packages, as root, and Zuul and Ansible from
# PyPI. Fails if anything is missing. Takes two to four minutes for a version on two cores, depending on their load, and up
# to two more for the first installation.
#
#   NPCTL_ZUUL_VERSIONS   the versions to run (default the newest; 11.3.0, whose classes ../../zookeeper uses, works too)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
. test/lib/gotest.sh

as_root_or_die
test/zuul/whole/install.sh
test/gerrit/install.sh
work=$(mktemp -d)
trap 'test/zuul/whole/lab.sh stop "$work/lab" || true; rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"
lint=$(test/zuul/whole/install.sh --lint)
(cd packaging/ansible && PATH=$lint/bin:$PATH ansible-lint --offline --strict)
echo "run.sh: ansible-lint has passed after $SECONDS s"
for version in ${NPCTL_ZUUL_VERSIONS:-14.3.0}; do
  began=$SECONDS
  venv=$(test/zuul/whole/install.sh --zuul "$version")
  ansible=$(test/zuul/whole/install.sh --ansible "$version")
  echo "run.sh: Zuul $version and its Ansible are installed after $((SECONDS - began)) s"
  began=$SECONDS
  test/zuul/whole/lab.sh start "$work/lab" "$venv" "$ansible" review
  echo "run.sh: Zuul $version is up after $((SECONDS - began)) s"
  (. "$work/lab/env.sh" && go_test ./test/zuul/whole)
  test/zuul/whole/lab.sh stop "$work/lab"
  rm -rf --one-file-system "$work/lab"
done
