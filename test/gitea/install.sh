#!/bin/bash
# Prints the directory with a real Gitea, after building it from its Go module if needed: five minutes of CPU time, and 700 MB of modules.
# The directory has the program, gitea, and its files, src. It stays below the temporary directory for later runs.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../openstack/lib/apt.sh"

module=code.gitea.io/gitea@v1.25.5 # later versions need modules that the proxy may not have
command -v gcc >/dev/null || apt_install gcc libc6-dev >&2
dir=${TMPDIR:-/tmp}/npctl-gitea-${module##*@}
mkdir -p "$dir"
exec 8>"$dir.lock" && flock 8
if [ ! -x "$dir/gitea" ]; then
  rm -rf "$dir/src"
  cp -r "$(GOFLAGS=-mod=mod go mod download -json "$module" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" "$dir/src"
  chmod -R u+w "$dir/src"
  (cd "$dir/src" && CGO_ENABLED=1 GOFLAGS='-buildvcs=false -trimpath' go build -tags 'sqlite sqlite_unlock_notify' -ldflags '-s -w' -o "$dir/gitea.part" .) >&2
  mv "$dir/gitea.part" "$dir/gitea"
fi
echo "$dir"
