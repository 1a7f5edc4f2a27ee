#!/bin/bash
# A real Zuul on loopback: ZooKeeper with TLS, PostgreSQL on a socket, zuul-scheduler and zuul-web. No executor: Zuul's
# own code inserts builds into the database (put_builds.py).
#   ./lab.sh start DIR VENV   start it, as root; everything is below DIR, the settings for tests in DIR/env.sh
#   ./lab.sh stop DIR         stop it; DIR stays
# Tenants: "open", which everyone may read, and "closed", which needs a token with the subject npctl.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 2 ] || { sed -n 2,7p "$0"; exit 2; }
DIR=$(realpath -m "$2") RUN=$DIR/run LOG=$DIR/log ADDRESS=127.0.0.1
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
. "$source/../openstack/lib/process.sh"
. "$source/../lib/ports.sh"
. "$source/lib.sh"

tenants() {
  cat >"$DIR/tenants.yaml" <<END
- authorization-rule:
    name: reader
    conditions:
      - sub: npctl
- tenant:
    name: open
    source: {}
- tenant:
    name: closed
    access-rules: [reader]
    source: {}
END
}

# Programs for tests: one inserts builds, one prints a token for a subject and a number of seconds, and one prints
# operators' tokens.
tools() { # venv, web port
  program put "$1/bin/python" "$source/put_builds.py" "$DIR/zuul.conf"
  program token "$1/bin/python" "$source/make_token.py" "$DIR/zuul.conf"
  admin_token "$1" closed 60
  printf 'export %s=%q\n' NPCTL_TEST_ZUUL "http://$ADDRESS:$2" NPCTL_TEST_ZUUL_PUT "$DIR/put" NPCTL_TEST_ZUUL_TOKEN "$DIR/token" \
    NPCTL_TEST_ZUUL_ADMIN_TOKEN "$DIR/admin-token" >"$DIR/env.sh"
}

# zuul-web has a tenant when the scheduler has loaded it.
tenants_are_there() { # port
  local tenant
  for tenant in open closed; do
    curl -sf -m 5 "http://$ADDRESS:$1/api/tenants" | grep -q "\"name\": \"$tenant\"" || return 1
  done
  curl -sf -m 5 "http://$ADDRESS:$1/api/tenant/open/builds" | grep -q '^\['
}

case $1 in
  start)
    venv=$(realpath "${3:?virtual environment with zuul}")
    mkdir -p "$RUN" "$LOG" "$DIR/state"
    chmod 755 "$DIR" # the database runs as another user
    web=$(choose_ports 1)
    meeting_place
    postgres
    zuul_conf "$web"
    tenants
    start scheduler - "$venv/bin/zuul-scheduler" -f -c "$DIR/zuul.conf"
    start web "$web" "$venv/bin/zuul-web" -f -c "$DIR/zuul.conf"
    wait_for web tenants_are_there "$web"
    running scheduler || { show_log scheduler; die "scheduler has ended"; }
    tools "$venv" "$web"
    echo "zuul-web listens at http://$ADDRESS:$web/" ;;
  stop)
    for name in web scheduler postgres; do stop "$name" 10; done
    leave_meeting_place ;;
  *) sed -n 2,7p "$0"; exit 2 ;;
esac
