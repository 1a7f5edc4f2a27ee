#!/bin/bash
# Fetches the published descriptions that the requests and documents of npctl review have to match, and prints their settings for
# tests. npm and go fetch them from their registries; they stay below the temporary directory for later runs.
#   ./install.sh           print the settings
#   ./install.sh --list    print the names of the Debian packages
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../openstack/lib/apt.sh"

octokit=@octokit/openapi@23.0.2
octokit_sum=a55f0cecbf46636dc0c9b36f4e6a369f28e6a669edebedac444fedaabd192d070f4b8967c3bbb979918d9b044d9010b70fb8195db171e401f32d455105718386
sarif=@microsoft/jest-sarif@1.0.0-beta.0
sarif_sum=0357ce84f77a21ce620e4e05f583f0d6a341e1717eefe22f891ef197caf617a433424c7972963d2ec1a4dab1318852047016e3a559d29b058606e9004a4890f4
gitea=code.gitea.io/gitea@v1.25.5 # of go.sum's database

# unpack fetches a package of npm and extracts one file.
unpack() { # package, SHA-512, path in it, file
  local archive
  archive=$(npm pack --silent "$1")
  sha512sum --quiet -c - <<<"$2  $archive"
  tar -xzOf "$archive" "package/$3" >"$4.part"
  mv "$4.part" "$4"
  rm "$archive"
}

case ${1:-} in
  --list) printf '%s\n' npm; exit ;;
  "") ;;
  *) echo "usage: $0 [--list]" >&2; exit 2 ;;
esac
command -v npm >/dev/null || apt_install npm >&2
dir=${TMPDIR:-/tmp}/npctl-descriptions-$(printf '%s\n' "$octokit" "$sarif" "$gitea" | sha256sum | head -c 12)
mkdir -p "$dir"
exec 8>"$dir.lock" && flock 8
cd "$dir"
[ -s github.json ] || unpack "$octokit" "$octokit_sum" generated/api.github.com.json github.json
[ -s sarif.json ] || unpack "$sarif" "$sarif_sum" lib/schemas/sarif-2.1.0-rtm.5.json sarif.json
if [ ! -s gitea.json ]; then
  module=$(GOFLAGS=-mod=mod go mod download -json "$gitea" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
  cp "$module/templates/swagger/v1_json.tmpl" gitea.json
fi
printf 'export %s=%q\n' NPCTL_TEST_OPENAPI_GITHUB "$dir/github.json" NPCTL_TEST_OPENAPI_GITEA "$dir/gitea.json" NPCTL_TEST_SARIF_SCHEMA "$dir/sarif.json"
