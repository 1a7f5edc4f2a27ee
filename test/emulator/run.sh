#!/bin/bash
# Runs the real openstack command line client against the emulator of OpenStack: in the tests of its package, and against the
# program of this directory. Fails if it cannot.
#
#   NPCTL_OPENSTACK   the client to use; without it the script installs one from PyPI
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/lib/gotest.sh

NPCTL_OPENSTACK=${NPCTL_OPENSTACK:-$(test/lib/venv.sh openstackclient python-openstackclient)/bin/openstack}
export NPCTL_OPENSTACK
"$NPCTL_OPENSTACK" --version

GO_TEST_TAGS=openstackclient go_test -run 'TestOpenStackClient' ./drivers/openstack/openstacktest/emulator

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -o "$work/emulator" ./test/emulator
"$work/emulator" -file="$work/cloud.json" -write-clouds="$work/clouds.yaml" 2>"$work/log" &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; rm -rf "$work"' EXIT
tries=0
until [ -s "$work/clouds.yaml" ]; do
	tries=$((tries + 1))
	if [ "$tries" -gt 100 ] || ! kill -0 "$pid" 2>/dev/null; then
		echo "the emulator did not start:" >&2
		cat "$work/log" >&2
		exit 1
	fi
	sleep 0.1
done
export OS_CLIENT_CONFIG_FILE="$work/clouds.yaml"
flavors=$("$NPCTL_OPENSTACK" --os-cloud emulator flavor list -f value -c Name | sort | tr '\n' ' ')
[ "$flavors" = "large medium small toobig " ] || { echo "flavors of the emulator: $flavors" >&2; exit 1; }
"$NPCTL_OPENSTACK" --os-cloud emulator-other server list
echo "the openstack client works with the emulator"
