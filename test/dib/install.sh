#!/bin/bash
# Installs what a real diskimage-builder build needs; does nothing when all is there.
#   ./install.sh           install as root, or say what is missing
#   ./install.sh --list    print the package names
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../openstack/lib/apt.sh"

packages=(
  python3-diskimage-builder debootstrap
  qemu-utils kpartx parted gdisk e2fsprogs dosfstools xfsprogs squashfs-tools # disks and file systems
  qemu-system-x86 # boots what was built
  procps bc sudo # used by its scripts; sudo also when already root
)

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list]" >&2; exit 2 ;;
esac
