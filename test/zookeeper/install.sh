#!/bin/bash
# Installs the packages for the tests with a real ZooKeeper and its clients; does nothing if all are installed.
#   ./install.sh                      install Debian packages as root, or print the missing packages
#   ./install.sh --list               print the package names
#   ./install.sh --zuul [VERSION]     print the path of the virtual environment with that version of Zuul, after creating it
#   ./install.sh --nodepool [VERSION] print the path of the one with that version of Nodepool
#
#   NPCTL_NODEPOOL_VENV   directory of Nodepool's environments, plus the version (default below the temporary directory).
#                         NPCTL_VENV is the same for Zuul, see ../zuul/install.sh.
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
nodepool_venv() { # version
  local dir=${NPCTL_NODEPOOL_VENV:-${TMPDIR:-/tmp}/npctl-nodepool}-$1
  exec 8>"$dir.lock" && flock 8 # another script may create it at the same time
  if ! "$dir/bin/python" -c 'import nodepool.driver.statemachine' 2>/dev/null; then
    python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv >&2
    rm -rf "$dir"
    python3 -m venv "$dir"
    "$dir/bin/pip" install --quiet --disable-pip-version-check "nodepool==$1" cachetools >&2 || { rm -rf "$dir"; return 1; }
  fi
  echo "$dir"
}

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  --zuul) "$here/../zuul/install.sh" --venv "${2:-$zuul}" ;;
  --nodepool) nodepool_venv "${2:-$nodepool}" ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list|--zuul [VERSION]|--nodepool [VERSION]]" >&2; exit 2 ;;
esac
