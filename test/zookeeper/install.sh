#!/bin/bash
# Installs the packages for the tests with a real ZooKeeper and its clients; does nothing if all are installed.
#   ./install.sh                      install Debian packages as root, or print the missing packages
#   ./install.sh --list               print the package names
#   ./install.sh --zuul [VERSION]     print the path of the virtual environment with that version of Zuul, after creating it
#   ./install.sh --nodepool [VERSION] print the path of the one with that version of Nodepool
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../openstack/lib/apt.sh"

# The last Nodepool, and the last Zuul without its own launcher: these versions work together.
zuul=11.3.0 nodepool=11.0.0

packages=(
  zookeeper openjdk-17-jre-headless openssl netcat-openbsd # the server, its certificates, its four-letter words
  python3-kazoo                                            # the client library of Zuul and Nodepool, as Debian has it
  openssh-server                                           # emulates static nodes
)

# Nodepool 11 needs cachetools without declaring it: formerly another of its dependencies installed it.
nodepool_venv() { "$here/../lib/venv.sh" nodepool "nodepool==$1" cachetools; } # version

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  --zuul) "$here/../zuul/install.sh" --venv "${2:-$zuul}" ;;
  --nodepool) nodepool_venv "${2:-$nodepool}" ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list|--zuul [VERSION]|--nodepool [VERSION]]" >&2; exit 2 ;;
esac
