#!/bin/bash
# Runs the tests of the driver gce that need Python or the npctl binary: against gcplocal (https://pypi.org/project/gcplocal/),
# which it installs from PyPI into a virtual environment, and against the Compute Engine of drivers/gce/gcetest. Fails if
# anything is missing.
#
#   NPCTL_GCPLOCAL_VENV   directory of the environment (default below the temporary directory)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh
. test/lib/ports.sh

venv=${NPCTL_GCPLOCAL_VENV:-${TMPDIR:-/tmp}/npctl-gcplocal-0.1.0}
(
  flock 8 # another script may create it at the same time
  if ! "$venv/bin/python" -c 'import gcplocal' 2>/dev/null; then
    python3 -c 'import ensurepip' 2>/dev/null || { . test/openstack/lib/apt.sh; apt_install python3-venv >&2; }
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'gcplocal==0.1.0'
  fi
) 8>"$venv.lock"

port=$(choose_ports 1)
log=$(mktemp)
"$venv/bin/gcplocal" start --host 127.0.0.1 --port "$port" >"$log" 2>&1 &
trap 'kill "$!" 2>/dev/null || true; rm -f "$log"' EXIT
for attempt in $(seq 300); do
  if python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "$port" 2>/dev/null; then break; fi
  if [ "$attempt" = 300 ]; then
    echo "gcplocal does not listen on port $port" >&2
    cat "$log" >&2
    exit 1
  fi
  sleep 0.1
done

export NPCTL_TEST_GCPLOCAL=http://127.0.0.1:$port
go_test ./drivers/gce/... ./test/gce "$@"
