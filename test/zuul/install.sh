#!/bin/bash
# Installs what a real Zuul on loopback needs; does nothing when all is there.
#   ./install.sh                 install Debian packages as root, or say what is missing
#   ./install.sh --list          print the package names
#   ./install.sh --venv VERSION  print the virtual environment with that version of Zuul, after making it
#
#   NPCTL_VENV   where virtual environments are kept for the next time; the version is added (default below the
#                temporary directory)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../openstack/lib/apt.sh"

packages=(
  zookeeper openjdk-17-jre-headless openssl netcat-openbsd # Zuul speaks to ZooKeeper over TLS only
  postgresql                                               # keeps the builds
  bubblewrap git curl                                      # zuul-scheduler does not start without bwrap and git
)

venv() { # version
  local dir=${NPCTL_VENV:-${TMPDIR:-/tmp}/npctl-zuul}-$1
  if [ ! -x "$dir/bin/zuul-web" ]; then
    python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv >&2
    rm -rf "$dir"
    python3 -m venv "$dir"
    "$dir/bin/pip" install --quiet --disable-pip-version-check "zuul==$1" psycopg2-binary >&2 || { rm -rf "$dir"; return 1; }
  fi
  echo "$dir"
}

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  --venv) venv "${2:?version of Zuul}" ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list|--venv VERSION]" >&2; exit 2 ;;
esac
