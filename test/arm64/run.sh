#!/bin/bash
# Runs make demo's script with npctl for arm64, in qemu's emulation of that processor. As root on Debian 12.
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/openstack/lib/apt.sh
command -v qemu-aarch64-static >/dev/null || apt_install qemu-user-static
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -o "$work/npctl-arm64" ./cmd/npctl
# a kernel without binfmt_misc cannot start the file itself
printf '#!/bin/sh\nexec qemu-aarch64-static %s "$@"\n' "$work/npctl-arm64" >"$work/npctl"
chmod +x "$work/npctl"
./examples/demo.sh "$work/npctl"
