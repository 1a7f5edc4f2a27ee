#!/bin/bash
# Runs the tests of the driver aws against moto (https://docs.getmoto.org/): one server without authorization, one with.
# Installs moto and the aws command from PyPI into a virtual environment, and Nodepool and Zuul, whose driver and executor tests
# run, into others.
# Fails if anything is missing.
#
#   NPCTL_MOTO_VENV   directory of the environment (default below the temporary directory)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh
. test/lib/ports.sh

venv=${NPCTL_MOTO_VENV:-${TMPDIR:-/tmp}/npctl-moto-5.2.5}
(
  flock 8 # another script may create it at the same time
  if ! "$venv/bin/python" -c 'import moto, flask, awscli' 2>/dev/null; then
    python3 -c 'import ensurepip' 2>/dev/null || { . test/openstack/lib/apt.sh; apt_install python3-venv >&2; }
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check 'moto[server]==5.2.5' awscli
  fi
) 8>"$venv.lock"
NPCTL_NODEPOOL_PYTHON=$(test/zookeeper/install.sh --nodepool)/bin/python
NPCTL_ZUUL_PYTHON=$(test/zookeeper/install.sh --zuul 14.3.0)/bin/python

read -r open closed <<<"$(choose_ports 2)"
logs=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$logs"' EXIT
start_moto() { # port, number of calls without authorization
  INITIAL_NO_AUTH_ACTION_COUNT=$2 "$venv/bin/moto_server" -H 127.0.0.1 -p "$1" >"$logs/$1" 2>&1 &
  pids+=($!)
  for _ in $(seq 300); do
    if python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "$1" 2>/dev/null; then return; fi
    sleep 0.1
  done
  echo "moto does not listen on port $1" >&2
  cat "$logs/$1" >&2
  exit 1
}
start_moto "$open" 1000000000
start_moto "$closed" 0

export AWS_ENDPOINT_URL=http://127.0.0.1:$open NPCTL_TEST_AWS_AUTH=http://127.0.0.1:$closed NPCTL_TEST_AWS_CLI=$venv/bin/aws NPCTL_NODEPOOL_PYTHON NPCTL_ZUUL_PYTHON
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1
export -n AWS_PROFILE
go_test ./drivers/aws/... ./test/aws "$@"
