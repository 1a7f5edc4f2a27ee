#!/bin/bash
# A real Gitea 1.25 on loopback, with SQLite and without web assets.
#   ./lab.sh start DIR    everything is below DIR, the settings for tests in DIR/env.sh
#   ./lab.sh stop DIR     stop it; DIR stays
#   ./lab.sh purge DIR    stop it and delete DIR
#   ./lab.sh env DIR      print the settings
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# = 2 ] || { sed -n 2,6p "$0"; exit 2; }
DIR=$(realpath -m "$2") RUN=$DIR/run LOG=$DIR/log ADDRESS=127.0.0.1
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
. "$source/../openstack/lib/process.sh"
. "$source/../lib/ports.sh"

configuration() { # port
  cat >"$DIR/app.ini" <<END
WORK_PATH = $DIR/data
RUN_MODE = prod
RUN_USER = $(id -un)
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
[server]
STATIC_ROOT_PATH = $program/src
HTTP_ADDR = $ADDRESS
HTTP_PORT = $1
ROOT_URL = http://$ADDRESS:$1/
DISABLE_SSH = true
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
[log]
LEVEL = Warn
[service]
DISABLE_REGISTRATION = true
END
  echo "$1" >"$DIR/port"
  gitea migrate >"$LOG/migrate.log" 2>&1 || { tail -25 "$LOG/migrate.log" >&2; die 'gitea migrate failed'; }
}

gitea() { "$program/gitea" -c "$DIR/app.ini" "$@"; }

# accounts creates the administrator, and the account of npctl with only the scopes that it needs.
accounts() {
  local name
  for name in admin npctl-bot; do
    gitea admin user create --username $name --random-password --email $name@example.com --must-change-password=false $([ $name != admin ] || echo --admin) >>"$LOG/accounts.log" 2>&1
  done
  printf 'export %s=%q\n' NPCTL_TEST_GITEA "http://$ADDRESS:$(cat "$DIR/port")" \
    NPCTL_TEST_GITEA_ADMIN "$(gitea admin user generate-access-token --username admin --scopes all --raw 2>>"$LOG/accounts.log" | tail -1)" \
    NPCTL_TEST_GITEA_TOKEN "$(gitea admin user generate-access-token --username npctl-bot --scopes write:issue,write:repository,read:user --raw 2>>"$LOG/accounts.log" | tail -1)" \
    >"$DIR/env.sh"
}

case $1 in
  start)
    mkdir -p "$RUN" "$LOG" "$DIR/data"
    program=$("$source/install.sh")
    [ -s "$DIR/port" ] || configuration "$(choose_ports 1)"
    start gitea "$(cat "$DIR/port")" "$program/gitea" -c "$DIR/app.ini" web
    wait_for gitea curl -sf -m 3 "http://$ADDRESS:$(cat "$DIR/port")/api/v1/version"
    [ -s "$DIR/env.sh" ] || accounts
    echo "Gitea listens at http://$ADDRESS:$(cat "$DIR/port")" ;;
  stop) stop gitea 10 ;;
  purge) stop gitea 10; rm -rf --one-file-system "$DIR" ;;
  env) cat "$DIR/env.sh" ;;
  *) sed -n 2,6p "$0"; exit 2 ;;
esac
