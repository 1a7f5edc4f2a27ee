#!/bin/bash
# Installs the packages for a complete Zuul on loopback; does nothing if all are installed.
#   ./install.sh                    install Debian packages as root, or print the missing packages
#   ./install.sh --list             print the package names
#   ./install.sh --zuul VERSION     print the path of the virtual environment with that version of Zuul, after creating it
#   ./install.sh --ansible VERSION  print the path of Ansible for that version of Zuul, after creating it
#   ./install.sh --lint             print the path of a virtual environment with ansible-lint, after creating it
#
#   NPCTL_VENVS   directory of Ansible, see ../../lib/venv.sh
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../openstack/lib/apt.sh"

packages=(
  zookeeper openjdk-17-jre-headless openssl netcat-openbsd # shared by Zuul and npctl
  postgresql curl                                          # stores the builds; queries zuul-web
  bubblewrap procps git python3                            # bwrap isolates jobs; executor and merger use git
  zstd                                                     # compresses images
  openssh-client openssh-server                            # connects jobs to machines; emulates machines
)

zuul() { "$here/../install.sh" --venv "$1"; }

# ansible replaces zuul-manage-ansible in a fraction of the time: it creates an environment with only Ansible's core and the
# imports of Zuul's plugins, named after Zuul's version of Ansible. The executor requires its other versions of Ansible
# too. No job uses them, so they are links to the same environment. It uses Debian's Python, because isolated jobs can
# access no other one.
ansible() { # version of Zuul
  local root=${NPCTL_VENVS:-${TMPDIR:-/tmp}}/npctl-ansible-$1 zuul used others other
  exec 8>"$root.lock" && flock 8 # another script may create it at the same time
  if ! compgen -G "$root/*/bin/ansible-playbook" >/dev/null; then
    zuul=$(zuul "$1")
    read -r used others < <("$zuul/bin/python" -c '
from zuul.lib.ansible import AnsibleManager
m = AnsibleManager()
print(m.default_version, *(v for v, default in m.getSupportedVersions() if not default))')
    rm -rf "$root"
    mkdir -p "$root"
    "$zuul/bin/python" -m virtualenv --quiet --python /usr/bin/python3 "$root/$used" >&2
    for other in $others; do ln -s "$used" "$root/$other"; done
    # Ansible 9 is collections around core 2.16, 11 around 2.18
    "$root/$used/bin/pip" install --quiet --disable-pip-version-check "ansible-core==2.$((used + 7)).*" google-re2 voluptuous >&2 ||
      { rm -rf "$root"; return 1; }
  fi
  echo "$root"
}

# lint has a fixed version: a new one has new rules, which a change should not meet by chance.
lint() { "$here/../../lib/venv.sh" ansible-lint ansible-lint==26.10.1; }

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  --zuul) zuul "${2:?version of Zuul}" ;;
  --ansible) ansible "${2:?version of Zuul}" ;;
  --lint) lint ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list|--zuul VERSION|--ansible VERSION|--lint]" >&2; exit 2 ;;
esac
