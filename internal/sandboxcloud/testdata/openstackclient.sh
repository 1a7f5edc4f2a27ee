#!/bin/sh
# Runs the real openstack command line client against the sandbox cloud. Installs the client from PyPI into a virtual
# environment of its own (NPCTL_VENV, by default below the user's cache) unless NPCTL_OPENSTACK names one. Fails when it
# cannot.
set -eu
cd "$(dirname "$0")/../../.."
if [ -z "${NPCTL_OPENSTACK:-}" ]; then
	venv=${NPCTL_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/npctl/openstackclient}
	if [ ! -x "$venv/bin/openstack" ]; then
		python3 -m venv "$venv"
		"$venv/bin/pip" install --quiet --disable-pip-version-check python-openstackclient
	fi
	NPCTL_OPENSTACK=$venv/bin/openstack
fi
export NPCTL_OPENSTACK
"$NPCTL_OPENSTACK" --version
exec go test -count=1 -tags openstackclient -run 'TestOpenStackClient' "$@" ./internal/sandboxcloud
