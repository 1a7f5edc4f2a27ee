#!/bin/bash
# Installs the packages for the tests against real gearman servers; does nothing if all are installed.
#   ./install.sh           install as root, or print the missing packages
#   ./install.sh --list    print the package names
#   ./install.sh --python  print the path of a Python with the gear library, after installing the library if needed
#
#   NPCTL_GEAR_PYTHON   the Python to use; without it the script creates a virtual environment with gear from PyPI
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../openstack/lib/apt.sh"

packages=(
  gearman-job-server # gearmand
  gearman-tools      # gearadmin, for diagnosis
  stunnel4           # TLS in front of gearmand, which has no TLS in Debian
  qemu-utils         # build hosts convert images
)

python_with_gear() {
  local python=${NPCTL_GEAR_PYTHON:-$("$here/../lib/venv.sh" gear gear==0.16.0)/bin/python}
  "$python" -c 'import gear' || { echo "$python has no gear library" >&2; return 1; }
  echo "$python"
}

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  --python) python_with_gear ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list|--python]" >&2; exit 2 ;;
esac
