#!/bin/bash
# Runs the first two commands of README.md like a newcomer: as an unprivileged user, on a minimal Debian 12 with Go, make,
# git and certificates, in a new clone of the commit. Fails if one of the commands fails, for example because a test needs a
# tool that the README does not name. The newcomer reads this machine's caches of Go, whose contents are addressed by hash, and
# writes to its own, but reads no result of a test.
#
# Needs root. All mounts and processes are in a separate namespace, which ends with the script.
#   NPCTL_NEWCOMER_KEEP=1 ./run.sh      keeps the root directory
#   NPCTL_NEWCOMER_ALONE=1 ./run.sh     with empty caches, so that the newcomer downloads and compiles everything
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
. test/lib/gotest.sh
. test/openstack/lib/apt.sh

readonly suite=bookworm uid=1000 limit=40m

# In the namespace: run.sh inside ROOT GO
if [ "${1:-}" = inside ]; then
  . "$here/inside.sh"
  inside "${@:2}"
  exit
fi

# commands prints the commands of the first indented block in README.md, without comments.
commands() {
  awk '/^    make / { sub(/ +#.*/, ""); sub(/^ +/, ""); print; found = 1; next } found { exit }' README.md
}

# mirror prints the Debian mirror of this machine.
mirror() {
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' "Codename: $suite" 2>/dev/null | grep -m 1 . ||
    echo http://deb.debian.org/debian
}

# debian prints the path of a minimal Debian with this machine's mirror and proxy, as an archive. It is made again when the
# mirror has other packages.
debian() {
  local mirror line packages=make,git,ca-certificates options=() archive new
  mirror=$(mirror)
  archive=${TMPDIR:-/tmp}/npctl-debian-$({ echo "$mirror $packages"; cat /var/lib/apt/lists/*_"$suite"*_InRelease 2>/dev/null || date +%F; } | sha256sum | head -c 12).tar
  if [ ! -e "$archive" ]; then
    while read -r line; do options+=(--aptopt="$line"); done \
      < <(apt-config dump Acquire::http::Proxy Acquire::https::Proxy Acquire::https::CAInfo | grep -v '""')
    new=$(mktemp "$archive.XXXXXX.tar") # other runs may start at the same time
    mmdebstrap --quiet --mode=root --variant=minbase --include="$packages" "${options[@]}" "$suite" "$new" "$mirror" </dev/null
    rm -f "${TMPDIR:-/tmp}"/npctl-debian-????????????.tar
    mv "$new" "$archive"
  fi
  echo "$archive"
}

# make_root unpacks a minimal Debian and adds this machine's certificates.
make_root() { # directory
  tar --extract --numeric-owner --xattrs --file "$(debian)" --directory "$1"
  cp /etc/resolv.conf "$1/etc/resolv.conf"
  if [ -d /usr/local/share/ca-certificates ]; then
    cp -rL /usr/local/share/ca-certificates/. "$1/usr/local/share/ca-certificates/"
  fi
  in_root "$1" update-ca-certificates >/dev/null 2>&1
  in_root "$1" useradd --create-home --uid "$uid" --shell /bin/bash newcomer
}

# in_root runs a command in the root, without the environment of this machine, whose $TMPDIR does not exist there.
in_root() { # directory command...
  chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "${@:2}"
}

# clone clones the commit into the home of the newcomer, without untracked files.
clone() { # directory
  local to=$1/home/newcomer/npctl settings=$1/root/gitconfig
  export GIT_CONFIG_GLOBAL=$settings # a checkout that belongs to another user is no error
  git config --file "$settings" safe.directory '*'
  git clone --quiet --no-local "file://$PWD" "$to"
  git -C "$to" checkout --quiet --detach "$(git rev-parse HEAD)"
  unset GIT_CONFIG_GLOBAL
  chown -R "$uid:$uid" "$to"
}

# settings prints the variables that the newcomer receives from this machine: those of the network and of the compiler.
settings() {
  local name
  for name in {http,https,ftp,all,no}_proxy {HTTP,HTTPS,FTP,ALL,NO}_PROXY; do
    [ -z "${!name:-}" ] || echo "$name=${!name}"
  done
  for name in GOPROXY GOSUMDB GONOSUMDB GONOPROXY GOPRIVATE GOINSECURE GOFLAGS; do
    echo "$name=$(go env "$name")"
  done
}

clean() {
  [ -z "${worker:-}" ] || { kill "$worker" 2>/dev/null && wait "$worker" || true; }
  [ -n "${NPCTL_NEWCOMER_KEEP:-}" ] || rm -rf --one-file-system "$root"
}

as_root_or_die
mapfile -t wanted < <(commands)
[ "${#wanted[@]}" = 2 ] || { echo "README.md begins with ${#wanted[@]} commands and not with two: ${wanted[*]}" >&2; exit 1; }
apt_install mmdebstrap git util-linux
caches=()
if [ -z "${NPCTL_NEWCOMER_ALONE:-}" ]; then
  go mod download
  caches=("$(go env GOMODCACHE)" "$(go env GOCACHE)")
fi
root=$(mktemp -d "${TMPDIR:-/tmp}/npctl-newcomer.XXXXXX")
chmod 755 "$root"
trap clean EXIT
trap 'exit 130' INT TERM
began=$SECONDS
make_root "$root"
clone "$root"
settings >"$root/settings"
printf '%s\n' "${wanted[@]}" >"$root/commands"
echo "newcomer: a minimal Debian is ready after $((SECONDS - began)) s"
unshare --mount --pid --fork --kill-child --propagation private -- "$here/run.sh" inside "$root" "$(go env GOROOT)" "${caches[@]}" </dev/null &
worker=$!
wait "$worker"
