#!/bin/bash
# Installs the Debian packages of the lab; does nothing if all are installed.
#   ./install.sh           install as root, or print the missing packages
#   ./install.sh --list    print the package names
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/apt.sh"

packages=(
  mariadb-server rabbitmq-server memcached             # infrastructure services
  python3-sqlalchemy-ext                               # a fifth less CPU time for rows of the database
  keystone uwsgi-core uwsgi-plugin-python3             # identity
  glance-api placement-api                             # images, resource accounting
  nova-api nova-conductor nova-scheduler python3-nova  # compute; nova-compute would install libvirt and qemu
  neutron-server                                       # networks
  cinder-api cinder-scheduler cinder-volume            # volumes
  python3-openstackclient                              # the client, and the SDK that creates the content of the cloud
  qemu-utils curl                                      # small images; waiting for an API to answer
  openssh-server                                       # emulates build instances
)

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list]" >&2; exit 2 ;;
esac
