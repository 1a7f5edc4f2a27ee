#!/bin/bash
# Installs what the tests with a real ZooKeeper and its users need; does nothing when all is there.
#   ./install.sh                      install Debian packages as root, or say what is missing
#   ./install.sh --list               print the package names
#   ./install.sh --zuul [VERSION]     print the virtual environment with that version of Zuul, after making it
#   ./install.sh --nodepool [VERSION] print the one with that version of Nodepool
#
#   NPCTL_NODEPOOL_VENV   where Nodepool's are kept for the next time; the version is added (default below the temporary
#                         directory). NPCTL_VENV is the same for Zuul's, see ../zuul/install.sh.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../openstack/lib/apt.sh"

# The last Nodepool there is, and the last Zuul before it had a launcher of its own: both speak to each other in these.
zuul=11.3.0 nodepool=11.0.0

packages=(
  zookeeper openjdk-17-jre-headless openssl netcat-openbsd # the server, its certificates, its four-letter words
  python3-kazoo                                            # the client library of Zuul and Nodepool, as Debian has it
  openssh-server                                           # what static nodes are
)

# Nodepool 11 uses cachetools and does not ask for it: a library that it does ask for once brought it along.
nodepool_venv() { # version
  local dir=${NPCTL_NODEPOOL_VENV:-${TMPDIR:-/tmp}/npctl-nodepool}-$1
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
