#!/bin/bash
# Installs the packages for real diskimage-builder builds; does nothing if all are installed.
#   ./install.sh           install as root, or print the missing packages
#   ./install.sh --list    print the package names
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../openstack/lib/apt.sh"

packages=(
  python3-diskimage-builder debootstrap
  qemu-utils kpartx parted gdisk e2fsprogs dosfstools xfsprogs squashfs-tools # disks and file systems
  qemu-system-x86 # boots the built images
  procps bc sudo # used by its scripts; sudo even as root
)

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list]" >&2; exit 2 ;;
esac
