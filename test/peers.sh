#!/bin/bash
# Installs the Debian packages and the Python environments of the integration targets at once. Each target also installs its
# own, so this only moves the time: .ci/run does it while OpenStack starts. As root, on Debian 12.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. test/openstack/lib/apt.sh

apt_install $(for list in test/zookeeper test/gerrit test/zuul test/zuul/whole test/gearman test/dib; do $list/install.sh --list; done | sort -u) \
  python3-venv systemd dbus iproute2 etcd-server qemu-user-static bash-completion zsh fish
for version in 14.3.0 11.3.0 9.5.0; do test/zuul/install.sh --venv "$version"; done
test/zookeeper/install.sh --nodepool
test/zuul/whole/install.sh --ansible 14.3.0
test/zuul/whole/install.sh --lint
test/gearman/install.sh --python
test/gerrit/install.sh --classpath >/dev/null
test/review/install.sh >/dev/null
