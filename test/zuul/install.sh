#!/bin/bash
# Installs the packages for a real Zuul on loopback; does nothing if all are installed.
#   ./install.sh                 install Debian packages as root, or print the missing packages
#   ./install.sh --list          print the package names
#   ./install.sh --venv VERSION  print the path of the virtual environment with that version of Zuul, after creating it
#
#   NPCTL_VENV   directory of the virtual environments, plus the version (default below the temporary
#                directory)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../openstack/lib/apt.sh"

packages=(
  zookeeper openjdk-17-jre-headless openssl netcat-openbsd # Zuul connects to ZooKeeper only with TLS
  postgresql                                               # stores the builds
  bubblewrap git curl                                      # zuul-scheduler does not start without bwrap and git
)

venv() { # version
  local dir=${NPCTL_VENV:-${TMPDIR:-/tmp}/npctl-zuul}-$1
  exec 8>"$dir.lock" && flock 8 # another script may create it at the same time
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
