#!/bin/bash
# Runs jobs of a whole Zuul on machines of npctl. Installs the Debian packages this needs, as root, and Zuul and Ansible from
# PyPI. Fails when anything is missing. Takes about N minutes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../../.."
. test/lib/gotest.sh

as_root_or_die
test/zuul/whole/install.sh
venv=$(test/zuul/whole/install.sh --zuul)
ansible=$(test/zuul/whole/install.sh --ansible)
work=$(mktemp -d)
trap 'test/zuul/whole/lab.sh stop "$work/lab" || true; rm -rf --one-file-system "$work"' EXIT
chmod 755 "$work"
began=$SECONDS
test/zuul/whole/lab.sh start "$work/lab" "$venv" "$ansible"
echo "run.sh: Zuul is up after $((SECONDS - began)) s"
(. "$work/lab/env.sh" && go_test ./test/zuul/whole)
