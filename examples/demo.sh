#!/bin/sh
# The quickstart from end to end: plan, apply, plan again, change a line, destroy. It works in a temporary directory, so
# nothing is left behind, and needs nothing but npctl: no root, no network, no account.
#
#   examples/demo.sh [NPCTL]        (default: npctl in PATH)
set -eu

npctl=${1:-npctl}
case $npctl in
*/*) npctl=$(cd "$(dirname "$npctl")" && pwd)/$(basename "$npctl") ;;
esac
examples=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM

show() {
  printf '\n$ npctl %s\n' "$*"
  "$npctl" "$@"
}

must_end_with() { # words: the last line of the plan is that
  last=$("$npctl" plan "-no-color" | tail -n 1)
  case $last in
  "$1"*) ;;
  *)
    echo "demo: the plan ends with \"$last\" and not with \"$1\"" >&2
    exit 1
    ;;
  esac
}

cp "$examples/quickstart.hcl" "$dir/npctl.hcl"
cd "$dir"

echo "# An image, a label and two providers in one file: examples/quickstart.hcl"
show validate
show plan
show apply -auto-approve
show plan
must_end_with "No changes."
show state list

echo
echo "# One line is changed: GREETING, which is baked into the image."
sed -i.old 's/GREETING = "hello"/GREETING = "good day"/' npctl.hcl
! diff npctl.hcl.old npctl.hcl
rm npctl.hcl.old
show plan
must_end_with "Plan: 1 to build, 1 to upload,"

show destroy -auto-approve
echo
echo "# Nothing is left, and the demo went well."
