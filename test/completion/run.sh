#!/bin/bash
# Presses TAB in bash with and without the package bash-completion, in zsh and in fish, on a terminal. Installs the shells
# as root. Fails if one is missing. Takes up to 2 minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
. test/lib/gotest.sh
. test/openstack/lib/apt.sh

apt_install bash-completion zsh fish
go_test ./test/completion
