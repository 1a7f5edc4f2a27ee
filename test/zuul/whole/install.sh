#!/bin/bash
# Installs what a whole Zuul on loopback needs; does nothing when all is there.
#   ./install.sh            install Debian packages as root, or say what is missing
#   ./install.sh --list     print the package names
#   ./install.sh --zuul     print the virtual environment with Zuul, after making it
#   ./install.sh --ansible  print the directory with the executor's Ansible, after making it
#
#   NPCTL_ANSIBLE_ROOT      where Ansible is kept for the next time (default below the temporary directory)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../openstack/lib/apt.sh"

packages=(
  zookeeper openjdk-17-jre-headless openssl netcat-openbsd # what Zuul and npctl meet in
  postgresql curl                                          # keeps the builds; zuul-web is asked for them
  bubblewrap procps git python3                            # jobs are locked in by bwrap; executor and merger use git
  openssh-client openssh-server                            # how jobs get to machines, and what these are
)

# ansible makes what zuul-manage-ansible makes, in a fraction of the time: environments of their own below one directory,
# named by the versions of Ansible that Zuul 11.3.0 knows, but with Ansible's core alone and what Zuul's own plugins import.
# The executor insists on finding all versions; no job uses the older one, which is the newer one by another name. They are
# made of Debian's Python, since jobs, locked in as they are, see no other.
ansible() {
  local root=${NPCTL_ANSIBLE_ROOT:-${TMPDIR:-/tmp}/npctl-ansible} zuul
  if [ ! -x "$root/9/bin/ansible-playbook" ]; then
    zuul=$(zuul)
    rm -rf "$root"
    mkdir -p "$root"
    { "$zuul/bin/python" -m virtualenv --quiet --python /usr/bin/python3 "$root/9" &&
      "$root/9/bin/pip" install --quiet --disable-pip-version-check 'ansible-core>=2.16,<2.17' google-re2 voluptuous; } >&2 ||
      { rm -rf "$root"; return 1; }
    ln -s 9 "$root/8"
  fi
  echo "$root"
}

zuul() { "$here/../../zookeeper/install.sh" --zuul; }

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  --zuul) zuul ;;
  --ansible) ansible ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list|--zuul|--ansible]" >&2; exit 2 ;;
esac
