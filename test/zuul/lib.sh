# Common functions of the labs with a Zuul. Source it after ../openstack/lib/process.sh. $DIR is the directory of the lab, and
# $ADDRESS its listen address.
ZUUL_LIB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

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
  wait_for postgres psql -h "$DIR/postgres" -U zuul -c 'create database zuul' postgres
}

# meeting_place starts the ZooKeeper; its settings are in DIR/zookeeper/env.sh.
meeting_place() { "$ZUUL_LIB/../zookeeper/lab.sh" start "$DIR/zookeeper"; }
leave_meeting_place() { [ ! -s "$DIR/zookeeper/ports" ] || "$ZUUL_LIB/../zookeeper/lab.sh" kill "$DIR/zookeeper"; }

# zuul_conf writes DIR/zuul.conf with the common settings.
zuul_conf() { # web port
  . "$DIR/zookeeper/env.sh"
  cat >"$DIR/zuul.conf" <<END
[zookeeper]
hosts=$NPCTL_TEST_ZOOKEEPER
tls_cert=$NPCTL_TEST_ZOOKEEPER_CERT
tls_key=$NPCTL_TEST_ZOOKEEPER_KEY
tls_ca=$NPCTL_TEST_ZOOKEEPER_CA
session_timeout=20
[keystore]
password=keystore
[database]
dburi=postgresql+psycopg2://zuul@/zuul?host=$DIR/postgres
[scheduler]
tenant_config=$DIR/tenants.yaml
state_dir=$DIR/state
pidfile=$DIR/state/scheduler.pid
command_socket=$DIR/state/scheduler.socket
[web]
listen_address=$ADDRESS
port=$1
root=http://$ADDRESS:$1/
pidfile=$DIR/state/web.pid
command_socket=$DIR/state/web.socket
[auth "test"]
driver=HS256
allow_authz_override=true
realm=zuul.example.org
default=true
client_id=zuul
issuer_id=npctl-test
secret=a-secret-of-more-than-thirty-two-bytes
END
}

# admin_token creates DIR/admin-token, which prints a token like those of Zuul's operators.
admin_token() { # venv, tenant, seconds
  program admin-token "$1/bin/python" -W ignore "$1/bin/zuul-admin" -c "$DIR/zuul.conf" create-auth-token --auth-config test \
    --tenant "$2" --user admin --expires-in "$3"
}

# program creates DIR/NAME, which runs a command.
program() { # name command...
  local file=$DIR/$1
  shift
  { echo '#!/bin/bash'; printf 'exec'; printf ' %q' "$@"; echo ' "$@"'; } >"$file"
  chmod +x "$file"
}
