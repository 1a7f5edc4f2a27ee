#!/bin/bash
# Runs the tests of the drivers aws, azure, gce and ibmvpc with peers that others wrote, and those that run npctl as a process:
#
#   moto        https://docs.getmoto.org/, an AWS: one server without authorization, one with; and the aws command
#   Azurite     https://github.com/Azure/Azurite, Microsoft's emulator of Azure Storage
#   gcplocal    https://pypi.org/project/gcplocal/, an emulator of Google Cloud
#   Nodepool    whose driver makes the same nodes on moto, and Zuul, whose executor class reads a node
#
# Azure, Compute Engine and IBM Cloud are those of azuretest, gcetest and ibmvpctest. Installs all of these from PyPI and npm below
# the temporary directory. Fails if anything is missing. Passes its arguments, such as -run, to go test.
#
#   NPCTL_AZURITE   directory of Azurite
#   PKG             the packages to test, such as ./drivers/aws (default: all of these)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh
. test/lib/ports.sh
. test/openstack/lib/apt.sh

moto=$(test/lib/venv.sh moto 'moto[server]==5.2.5' awscli)
gcplocal=$(test/lib/venv.sh gcplocal gcplocal==0.1.0)
azurite=${NPCTL_AZURITE:-${TMPDIR:-/tmp}/npctl-azurite-3.37.0}
(
  flock 8
  if [ ! -x "$azurite/node_modules/.bin/azurite-blob" ]; then
    command -v npm >/dev/null || apt_install nodejs npm >&2
    npm install --silent --no-audit --no-fund --prefix "$azurite" azurite@3.37.0
  fi
) 8>"$azurite.lock"
NPCTL_NODEPOOL_PYTHON=$(test/zookeeper/install.sh --nodepool)/bin/python
NPCTL_ZUUL_PYTHON=$(test/zookeeper/install.sh --zuul 14.3.0)/bin/python

work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$work"' EXIT
start() { # port, command...
  local port=$1 log=$work/$1.log
  shift
  "$@" >"$log" 2>&1 &
  pids+=($!)
  for _ in $(seq 600); do
    if python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "$port" 2>/dev/null; then return; fi
    kill -0 "${pids[-1]}" 2>/dev/null || break
    sleep 0.1
  done
  echo "$1 does not listen on port $port" >&2
  cat "$log" >&2
  exit 1
}
read -r open closed blobs google <<<"$(choose_ports 4)"
# moto creates its AMIs again for each test, and compares the tags of all their snapshots: it has two, not the usual two hundred.
export MOTO_AMIS_PATH=$here/amis.json
start "$open" env INITIAL_NO_AUTH_ACTION_COUNT=1000000000 "$moto/bin/moto_server" -H 127.0.0.1 -p "$open"
start "$closed" env INITIAL_NO_AUTH_ACTION_COUNT=0 "$moto/bin/moto_server" -H 127.0.0.1 -p "$closed"
start "$blobs" "$azurite/node_modules/.bin/azurite-blob" --blobHost 127.0.0.1 --blobPort "$blobs" --location "$work" --silent
start "$google" "$gcplocal/bin/gcplocal" start --host 127.0.0.1 --port "$google"

export NPCTL_NODEPOOL_PYTHON NPCTL_ZUUL_PYTHON
export AWS_ENDPOINT_URL=http://127.0.0.1:$open NPCTL_TEST_AWS_AUTH=http://127.0.0.1:$closed NPCTL_TEST_AWS_CLI=$moto/bin/aws
export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test AWS_REGION=us-east-1
export -n AWS_PROFILE
export NPCTL_TEST_AZURITE=http://127.0.0.1:$blobs NPCTL_TEST_GCPLOCAL=http://127.0.0.1:$google
read -ra packages <<<"${PKG:-./drivers/aws ./drivers/azure ./drivers/gce ./drivers/ibmvpc ./test/clouds}"
go_test "$@" "${packages[@]}"
