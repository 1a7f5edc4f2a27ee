# What labs with a Zuul have in common. Sourced after ../openstack/lib/process.sh; $DIR is the lab's directory.

# postgres starts a database on a socket in DIR/postgres; its user and its database are called zuul.
postgres() {
  local bin
  bin=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -1)
  mkdir -p "$DIR/postgres"
  chown postgres "$DIR/postgres"
  (cd / && runuser -u postgres -- "$bin/initdb" -D "$DIR/postgres/data" -A trust -U zuul --no-sync) >"$LOG/initdb.log" 2>&1 ||
    { cat "$LOG/initdb.log" >&2; die "initdb failed"; }
  start postgres - runuser -u postgres -- "$bin/postgres" -D "$DIR/postgres/data" -c listen_addresses= -c fsync=off \
    -c unix_socket_directories="$DIR/postgres"
  wait_for postgres 30 psql -h "$DIR/postgres" -U zuul -c 'create database zuul' postgres
}

# program makes DIR/NAME, which runs a command.
program() { # name command...
  local file=$DIR/$1
  shift
  { echo '#!/bin/bash'; printf 'exec'; printf ' %q' "$@"; echo ' "$@"'; } >"$file"
  chmod +x "$file"
}
