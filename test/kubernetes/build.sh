#!/bin/bash
# Prints the path of the program with the API server and the controllers of Kubernetes, after building it from the Go module in
# apiserver. Keeps a build of the same sources.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${TMPDIR:-/tmp}/npctl-kube-$(cat "$here"/apiserver/*.go "$here"/apiserver/go.* | sha256sum | cut -c1-12)
exec 8>"$program.lock" && flock 8 # another script may build it at the same time
if [ ! -x "$program" ]; then
  (cd "$here/apiserver" && go build -ldflags="-s -w" -o "$program.new" .) >&2
  mv "$program.new" "$program"
fi
echo "$program"
