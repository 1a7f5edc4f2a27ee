#!/bin/bash
# Runs the tests of the driver qemu with the real QEMU, without KVM: the suite of all drivers, the example, requests, and kills
# of npctl. Installs the required Debian packages, as root, and builds a small image that boots in seconds. Fails if anything
# is missing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh

as_root_or_die
missing=()
for package in qemu-system-x86 qemu-utils openssh-client; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ "${#missing[@]}" != 0 ]; then
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"
fi
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
test/qemu/image.sh "$work/tiny.qcow2"
NPCTL_ZUUL_PYTHON=$(test/zookeeper/install.sh --zuul 14.3.0)/bin/python
export NPCTL_ZUUL_PYTHON NPCTL_QEMU_IMAGE=$work/tiny.qcow2
go_test -run 'Real' ./drivers/qemu
go_test ./test/qemu
