#!/bin/bash
# A real Zuul on loopback: ZooKeeper with TLS, PostgreSQL on a socket, zuul-scheduler and zuul-web. No executor: builds are
# put into its database by Zuul's own code (put_builds.py).
#   ./lab.sh start DIR VENV   start it, as root; everything is below DIR, the settings for tests in DIR/env.sh
#   ./lab.sh stop DIR         stop it; DIR stays
# Tenants: "open", which anybody may read, and "closed", which needs a token whose subject is npctl.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ $# -ge 2 ] || { sed -n 2,7p "$0"; exit 2; }
DIR=$(realpath -m "$2") RUN=$DIR/run LOG=$DIR/log ADDRESS=127.0.0.1
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
. "$source/../openstack/lib/process.sh"
. "$source/../lib/ports.sh"
. "$source/lib.sh"

certificates() { # a CA, and one pair for server and clients
  mkdir -p "$DIR/tls"
  (
    cd "$DIR/tls"
    openssl req -x509 -newkey rsa:2048 -nodes -days 30 -keyout ca.key -out ca.pem -subj /CN=npctl-test-ca
    openssl req -newkey rsa:2048 -nodes -keyout node.key -out node.csr -subj /CN=localhost
    printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' >extensions
    openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile extensions -out node.pem
    openssl pkcs8 -topk8 -nocrypt -in node.key -out node.p8
    cat node.p8 node.pem >store.pem
  ) 2>"$LOG/openssl.log" || { cat "$LOG/openssl.log" >&2; die "openssl failed"; }
}

zookeeper() { # plain port, TLS port
  mkdir -p "$DIR/zookeeper"
  cat >"$DIR/zookeeper/zoo.cfg" <<END
dataDir=$DIR/zookeeper
clientPortAddress=$ADDRESS
clientPort=$1
secureClientPortAddress=$ADDRESS
secureClientPort=$2
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location=$DIR/tls/store.pem
ssl.trustStore.location=$DIR/tls/ca.pem
ssl.clientAuth=need
ssl.hostnameVerification=false
4lw.commands.whitelist=srvr
admin.enableServer=false
END
  printf '%s\n' 'log4j.rootLogger=WARN, A' 'log4j.appender.A=org.apache.log4j.ConsoleAppender' \
    'log4j.appender.A.layout=org.apache.log4j.PatternLayout' 'log4j.appender.A.layout.ConversionPattern=%d %p %m%n' \
    >"$DIR/zookeeper/log4j.properties"
  # the jar of Debian's package does not name all that it needs
  local path
  path=$DIR/zookeeper:$(printf '%s:' /usr/share/java/{zookeeper,slf4j-log4j12,log4j-1.2}.jar /usr/share/java/netty*.jar)
  start zookeeper "$1" java -Xmx256m -Dzookeeper.jmx.log4j.disable=true -cp "$path" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain "$DIR/zookeeper/zoo.cfg"
  wait_for zookeeper 60 zookeeper_is_up "$1"
}

zookeeper_is_up() { echo srvr | nc -w1 -N $ADDRESS "$1" | grep -q Mode; }

settings() { # ZooKeeper's port, web port
  cat >"$DIR/zuul.conf" <<END
[zookeeper]
hosts=$ADDRESS:$1
tls_cert=$DIR/tls/node.pem
tls_key=$DIR/tls/node.key
tls_ca=$DIR/tls/ca.pem
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
port=$2
root=http://$ADDRESS:$2/
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

# Programs for tests: one that puts builds, one that prints a token for a subject and a number of seconds, and one that
# prints a token the way Zuul's operators make them.
tools() { # venv, web port
  program put "$1/bin/python" "$source/put_builds.py" "$DIR/zuul.conf"
  program token "$1/bin/python" "$source/make_token.py" "$DIR/zuul.conf"
  program admin-token "$1/bin/python" -W ignore "$1/bin/zuul-admin" -c "$DIR/zuul.conf" create-auth-token --auth-config test \
    --tenant closed --user admin --expires-in 60
  printf 'export %s=%q\n' NPCTL_TEST_ZUUL "http://$ADDRESS:$2" NPCTL_TEST_ZUUL_PUT "$DIR/put" NPCTL_TEST_ZUUL_TOKEN "$DIR/token" \
    NPCTL_TEST_ZUUL_ADMIN_TOKEN "$DIR/admin-token" >"$DIR/env.sh"
}

# A tenant shows up in zuul-web once the scheduler has laid it out.
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
    read -r plain secure web < <(choose_ports 3)
    certificates
    zookeeper "$plain" "$secure"
    postgres
    settings "$secure" "$web"
    start scheduler - "$venv/bin/zuul-scheduler" -f -c "$DIR/zuul.conf"
    start web "$web" "$venv/bin/zuul-web" -f -c "$DIR/zuul.conf"
    wait_for web 120 tenants_are_there "$web"
    running scheduler || { show_log scheduler; die "scheduler has ended"; }
    tools "$venv" "$web"
    echo "zuul-web listens at http://$ADDRESS:$web/" ;;
  stop)
    for name in web scheduler postgres zookeeper; do stop "$name" 10; done ;;
  *) sed -n 2,7p "$0"; exit 2 ;;
esac
