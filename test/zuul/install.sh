#!/bin/bash
# Installs the packages for a real Zuul on loopback; does nothing if all are installed.
#   ./install.sh                 install Debian packages as root, or print the missing packages
#   ./install.sh --list          print the package names
#   ./install.sh --venv VERSION  print the path of the virtual environment with that version of Zuul, after creating it
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../openstack/lib/apt.sh"

packages=(
  zookeeper openjdk-17-jre-headless openssl netcat-openbsd # Zuul connects to ZooKeeper only with TLS
  postgresql                                               # stores the builds
  bubblewrap git curl                                      # zuul-scheduler does not start without bwrap and git
)

venv() { "$here/../lib/venv.sh" zuul "zuul==$1" psycopg2-binary; } # version

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  --venv) venv "${2:?version of Zuul}" ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list|--venv VERSION]" >&2; exit 2 ;;
esac
