#!/bin/bash
# Sets the faults of the lab; README.md describes the rules.
#   ./faults.sh set '[{"on":"spawn","name":"x-*","action":"error"}]'
#   ./faults.sh clear
#   ./faults.sh pause NAME…      let a process hang: SIGSTOP to it and its workers
#   ./faults.sh resume NAME…
#   ./faults.sh stop NAME…       end a process; up.sh starts it again
#   ./faults.sh list             names of the processes
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/settings.sh"
. "$here/lib/process.sh"
[ -d "$RUN" ] || die "no lab in $WORK; run up.sh first"

set_rules() { # json
  $PYTHON -c 'import json, sys; assert isinstance(json.loads(sys.argv[1]), list)' "$1" 2>/dev/null ||
    die "not a JSON list: $1"
  rm -f "$FAULTS.used"
  printf '%s\n' "$1" >"$FAULTS.new"
  mv "$FAULTS.new" "$FAULTS"
}

signal() { # signal name...
  local name pid
  for name in "${@:2}"; do
    pid=$(pid_of "$name") || die "$name does not run"
    kill "-$1" -- "-$pid"
  done
}

case ${1:-} in
  set) set_rules "${2:?rules, as a JSON list}" ;;
  clear) set_rules '[]' ;;
  pause) signal STOP "${@:2}" ;;
  resume) signal CONT "${@:2}" ;;
  stop) for name in "${@:2}"; do stop "$name" 15; done ;;
  list) for name in $PROCESSES; do running "$name" && echo "$name"; done ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
