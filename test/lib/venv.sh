#!/bin/bash
# Prints the directory of a virtual environment of Python with packages of PyPI, after creating it. Its name has a hash of the
# packages and of Python's version, so that other packages are another environment.
#   ./venv.sh NAME PACKAGE...
#
#   NPCTL_VENVS   directory of the environments, which are kept for later runs (default: the temporary directory)
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/../openstack/lib/apt.sh"

name=$1
shift
dir=${NPCTL_VENVS:-${TMPDIR:-/tmp}}/npctl-$name-$({ python3 --version; printf '%s\n' "$@"; } | sha256sum | head -c 12)
exec 8>"$dir.lock" && flock 8 # another script may create it at the same time
if [ ! -e "$dir/complete" ]; then
  python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv >&2
  python3 -m venv --clear "$dir"
  "$dir/bin/pip" install --quiet --disable-pip-version-check "$@" >&2
  touch "$dir/complete"
fi
echo "$dir"
