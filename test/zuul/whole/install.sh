#!/bin/bash
# Installs what a whole Zuul on loopback needs; does nothing when all is there.
#   ./install.sh                    install Debian packages as root, or say what is missing
#   ./install.sh --list             print the package names
#   ./install.sh --zuul VERSION     print the virtual environment with that version of Zuul, after making it
#   ./install.sh --ansible VERSION  print the directory with Ansible for that version of Zuul, after making it
#
#   NPCTL_ANSIBLE_ROOT   where Ansible is kept for the next time; Zuul's version is added (default below the temporary
#                        directory). NPCTL_VENV is the same for Zuul's environments, see ../install.sh.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../openstack/lib/apt.sh"

packages=(
  zookeeper openjdk-17-jre-headless openssl netcat-openbsd # what Zuul and npctl meet in
  postgresql curl                                          # keeps the builds; zuul-web is asked for them
  bubblewrap procps git python3                            # jobs are locked in by bwrap; executor and merger use git
  openssh-client openssh-server                            # how jobs get to machines, and what these are
)

zuul() { "$here/../install.sh" --venv "$1"; }

# ansible makes what zuul-manage-ansible makes, in a fraction of the time: an environment of Ansible's core alone and what
# Zuul's own plugins import, named by the version of Ansible that Zuul uses. The executor insists on finding the others
# that it knows too; no job uses them, and they are this one by another name. It is made of Debian's Python, since jobs,
# locked in as they are, see no other.
ansible() { # version of Zuul
  local root=${NPCTL_ANSIBLE_ROOT:-${TMPDIR:-/tmp}/npctl-ansible}-$1 zuul used others other
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

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  --zuul) zuul "${2:?version of Zuul}" ;;
  --ansible) ansible "${2:?version of Zuul}" ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list|--zuul VERSION|--ansible VERSION]" >&2; exit 2 ;;
esac
