#!/bin/bash
# Installs the packages for the tests against a real Gerrit; does nothing if all are installed.
#   ./install.sh              install as root, or print the missing packages
#   ./install.sh --list       print the package names
#   ./install.sh --classpath  print the path of a file with Gerrit's class path, after fetching Gerrit with Maven if needed
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../openstack/lib/apt.sh"

packages=(
  maven                   # fetches Gerrit from Maven Central
  openjdk-17-jdk-headless # runs it, and compiles its start
  git
  curl
  openssh-client          # creates the key of the administrator
)

# classpath fetches the jars of pom.xml. Its file has a hash of pom.xml, so that another Gerrit is another file.
classpath() {
  local dir file
  dir=${TMPDIR:-/tmp}/npctl-gerrit-$(sha256sum "$here/pom.xml" | head -c 12) file=
  mkdir -p "$dir"
  file=$dir/classpath
  exec 8>"$dir.lock" && flock 8
  if [ ! -s "$file" ]; then
    cp "$here/pom.xml" "$dir"
    (cd "$dir" && mvn -q -B dependency:build-classpath -Dmdep.outputFile=classpath.part) >&2
    mv "$dir/classpath.part" "$file"
  fi
  echo "$file"
}

case ${1:-} in
  --list) printf '%s\n' "${packages[@]}" ;;
  --classpath) classpath ;;
  "") apt_install "${packages[@]}" ;;
  *) echo "usage: $0 [--list|--classpath]" >&2; exit 2 ;;
esac
