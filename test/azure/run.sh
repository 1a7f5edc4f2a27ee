#!/bin/bash
# Runs the tests of the driver azure that start npctl, against the simulated Azure of drivers/azure/azuretest, and those of
# uploads against Azurite, Microsoft's emulator of Azure Storage (https://github.com/Azure/Azurite). Installs Azurite with npm
# into a directory. Fails if anything is missing.
#
#   NPCTL_AZURITE   the directory (default below the temporary directory)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh
. test/lib/ports.sh

azurite=${NPCTL_AZURITE:-${TMPDIR:-/tmp}/npctl-azurite-3.37.0}
(
  flock 8 # another script may create it at the same time
  if [ ! -x "$azurite/node_modules/.bin/azurite-blob" ]; then
    command -v npm >/dev/null || { . test/openstack/lib/apt.sh; apt_install nodejs npm >&2; }
    npm install --silent --no-audit --no-fund --prefix "$azurite" azurite@3.37.0
  fi
) 8>"$azurite.lock"

read -r port <<<"$(choose_ports 1)"
work=$(mktemp -d)
"$azurite/node_modules/.bin/azurite-blob" --blobHost 127.0.0.1 --blobPort "$port" --location "$work" --silent >"$work/log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 600); do
  if python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "$port" 2>/dev/null; then break; fi
  kill -0 "$pid" 2>/dev/null || { echo "azurite ended" >&2; cat "$work/log" >&2; exit 1; }
  sleep 0.1
done

export NPCTL_TEST_AZURITE=http://127.0.0.1:$port
go_test ./drivers/azure/... ./test/azure "$@"
