#!/bin/bash
# Runs the tests of the drivers kubernetes, openshift and openshiftpods against the real API server and controllers of
# Kubernetes, with kubectl, the executor class of Zuul and the driver of Nodepool. Installs etcd and kubectl from Debian, as
# root, builds the server (see build.sh), and installs Zuul and Nodepool from PyPI. Fails if anything is missing.
#
#   NPCTL_KUBE   an existing build of apiserver
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh
. test/openstack/lib/apt.sh

as_root_or_die
apt_install etcd-server
command -v kubectl >/dev/null || apt_install kubernetes-client
NPCTL_ZUUL_PYTHON=$(test/zookeeper/install.sh --zuul 14.3.0)/bin/python
NPCTL_NODEPOOL_PYTHON=$(test/zookeeper/install.sh --nodepool)/bin/python
# Nodepool 11 sends a member of role bindings that newer clients of Kubernetes reject.
NPCTL_NODEPOOL_CLIENT=${TMPDIR:-/tmp}/npctl-nodepool-client
[ -d "$NPCTL_NODEPOOL_CLIENT/kubernetes" ] ||
  "${NPCTL_NODEPOOL_PYTHON%/*}/pip" install --quiet --disable-pip-version-check --target "$NPCTL_NODEPOOL_CLIENT" kubernetes==31.0.0
NPCTL_KUBE=${NPCTL_KUBE:-$(test/kubernetes/build.sh)}
export NPCTL_KUBE NPCTL_ZUUL_PYTHON NPCTL_NODEPOOL_PYTHON NPCTL_NODEPOOL_CLIENT
go_test -parallel 8 "$@" ./test/kubernetes # most tests wait for the deletion of namespaces
