#!/bin/bash
# Runs the tests of the drivers kubernetes, openshift and openshiftpods against the real API server and controller manager
# of Kubernetes, with the program kubectl and the kubeconfig code of Zuul and Nodepool. Installs etcd from Debian, as root,
# builds the components from the Go module in apiserver (about 10 minutes on two cores without a build cache), and installs
# Zuul from PyPI. Fails if anything is missing.
#
#   NPCTL_KUBE   an existing build of apiserver; without it the script builds one below the temporary directory
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh
. test/openstack/lib/apt.sh

as_root_or_die
apt_install etcd-server
NPCTL_ZUUL_PYTHON=$(test/zookeeper/install.sh --zuul)/bin/python
if [ -z "${NPCTL_KUBE:-}" ]; then
  NPCTL_KUBE=${TMPDIR:-/tmp}/npctl-kube
  (cd test/kubernetes/apiserver && CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o "$NPCTL_KUBE" .)
fi
export NPCTL_KUBE NPCTL_ZUUL_PYTHON
go_test -parallel 8 "$@" ./test/kubernetes # most tests wait for the deletion of namespaces
