#!/bin/bash
# Prints the environment in which diskimage-builder builds Debian from the mirrors
# that apt uses here, in the shortest time:   eval "$(test/dib/env.sh)"
# Fails with a message if a build cannot work here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. /etc/os-release
release=${DIB_RELEASE:-$VERSION_CODENAME}

missing() { echo "env.sh: $*" >&2; exit 1; }

mirror_of() { # suite: prints its URL in apt, without a trailing slash
  apt-get indextargets --format '$(RELEASE) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$1" '$1 == suite { sub("/$", "", $2); print $2; exit }'
}

[ -x /usr/bin/disk-image-create ] || missing "no disk-image-create; run test/dib/install.sh"
command -v sudo >/dev/null || missing "no sudo; run test/dib/install.sh"
[ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null || missing "needs root or sudo without a password"
[ -e /dev/loop-control ] || missing "no loop devices: /dev/loop-control is not there"

mirror=$(mirror_of "$release")
security=$(mirror_of "$release-security")
cat <<END
export DIB_RELEASE=$release
export DIB_DISTRIBUTION_MIRROR=${mirror:-http://deb.debian.org/debian}
export DIB_DEBIAN_SECURITY_MIRROR=${security:-http://deb.debian.org/debian-security}
export DIB_DEBIAN_SECURITY_SUBPATH=-security
export DIB_DEBOOTSTRAP_CACHE=1
export DIB_DEBIAN_USE_DEBOOTSTRAP_CACHE=1
export ELEMENTS_PATH='$here/elements'
export SKIP_BASE=1
END
