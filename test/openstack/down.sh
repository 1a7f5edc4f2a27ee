#!/bin/bash
# Stops the processes that up.sh started, and no others.
#   ./down.sh            stop; up.sh starts them again
#   ./down.sh --purge    stop and delete the work directory
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/lib/settings.sh"
. "$here/lib/process.sh"

purge=
case ${1:-} in
  "") ;;
  --purge) purge=1 ;;
  *) echo "usage: $0 [--purge]" >&2; exit 2 ;;
esac
[ -d "$RUN" ] || { say "no lab in $WORK"; exit 0; }
exec 9>"$WORK/up.lock"
flock -n 9 || die "another up.sh or down.sh is at work in $WORK"

if [ -n "$purge" ]; then # no data is kept, so SIGKILL is fine
  [ -f "$WORK/ports" ] || die "$WORK is no lab of ours, not deleting it"
  for name in $PROCESSES; do stop "$name" 0 & done
  wait
  rm -rf "$WORK"
  say "stopped, deleted $WORK"
  exit
fi

services=$(for name in $PROCESSES; do [[ " $BACKENDS " == *" $name "* ]] || echo "$name"; done)
for name in $services; do stop "$name" 10 & done
wait
for name in mariadb memcached rabbitmq; do stop "$name" 30 & done
wait
stop epmd 5
say "stopped"
