#!/bin/bash
# Installs the Debian packages the lab is made of; does nothing when all are there.
#   ./install.sh           install as root, or say what is missing
#   ./install.sh --list    print the package names
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/apt.sh"

packages=(
  mariadb-server rabbitmq-server memcached             # what the services stand on
  keystone uwsgi-core uwsgi-plugin-python3             # identity
  glance-api placement-api                             # images, resource accounting
  nova-api nova-conductor nova-scheduler python3-nova  # compute; nova-compute itself would pull libvirt and qemu
  neutron-server                                       # networks
  cinder-api cinder-scheduler cinder-volume            # volumes
  python3-openstackclient                              # the client, and the SDK the cloud is filled with
  qemu-utils curl                                      # small images; waiting for an API to answer
  openssh-server                                       # plays the servers that images are made on
)

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list]" >&2; exit 2 ;;
esac
